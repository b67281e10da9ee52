package recent

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A Door returns the space of a reporter's messages and queries: "" for the node itself and the
// reporters whom its administrator trusts, or else the name of the reporter's network. ok is false
// for a reporter without the right to report.
type Door func(bulkhead.Reporter) (space Space, ok bool)

// A House is a Counter that completes digests from recent messages. Its methods may be called
// concurrently.
type House struct {
	bulkhead.Counter
	memory     Memory
	door       Door
	deliveries *Deliveries // nil: votes are not joined with deliveries
	archive    Archive
	readings   readings
	Stats      Stats
	// Unjoined is called for each vote of a trusted reporter whose delivery was not found. nil: no
	// call. It is set before the House is used.
	Unjoined func(*bulkhead.Report)
}

// Stats are the counters of a House.
type Stats struct {
	Reports atomic.Int64                    // votes by digests alone that acted on a whole message
	Checks  atomic.Int64                    // queries by digests that were answered for a whole message
	Joins   [bulkhead.NumJoins]atomic.Int64 // votes by how they were joined with their deliveries
}

// New returns a House in front of another Counter.
func New(house bulkhead.Counter, memory Memory, whose Door) *House {
	return &House{Counter: house, memory: memory, door: whose}
}

// maxSignatures is the largest number of signatures in a completed query or vote. Every
// clearinghouse accepts this number.
const maxSignatures = 960

// note remembers a whole message.
func (h *House) note(sigs []bulkhead.Signature, source *bulkhead.Source, who bulkhead.Reporter) {
	space, ok := h.door(who)
	if !ok {
		return
	}
	h.memory.Note(sigs, space, network(source))
}

// network returns the network that delivered a message, "" if unknown. It is the share of the
// message, so a flood from a network displaces only messages from there.
func network(s *bulkhead.Source) string {
	if !s.Client.IsValid() {
		return ""
	}
	return door.NetworkOf(s.Client).String()
}

// Check implements [bulkhead.Clearinghouse]. The findings are about the query's signatures. The
// rest of the verdict is about the whole message, if it is known.
func (h *House) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	alone := q
	isWhole := Whole(q.Signatures)
	if !isWhole {
		q.Signatures = h.joined(q.Signatures, q.Reporter)
	}
	v, err := h.Counter.Check(ctx, q)
	if err != nil {
		return v, err
	}
	h.learn(&q, &v, isWhole)
	if len(q.Signatures) > len(alone.Signatures) {
		if err := h.atLeast(ctx, &v, &alone); err != nil {
			return v, err
		}
	}
	v.Findings = v.Findings[:min(len(v.Findings), len(alone.Signatures))]
	return v, nil
}

// atLeast replaces the verdict on a whole message by the verdict on the digests alone, if that is
// worse and there is no evidence for the message. So the result for a digest does not depend on
// whether the message was seen.
func (h *House) atLeast(ctx context.Context, v *bulkhead.Verdict, alone *bulkhead.Query) error {
	if v.Whitelisted != "" || v.Class == bulkhead.ClassGood || v.Class == bulkhead.ClassSpam ||
		v.Judged == bulkhead.Revoked {
		return nil
	}
	listed := func(f bulkhead.Finding) bool { return f.Judged == bulkhead.JudgedSpam }
	if !slices.ContainsFunc(v.Findings[:min(len(v.Findings), len(alone.Signatures))], listed) {
		return nil // the verdict on the digests alone is not worse
	}
	a, err := h.Counter.Check(ctx, *alone)
	if err == nil && a.Class > v.Class {
		*v = a
	}
	return err
}

// learn remembers a whole message that was checked, unless it is whitelisted.
func (h *House) learn(q *bulkhead.Query, v *bulkhead.Verdict, isWhole bool) {
	if !isWhole || v.Whitelisted != "" {
		return
	}
	h.note(q.Signatures, &q.Source, q.Reporter)
	if h.own(q.Reporter) {
		h.readings.note(q.Signatures, &q.Source)
	}
}

// own reports whether the administrator trusts a reporter.
func (h *House) own(who bulkhead.Reporter) bool {
	space, ok := h.door(who)
	return ok && space == ""
}

