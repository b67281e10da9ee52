package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A resolver decides what the reports of one batch do. It sees the arrays as
// they are and, in its overlay, what earlier reports of the same batch will
// do to them. Only the writer uses it.
type resolver struct {
	e    *Engine
	view view
	out  votes

	cells   map[filter.Key]uint32 // increases decided in this batch
	weighed map[weighed]uint32
	ledger  ledger        // of the vote at hand
	asked   [1]filter.Key // buffers
	found   [1]bool
	counted [1]uint32

	members  *members            // nil until somebody asks, and after a change of the accounts
	credited int                 // credits of the batch before the present report
	unique   map[filter.Key]bool // of the tally
	voted    map[filter.Key]bool
	spam     map[filter.Key]bool
	revoked  map[filter.Key]bool
}

func newResolver(e *Engine) *resolver {
	return &resolver{
		e:     e,
		cells: make(map[filter.Key]uint32), weighed: make(map[weighed]uint32), unique: make(map[filter.Key]bool),
		voted: make(map[filter.Key]bool), spam: make(map[filter.Key]bool), revoked: make(map[filter.Key]bool),
	}
}

// begin starts a batch against the given view, which must hold an open
// generation of both books.
func (r *resolver) begin(v view) {
	r.view = v
	r.out.reset()
	r.out.tallyGen, r.out.blockGen = v.tally.Live[0].Start, v.block.Live[0].Start
	clear(r.cells)
	clear(r.weighed)
	clear(r.unique)
	clear(r.voted)
	clear(r.spam)
	clear(r.revoked)
}

// weighed names a cell of the weights of one generation.
type weighed struct {
	gen uint64
	key filter.Key
}

// A voter is the reporter of one report, as the decisions need it.
type voter struct {
	trust.Standing
	reporter bulkhead.Reporter
	name     string // of the account, "" for anonymous and for users on whose behalf it reports
	units    uint32 // weight in hundredths
}

// voice returns under whose name the vote weighs: the voter's own, or that of the
// network for all of whom nobody vouches.
func (v *voter) voice() string {
	if v.Voucher != "" {
		return networkVoice(v.Voucher)
	}
	return v.Voice
}

func networkVoice(voucher string) string { return "network:" + voucher }

// A reportAddition is a report and its receipt.
type reportAddition struct {
	report  bulkhead.Report
	receipt bulkhead.Receipt
}

func (a *reportAddition) signatures() int { return len(a.report.Signatures) }

func (a *reportAddition) decide(r *resolver) (err error) {
	a.receipt, err = r.report(&a.report)
	return err
}

// report decides what one report does. On an error it does nothing.
func (r *resolver) report(rep *bulkhead.Report) (bulkhead.Receipt, error) {
	var receipt bulkhead.Receipt
	r.credited = len(r.out.credits)
	who := voter{reporter: rep.Reporter}
	if rep.Reporter.User == "" {
		who.name = rep.Reporter.Account
	}
	if rep.Vote != bulkhead.Sighting {
		s, err := r.e.accounts.Standing(rep.Reporter)
		if err != nil {
			return receipt, err
		}
		who.Standing, who.units = s, units(s.Weight)
		r.active(who)
	} else {
		// A sighting carries no weight, but an account must be one we know.
		s, err := r.e.accounts.Door(rep.Reporter)
		if err != nil {
			return receipt, err
		}
		who.Standing = s
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
		r.vote(&receipt, rep, who, base)
	}
	return receipt, nil
}

// active notes on which day a member last voted.
func (r *resolver) active(who voter) {
	today := trust.Day(r.e.opts.Now())
	if a, ok := r.e.accounts.Get(who.name); ok && a.Role == trust.Member && a.Active < today {
		r.credit(trust.Credit{Account: who.name, Day: today})
	}
}

// units turns a weight into hundredths; a weight above 0 counts for at least
// one of them.
func units(weight float64) uint32 {
	if weight <= 0 {
		return 0
	}
	return max(1, uint32(math.Round(weight*verdict.Unit)))
}

func (r *resolver) sighting(receipt *bulkhead.Receipt, rep *bulkhead.Report, who voter, base filter.Key, n uint32) {
	if !who.Root {
		r.claim(receipt, who, base)
		return
	}
	if rep.ID != "" && !r.firstReport(uniqueKey(r.e.opts.Secret, who.Voice, rep.Vote, rep.ID, base)) {
		receipt.Duplicate++
		return
	}
	// No decision of the batch asks for sightings: no need to keep them at hand.
	r.out.counts.add(base.With(kindSighting), n)
	receipt.Counted++
}

// claim decides a sighting of a stranger: whatever number it names, and however
// often, it is one, and all of them are never enough for bulk.
func (r *resolver) claim(receipt *bulkhead.Receipt, who voter, base filter.Key) {
	switch {
	case r.count(base.With(kindClaims)) >= r.e.threshold.Load()/2:
		receipt.Pending++
	case !r.firstReport(uniqueKey(r.e.opts.Secret, who.voice(), bulkhead.Sighting, "", base)):
		receipt.Duplicate++
	default:
		r.add(base.With(kindClaims), 1)
		r.out.counts.add(base.With(kindSighting), 1)
		receipt.Counted++
	}
}

