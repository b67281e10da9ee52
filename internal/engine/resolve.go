package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A resolver decides what the reports of one batch do. It sees the arrays as
// they are and, in its overlay, what earlier reports of the same batch will
// do to them. Only the writer uses it.
type resolver struct {
	e    *Engine
	view *view
	out  votes

	cells   map[filter.Key]uint32 // increases decided in this batch
	weighed map[filter.Key]uint32

	members  *members // nil until somebody asks, and after a change of the accounts
	credited int      // credits of the batch before the present report
	unique   map[filter.Key]bool
	spam     map[filter.Key]bool
	revoked  map[filter.Key]bool
}

func newResolver(e *Engine) *resolver {
	return &resolver{
		e:     e,
		cells: make(map[filter.Key]uint32), weighed: make(map[filter.Key]uint32), unique: make(map[filter.Key]bool),
		spam: make(map[filter.Key]bool), revoked: make(map[filter.Key]bool),
	}
}

// begin starts a batch against the given view, which must hold an open
// generation of both books.
func (r *resolver) begin(v *view) {
	r.view = v
	r.out.reset()
	r.out.tallyGen, r.out.blockGen = v.tally[0].Start, v.block[0].Start
	clear(r.cells)
	clear(r.weighed)
	clear(r.unique)
	clear(r.spam)
	clear(r.revoked)
}

// A voter is the reporter of one report, as the decisions need it.
type voter struct {
	trust.Standing
	name  string // of the account, "" for anonymous
	who   string // identity in the unique filter
	units uint32 // weight in weightUnit ths
}

// report decides what one report does. On an error it does nothing.
func (r *resolver) report(rep *bulkhead.Report) (bulkhead.Receipt, error) {
	var receipt bulkhead.Receipt
	r.credited = len(r.out.credits)
	who := voter{name: rep.Reporter.Account, who: identity(rep.Reporter)}
	if rep.Vote != bulkhead.Sighting {
		s, err := r.e.book.Standing(rep.Reporter)
		if err != nil {
			return receipt, err
		}
		who.Standing, who.units = s, units(s.Weight)
	} else if rep.Reporter.Account != "" {
		// A sighting carries no weight, but it must come from somebody we know.
		if _, err := r.e.book.Standing(rep.Reporter); err != nil {
			return receipt, err
		}
	}
	white := r.e.whitelist.Load()
	whiteSource := rep.Vote != bulkhead.Revocation && white.source(&rep.Source) != ""
	n := min(max(rep.Count, 1), bulkhead.Many)
	for i := range rep.Signatures {
		sig := rep.Signatures[i]
		if whiteSource || white.signature(sig) || r.e.never[sig] {
			receipt.Whitelisted++
			continue
		}
		base := baseKey(r.e.opts.Secret, &sig)
		if rep.Vote == bulkhead.Sighting {
			r.sighting(&receipt, rep, who, base, n)
			continue
		}
		r.vote(&receipt, rep, who, base, n)
	}
	return receipt, nil
}

// units turns a weight into hundredths; a weight above 0 counts for at least
// one of them.
func units(weight float64) uint32 {
	if weight <= 0 {
		return 0
	}
	return max(1, uint32(math.Round(weight*weightUnit)))
}

func (r *resolver) sighting(receipt *bulkhead.Receipt, rep *bulkhead.Report, who voter, base filter.Key, n uint32) {
	if rep.ID != "" && !r.first(uniqueKey(r.e.opts.Secret, who.who, rep.Vote, rep.ID, base)) {
		receipt.Duplicate++
		return
	}
	// No decision of the batch asks for sightings: no need to keep them at hand.
	r.out.cells, r.out.n = append(r.out.cells, base.With(kindSighting)), append(r.out.n, n)
	receipt.Counted++
}

// vote decides a spam vote, a ham vote or a revocation of one signature.
func (r *resolver) vote(receipt *bulkhead.Receipt, rep *bulkhead.Report, who voter, base filter.Key, n uint32) {
	if !r.first(uniqueKey(r.e.opts.Secret, who.who, rep.Vote, "", base)) {
		receipt.Duplicate++
		if rep.Vote == bulkhead.Revocation && r.revocable(base) {
			r.revoke(receipt, who, base) // it was listed after the first one
		}
		return
	}
	receipt.Counted++
	weigh := r.outstanding(who, rep.Vote, base)
	switch rep.Vote {
	case bulkhead.Spam:
		if who.name != "" {
			r.first(r.bucketKey(bucketOf(r.e.opts.Secret, who.name), base))
		}
		r.confirm(who, base)
		r.add(base.With(kindSpam), n)
		r.weigh(base.With(kindSpamWeight), weigh)
		r.promoteSpam(receipt, base)
	case bulkhead.Ham:
		r.add(base.With(kindHam), n)
		r.weigh(base.With(kindHamWeight), weigh)
	case bulkhead.Revocation:
		r.weigh(base.With(kindRevokeWeight), weigh)
		r.promoteRevocation(receipt, who, base)
	}
}