// CheckBatch checks queries[i] into verdicts[i]; see [House.Check].
func (h *House) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	asked := queries
	for i := range queries {
		if Whole(queries[i].Signatures) {
			continue
		}
		sigs := h.joined(queries[i].Signatures, queries[i].Reporter)
		if len(sigs) == len(queries[i].Signatures) {
			continue
		}
		if &asked[0] == &queries[0] {
			asked = slices.Clone(queries)
		}
		asked[i].Signatures = sigs
	}
	if err := bulkhead.CheckBatch(ctx, h.Counter, asked, verdicts); err != nil {
		return err
	}
	for i := range queries {
		v := &verdicts[i]
		h.learn(&queries[i], v, Whole(queries[i].Signatures))
		if len(asked[i].Signatures) > len(queries[i].Signatures) {
			if err := h.atLeast(ctx, v, &queries[i]); err != nil {
				return err
			}
		}
		v.Findings = v.Findings[:min(len(v.Findings), len(queries[i].Signatures))]
	}
	return nil
}

// joined returns a query's signatures completed with the other signatures of the message that the
// first digest among them identifies. It returns them unchanged if there is no such message.
func (h *House) joined(sigs []bulkhead.Signature, who bulkhead.Reporter) []bulkhead.Signature {
	for i := range sigs {
		if !digest(sigs[i].Scheme()) {
			continue
		}
		if set := h.common(&sigs[i], who); len(set) > 0 {
			h.Stats.Checks.Add(1)
			return with(sigs, set)
		}
	}
	return sigs
}

// common returns the signatures that a digest stands for: from messages in the node's own space, or
// else from messages of the reporter's network.
func (h *House) common(sig *bulkhead.Signature, who bulkhead.Reporter) []bulkhead.Signature {
	if set := h.memory.Common(nil, sig, ""); len(set) > 0 {
		return set
	}
	if space, ok := h.door(who); ok && space != "" {
		return h.memory.Common(nil, sig, space)
	}
	return nil
}

// with returns sigs, followed by the signatures of set that are not among them.
func with(sigs, set []bulkhead.Signature) []bulkhead.Signature {
	out := slices.Clone(sigs)
	for i := range set {
		if len(out) < maxSignatures && !slices.Contains(sigs, set[i]) {
			out = append(out, set[i])
		}
	}
	return out
}

// Report implements [bulkhead.Clearinghouse]. A vote by digests alone becomes one vote on each
// message that they identify, and one vote on the remaining digests.
func (h *House) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return h.CountAndReport(ctx, nil, nil, r)
}

// CountAndReport implements [bulkhead.CountReporter]; see [House.Report]. Of several votes, the first is
// counted in one step with the signatures.
func (h *House) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	if Whole(r.Signatures) {
		if r.Vote == bulkhead.Sighting && h.own(r.Reporter) {
			h.readings.complete(r.Signatures, &r.Source)
		}
		receipt, err := h.report(ctx, sigs, n, r)
		if err == nil && r.Vote == bulkhead.Sighting {
			h.delivered(&r)
		}
		if err == nil && receipt.Whitelisted < len(r.Signatures) {
			h.note(r.Signatures, &r.Source, r.Reporter)
		}
		return receipt, err
	}
	if r.Vote == bulkhead.Sighting {
		return bulkhead.CountAndReport(ctx, h.Counter, sigs, n, r) // the message was not seen
	}
	messages := h.messages(r.Signatures, r.Reporter)
	if len(messages) == 1 {
		r.Signatures = messages[0]
		return h.report(ctx, sigs, n, r)
	}
	return h.reportAll(ctx, sigs, n, r, messages)
}

// report passes a report on, a vote with the source of its delivery.
func (h *House) report(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	how := h.attribute(ctx, &r)
	receipt, err := bulkhead.CountAndReport(ctx, h.Counter, sigs, n, r)
	if err == nil {
		receipt.Delivery = how
	}
	return receipt, err
}