// vote decides a spam vote, a ham vote or a revocation of one signature. The
// latest vote of a voice replaces the one before; the same once more is counted
// once a generation.
func (r *resolver) vote(receipt *bulkhead.Receipt, rep *bulkhead.Report, who voter, base filter.Key) {
	fresh := r.first(uniqueKey(r.e.opts.Secret, who.Voice, rep.Vote, "", base))
	judged := r.judge(base)
	l := r.open(base, who.voice())
	if fresh && rep.Vote == bulkhead.Spam {
		if who.name != "" {
			r.first(r.bucketKey(bucketOf(r.e.opts.Secret, who.name), base))
		}
		if b := l.balance(); judged != bulkhead.JudgedSpam && who.Confirms && b.Spam+b.StrangerSpam > 0 {
			r.confirm(who, base)
			l = r.open(base, who.voice())
		}
	}
	kind := weightKind(rep.Vote, who.Root)
	counted := fresh || l.turned(kind)
	r.move(l, kind, who.units)
	if counted {
		receipt.Counted++
	} else {
		receipt.Duplicate++
	}
	if fresh {
		r.countVoter(rep.Vote, who, base)
	}
	if rep.Vote == bulkhead.Spam {
		r.settleSpam(receipt, l, judged, who, base, counted)
	} else {
		r.settleHam(receipt, l, judged, who, base, rep.Vote, counted)
	}
}

// countVoter counts one voter, whatever number the report names. Of those for whom
// nobody vouches, one of a network is counted.
func (r *resolver) countVoter(vote bulkhead.Vote, who voter, base filter.Key) {
	if who.Voucher != "" && !r.first(uniqueKey(r.e.opts.Secret, who.voice(), vote, "", base)) {
		return
	}
	switch vote {
	case bulkhead.Spam:
		r.add(base.With(kindSpam), 1)
	case bulkhead.Ham:
		r.add(base.With(kindHam), 1)
	}
}

// confirm credits the members who reported the signature before who, whom an
// administrator vouched for, lists it, and have not changed their mind.
func (r *resolver) confirm(who voter, base filter.Key) {
	r.eachSupporter(base, who, func(name string, newest int) {
		if r.once("confirmed", name, newest, base) {
			r.credit(trust.Credit{
				Account: name, Confirmed: 1, Day: trust.Day(r.e.opts.Now()), Network: trust.Mark(who.reporter), By: who.units,
			})
		}
	})
}

// blame debits the members who reported a signature that is now revoked, and still
// stand by it. Who takes back a report of their own has mended it.
func (r *resolver) blame(who voter, base filter.Key) {
	r.eachSupporter(base, who, func(name string, newest int) {
		if r.once("reverted", name, newest, base) {
			r.credit(trust.Credit{Account: name, Reverted: 1, Day: trust.Day(r.e.opts.Now())})
		}
	})
}

// eachSupporter calls fn for every member but who whose latest vote on the
// signature is one for spam.
func (r *resolver) eachSupporter(base filter.Key, who voter, fn func(name string, newest int)) {
	r.eachReporter(base, func(name string, newest int) {
		if name == who.name {
			return
		}
		a, ok := r.e.accounts.Get(name)
		// It voted in the name of its network before it had proved itself.
		if ok && (r.supports(base, a.Voice()) || a.From.IsValid() && r.supports(base, networkVoice(trust.Voucher(a.From)))) {
			fn(name, newest)
		}
	})
}

// once reports whether an account has not yet been credited with its newest
// report of a signature, or debited for it: many may confirm one report, on many
// days, and it stays one.
func (r *resolver) once(what, name string, newest int, base filter.Key) bool {
	k := uniqueKey(r.e.opts.Secret, what, bulkhead.Spam, name, base)
	for _, g := range r.view.block.Live[1 : newest+1] {
		if r.has(g.Votes, nil, k) {
			return false
		}
	}
	return r.first(k)
}

// credit notes a change of an account's record, once for each report: a message
// has many signatures, and they stand or fall together.
func (r *resolver) credit(c trust.Credit) {
	if !slices.Contains(r.out.credits[r.credited:], c) {
		r.out.credits = append(r.out.credits, c)
	}
}

// first reports whether the key is new to the votes of the open generation of the
// blocklist, and enters it.
func (r *resolver) first(k filter.Key) bool {
	if r.has(r.view.block.Live[0].Votes, r.voted, k) {
		return false
	}
	r.voted[k] = true
	r.out.voted = append(r.out.voted, k)
	return true
}

// firstReport is first of the sightings of the open generation of the tally.
func (r *resolver) firstReport(k filter.Key) bool {
	if r.has(r.view.tally.Live[0].Unique, r.unique, k) {
		return false
	}
	r.unique[k] = true
	r.out.unique = append(r.out.unique, k)
	return true
}

func (r *resolver) has(set book.Bitset, overlay map[filter.Key]bool, k filter.Key) bool {
	if overlay[k] {
		return true
	}
	r.asked[0] = k
	set.HasBatch(r.asked[:], r.found[:])
	return r.found[0]
}

func (r *resolver) add(k filter.Key, n uint32) {
	r.cells[k] = book.Add(r.cells[k], n)
	r.out.counts.add(k, n)
}

func (r *resolver) count(k filter.Key) uint32 {
	sum := r.cells[k]
	r.asked[0] = k
	for _, g := range r.view.tally.Live {
		g.Counts.CountBatch(r.asked[:], r.counted[:])
		sum = book.Add(sum, r.counted[0])
	}
	return sum
}

func checkReport(rep *bulkhead.Report) error {
	if rep.Vote >= bulkhead.NumVotes {
		return fmt.Errorf("%w: vote %d", bulkhead.ErrMalformed, rep.Vote)
	}
	if len(rep.ID) > bulkhead.MaxID {
		return fmt.Errorf("%w: report id of %d bytes, limit %d", bulkhead.ErrMalformed, len(rep.ID), bulkhead.MaxID)
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
