// Package calibration counts what the rules of the judgement decide, and what voters say afterwards.
// So an administrator sees how often each rule is wrong on the mail of this node.
package calibration

import (
	"context"
	"maps"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// A Record counts the decisions of one rule.
type Record struct {
	Decided   uint64 // checks
	Objected  uint64 // votes that a message is wanted which the rule would call spam or suspected
	Confirmed uint64 // votes for spam on such a message
	Missed    uint64 // votes for spam on a message that the rule would let through
}

// A House is a Counter that records decisions in front of another Counter. It judges the message of
// each vote once more, just before the vote counts. Its methods may be called concurrently.
type House struct {
	bulkhead.Counter
	trusted func(bulkhead.Reporter) bool

	mu      sync.Mutex
	records map[string]Record
}

// New returns a House. Only votes of reporters for whom trusted returns true are recorded: strangers
// could otherwise discredit a rule.
func New(house bulkhead.Counter, trusted func(bulkhead.Reporter) bool) *House {
	return &House{Counter: house, trusted: trusted, records: make(map[string]Record)}
}

// Records returns the records by rule.
func (h *House) Records() map[string]Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.records)
}

func (h *House) count(rule string, what func(*Record)) {
	if rule == "" { // of a node that has none
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.records[rule]
	what(&r)
	h.records[rule] = r
}

// Check implements [bulkhead.Clearinghouse].
func (h *House) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := h.Counter.Check(ctx, q)
	if err == nil {
		h.count(v.Rule, func(r *Record) { r.Decided++ })
	}
	return v, err
}

// CheckBatch checks queries[i] into verdicts[i].
func (h *House) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	if err := bulkhead.CheckBatch(ctx, h.Counter, queries, verdicts); err != nil {
		return err
	}
	for i := range verdicts {
		h.count(verdicts[i].Rule, func(r *Record) { r.Decided++ })
	}
	return nil
}

// Report implements [bulkhead.Clearinghouse].
func (h *House) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	judged := func() {}
	if r.Vote != bulkhead.Sighting && !r.Trap && h.trusted(r.Reporter) {
		v, err := h.Counter.Check(ctx, bulkhead.Query{Signatures: r.Signatures, Source: r.Source, Reporter: r.Reporter,
			Terse: true})
		if err == nil {
			judged = func() { h.judged(r.Vote, &v) }
		}
	}
	receipt, err := h.Counter.Report(ctx, r)
	if err == nil && receipt.Counted > 0 {
		judged()
	}
	return receipt, err
}

// judged records a vote on a message with a verdict.
func (h *House) judged(vote bulkhead.Vote, v *bulkhead.Verdict) {
	accused := v.Class >= bulkhead.ClassSuspected
	switch {
	case vote == bulkhead.Spam && accused:
		h.count(v.Rule, func(r *Record) { r.Confirmed++ })
	case vote == bulkhead.Spam:
		h.count(v.Rule, func(r *Record) { r.Missed++ })
	case accused:
		h.count(v.Rule, func(r *Record) { r.Objected++ })
	}
}