// outstanding returns what a vote adds to the weights: the voter's weight, less
// what the voter, or the network that votes count once for, has added in the
// generations that live. Who votes again every day is not heavier for it.
func (r *resolver) outstanding(who voter, vote bulkhead.Vote, base filter.Key) uint32 {
	voice := who.who
	if who.Voucher != "" {
		voice = "network:" + who.Voucher
	}
	k := uniqueKey(r.e.opts.Secret, voice, vote, "", base)
	weigh := who.units - min(who.units, r.weight(k))
	r.weigh(k, weigh)
	return weigh
}

// promoteSpam lists a signature whose weight for spam has reached the
// promotion weight. One that the node itself lists is entered into the newest
// generation again, which keeps it from ageing out while reports go on. What
// only peers list stays theirs: the node's own listing would outlive them.
func (r *resolver) promoteSpam(receipt *bulkhead.Receipt, base filter.Key) {
	spam, against := r.weights(base)
	judged := r.judge(base)
	if r.walk(r.view.block, base) != judgedSpam && int64(spam)-int64(against) < r.promotion() {
		receipt.Pending++
		return
	}
	// A revocation of this generation stands until the next one opens.
	if r.has(r.view.block[0].revoked, r.revoked, base) {
		receipt.Pending++
		return
	}
	if !r.has(r.view.block[0].spam, r.spam, base) {
		r.spam[base] = true
		r.out.spam = append(r.out.spam, base)
	}
	if judged != bulkhead.JudgedSpam {
		receipt.Listed++
	}
}

// promoteRevocation takes a listed signature off the blocklist when the weight
// of its revocations has reached the promotion weight.
func (r *resolver) promoteRevocation(receipt *bulkhead.Receipt, who voter, base filter.Key) {
	if r.judge(base) != bulkhead.JudgedSpam {
		return
	}
	if !r.revocable(base) {
		receipt.Pending++
		return
	}
	r.revoke(receipt, who, base)
}

// revocable reports whether a signature is listed and the weight of its
// revocations takes it off.
func (r *resolver) revocable(base filter.Key) bool {
	return int64(r.weight(base.With(kindRevokeWeight))) >= r.promotion() && r.judge(base) == bulkhead.JudgedSpam
}

func (r *resolver) revoke(receipt *bulkhead.Receipt, who voter, base filter.Key) {
	r.revoked[base] = true
	r.out.revoked = append(r.out.revoked, base)
	receipt.Revoked++
	r.blame(who, base)
}

// promotion is never 0: no weight at all must not be enough.
func (r *resolver) promotion() int64 {
	return max(1, int64(math.Round(r.e.book.Policy().Promotion*weightUnit)))
}

// weights returns the weight for spam and the weight against it, in units.
func (r *resolver) weights(base filter.Key) (spam, against uint32) {
	return r.weight(base.With(kindSpamWeight)),
		addSat(r.weight(base.With(kindHamWeight)), r.weight(base.With(kindRevokeWeight)))
}

// confirm credits the members who reported the signature before an account
// that stands high does.
func (r *resolver) confirm(who voter, base filter.Key) {
	if !who.Confirms || r.count(base.With(kindSpam)) == 0 {
		return
	}
	r.eachReporter(base, func(name string, newest int) {
		if name != who.name && r.once("confirmed", name, newest, base) {
			r.credit(credit{account: name, confirmed: 1})
		}
	})
}

// blame debits the members who reported a signature that is now revoked. Who
// takes back a report of their own has mended it.
func (r *resolver) blame(who voter, base filter.Key) {
	r.eachReporter(base, func(name string, newest int) {
		if name != who.name && r.once("reverted", name, newest, base) {
			r.credit(credit{account: name, reverted: 1})
		}
	})
}