// messages groups the digests of a vote by the messages that they identify, each with all its
// signatures. The remaining signatures are one more group.
func (h *House) messages(sigs []bulkhead.Signature, who bulkhead.Reporter) [][]bulkhead.Signature {
	var sets [][]bulkhead.Signature
	for i := range sigs {
		if digest(sigs[i].Scheme()) {
			if set := h.common(&sigs[i], who); len(set) > 0 {
				sets = append(sets, set)
			}
		}
	}
	if len(sets) == 0 {
		return [][]bulkhead.Signature{sigs}
	}
	// Some digests are common to all copies of a message, others belong to one copy. The latter
	// identify more signatures and come first.
	slices.SortStableFunc(sets, func(a, b []bulkhead.Signature) int { return len(b) - len(a) })
	left := slices.Clone(sigs)
	var messages [][]bulkhead.Signature
	for _, set := range sets {
		of := func(s bulkhead.Signature) bool { return slices.Contains(set, s) }
		if !slices.ContainsFunc(left, of) {
			continue
		}
		messages = append(messages, set[:min(len(set), maxSignatures)])
		left = slices.DeleteFunc(left, of)
	}
	h.Stats.Reports.Add(int64(len(messages)))
	if len(left) > 0 && len(messages) == 1 && !slices.ContainsFunc(left, func(s bulkhead.Signature) bool {
		return digest(s.Scheme())
	}) {
		// The vote is about one message, so its links and identifiers belong to that message.
		messages[0] = with(messages[0], left)
		left = nil
	}
	if len(left) > 0 {
		messages = append(messages, left)
	}
	return messages
}

// atOnce is the number of votes of one report that run concurrently, so that they share a write to
// the disk.
const atOnce = 16

// reportAll votes on several messages. After an error some votes may have been counted, as with any
// request of several votes.
func (h *House) reportAll(ctx context.Context, sigs []bulkhead.Signature, n []uint32, r bulkhead.Report,
	messages [][]bulkhead.Signature) (sum bulkhead.Receipt, err error) {
	receipts, errs := make([]bulkhead.Receipt, len(messages)), make([]error, len(messages))
	for start := 0; start < len(messages); start += atOnce {
		var wg sync.WaitGroup
		for i := start; i < min(start+atOnce, len(messages)); i++ {
			wg.Go(func() {
				// A panic must fail only the request and not end the process.
				defer func() {
					if p := recover(); p != nil {
						errs[i] = fmt.Errorf("recent: a vote panicked: %v\n%s", p, debug.Stack())
					}
				}()
				one := r
				one.Signatures = messages[i]
				if i > 0 {
					receipts[i], errs[i] = h.report(ctx, nil, nil, one)
					return
				}
				receipts[0], errs[0] = h.report(ctx, sigs, n, one)
			})
		}
		wg.Wait()
	}
	for i := range receipts {
		if errs[i] != nil {
			return bulkhead.Receipt{}, errs[i]
		}
		add(&sum, &receipts[i])
	}
	return sum, nil
}

func add(sum, r *bulkhead.Receipt) {
	sum.Counted += r.Counted
	sum.Duplicate += r.Duplicate
	sum.Pending += r.Pending
	sum.Listed += r.Listed
	sum.Revoked += r.Revoked
	sum.Whitelisted += r.Whitelisted
	sum.Delivery = max(sum.Delivery, r.Delivery)
}

// Look implements [bulkhead.Counter]. The judgement is of the whole message if it is
// known: spam marks its digests, and good mail clears them.
func (h *House) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	if err := h.Counter.Look(ctx, sigs, out, what); err != nil || what&bulkhead.Judgements == 0 {
		return err
	}
	for i := range sigs {
		if !digest(sigs[i].Scheme()) {
			continue
		}
		set := h.memory.Common(nil, &sigs[i], "")
		if len(set) == 0 {
			continue
		}
		h.Stats.Checks.Add(1)
		v, err := h.Counter.Check(ctx, bulkhead.Query{Signatures: with(sigs[i:i+1], set), Terse: true})
		if err != nil {
			return err
		}
		judge(&out[i], &v)
	}
	return nil
}

// judge applies a verdict on a whole message to one of its digests.
func judge(l *bulkhead.Look, v *bulkhead.Verdict) {
	switch {
	case v.Whitelisted != "", v.Class == bulkhead.ClassGood && l.Judged == bulkhead.JudgedSpam:
		l.Judged, l.Spam, l.Confidence = bulkhead.Unjudged, 0, 0
	case v.Class == bulkhead.ClassSpam && l.Judged != bulkhead.Revoked:
		l.Judged, l.Spam, l.Confidence = bulkhead.JudgedSpam, max(l.Spam, v.SpamVotes, 1), max(l.Confidence, v.Confidence)
	}
}