// once reports whether an account has not yet been credited with its newest
// report of a signature, or debited for it: many may confirm one report, on many
// days, and it stays one.
func (r *resolver) once(what, name string, newest int, base filter.Key) bool {
	k := uniqueKey(r.e.opts.Secret, what, bulkhead.Spam, name, base)
	for _, g := range r.view.tally[1 : newest+1] {
		if r.has(g.unique, nil, k) {
			return false
		}
	}
	return r.first(k)
}

// credit notes a change of an account's record, once for each report: a message
// has many signatures, and they stand or fall together.
func (r *resolver) credit(c credit) {
	if !slices.Contains(r.out.credits[r.credited:], c) {
		r.out.credits = append(r.out.credits, c)
	}
}

// first reports whether the key is new to the open generation's unique filter,
// and enters it.
func (r *resolver) first(k filter.Key) bool {
	if r.has(r.view.tally[0].unique, r.unique, k) {
		return false
	}
	r.unique[k] = true
	r.out.unique = append(r.out.unique, k)
	return true
}

func (r *resolver) has(set bitset, overlay map[filter.Key]bool, k filter.Key) bool {
	if overlay[k] {
		return true
	}
	var out [1]bool
	set.HasBatch([]filter.Key{k}, out[:])
	return out[0]
}

func (r *resolver) add(k filter.Key, n uint32) {
	r.cells[k] = addSat(r.cells[k], n)
	r.out.cells = append(r.out.cells, k)
	r.out.n = append(r.out.n, n)
}

func (r *resolver) weigh(k filter.Key, n uint32) {
	if n == 0 {
		return
	}
	r.weighed[k] = addSat(r.weighed[k], n)
	r.out.weighed = append(r.out.weighed, k)
	r.out.w = append(r.out.w, n)
}

func (r *resolver) weight(k filter.Key) uint32 {
	sum := r.weighed[k]
	var out [1]uint32
	for _, g := range r.view.tally {
		g.weights.CountBatch([]filter.Key{k}, out[:])
		sum = addSat(sum, out[0])
	}
	return sum
}

func (r *resolver) count(k filter.Key) uint32 {
	sum := r.cells[k]
	var out [1]uint32
	for _, g := range r.view.tally {
		g.counts.CountBatch([]filter.Key{k}, out[:])
		sum = addSat(sum, out[0])
	}
	return sum
}

// judge returns the judgement of a signature, the overlay included.
func (r *resolver) judge(base filter.Key) bulkhead.Judgement {
	own := r.walk(r.view.block, base)
	var peers peerWeight
	for _, o := range r.view.remote {
		if o.Weight == 0 {
			continue
		}
		switch r.walkRemote(o.block, base) {
		case judgedSpam:
			peers.spam += o.Weight
		case judgingRevoked, judgedSpamRevoked:
			peers.revoked += o.Weight
		}
	}
	return conclusion(own, peers, r.e.book.Policy().Promotion)
}

func (r *resolver) walk(gens []*blockGen, base filter.Key) judging {
	state := judgingNothing
	for i, g := range gens {
		spam, revoked := r.spam, r.revoked
		if i > 0 { // the overlay belongs to the open generation
			spam, revoked = nil, nil
		}
		if state = state.next(r.has(g.spam, spam, base), r.has(g.revoked, revoked, base)); state >= judgedSpam {
			break
		}
	}
	return state
}

func (r *resolver) walkRemote(gens []*remoteBlock, base filter.Key) judging {
	state := judgingNothing
	for _, g := range gens {
		spam := g.spam != nil && g.spam.Has(base)
		revoked := g.revoked != nil && g.revoked.Has(base)
		if state = state.next(spam, revoked); state >= judgedSpam {
			break
		}
	}
	return state
}

func checkReport(rep *bulkhead.Report) error {
	if rep.Vote >= bulkhead.NumVotes {
		return fmt.Errorf("%w: vote %d", bulkhead.ErrMalformed, rep.Vote)
	}
	if len(rep.ID) > 256 {
		return fmt.Errorf("%w: report id of %d bytes, limit 256", bulkhead.ErrMalformed, len(rep.ID))
	}
	return checkSignatures(rep.Signatures)
}

func checkSignatures(sigs []bulkhead.Signature) error {
	if len(sigs) == 0 {
		return fmt.Errorf("%w: no signatures: the message has nothing to tell it by", bulkhead.ErrMalformed)
	}
	if len(sigs) > MaxSignatures {
		return fmt.Errorf("%w: %d signatures, limit %d", bulkhead.ErrOverLimit, len(sigs), MaxSignatures)
	}
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: signature %d is invalid", bulkhead.ErrMalformed, i)
		}
	}
	return nil
}
