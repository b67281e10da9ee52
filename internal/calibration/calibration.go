// Package calibration measures how often the rules of the judgement are wrong on the mail of this
// node: what each rule decides, and what voters say of it afterwards.
package calibration

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
)

// Days is the number of days for which records are kept, today included.
const Days = 28

// A Record counts the decisions of one rule for one class.
type Record struct {
	Decided   uint64 // checks
	Objected  uint64 // votes that a message is wanted which was called spam or suspected
	Confirmed uint64 // votes for spam on such a message
	Missed    uint64 // votes for spam on a message that was let through
}

// Wrong returns the share of the decisions that voters contradicted, 0 to 1, with its 95 % confidence
// interval. Most readers are silent, so it is a lower bound of the mistakes. Votes may be on
// decisions of earlier days, so the share is cut at 1.
func (r Record) Wrong() (share, low, high float64) {
	wrong := min(r.Objected+r.Missed, r.Decided)
	low, high = interval.Wilson(int(wrong), int(r.Decided))
	if r.Decided > 0 {
		share = float64(wrong) / float64(r.Decided)
	}
	return share, low, high
}

// Add adds the counts of another record.
func (r *Record) Add(o Record) {
	r.Decided, r.Objected = r.Decided+o.Decided, r.Objected+o.Objected
	r.Confirmed, r.Missed = r.Confirmed+o.Confirmed, r.Missed+o.Missed
}

// A Key is a rule with a class that it has decided.
type Key struct {
	Rule  string
	Class bulkhead.Class
}

// day is the records of one day.
type day struct {
	number  int64 // since 1970
	records map[Key]Record
}

// A House is a Counter that records decisions in front of another Counter. A vote counts for the rule
// that decided when the message was checked, as far as the House remembers it. For other votes it
// judges the message once more, just before the vote counts. Its methods may be called concurrently.
type House struct {
	bulkhead.Counter
	trusted func(bulkhead.Reporter) bool
	now     func() time.Time

	mu     sync.Mutex
	days   [Days]day      // guarded by mu; by number modulo Days
	total  map[Key]Record // guarded by mu; since the start
	memory memory         // guarded by mu
}

// New returns a House. Only checks and votes of reporters for whom trusted returns true are
// remembered: strangers could otherwise discredit a rule. now is the clock of the node.
func New(house bulkhead.Counter, trusted func(bulkhead.Reporter) bool, now func() time.Time) *House {
	return &House{Counter: house, trusted: trusted, now: now, total: make(map[Key]Record)}
}

// Total returns the records since the start.
func (h *House) Total() map[Key]Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sum(nil, h.total)
}

// Records returns the records of the last days, today included. n is 1 to [Days].
func (h *House) Records(n int) map[Key]Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	today := h.today()
	all := make(map[Key]Record)
	for _, d := range h.days {
		if d.number <= today && d.number > today-int64(n) {
			sum(all, d.records)
		}
	}
	return all
}

// sum adds the records of one map to another, or to a new one, and returns it.
func sum(to, from map[Key]Record) map[Key]Record {
	if to == nil {
		to = make(map[Key]Record, len(from))
	}
	for k, r := range from {
		t := to[k]
		t.Add(r)
		to[k] = t
	}
	return to
}

func (h *House) today() int64 { return h.now().Unix() / int64(24*time.Hour/time.Second) }

// count changes today's record of a decision. The caller holds mu.
func (h *House) count(k Key, what func(*Record)) {
	if k.Rule == "" { // of a node that has none
		return
	}
	n := h.today()
	d := &h.days[((n%Days)+Days)%Days]
	if d.number != n || d.records == nil {
		*d = day{n, make(map[Key]Record)}
	}
	for _, records := range []map[Key]Record{d.records, h.total} {
		r := records[k]
		what(&r)
		records[k] = r
	}
}

// decided records a check.
func (h *House) decided(q *bulkhead.Query, v *bulkhead.Verdict) {
	trusted := h.trusted(q.Reporter)
	h.mu.Lock()
	defer h.mu.Unlock()
	k := Key{v.Rule, v.Class}
	h.count(k, func(r *Record) { r.Decided++ })
	if trusted && v.Rule != "" {
		h.memory.note(q.Signatures, q.Source.MessageID, k)
	}
}

// Check implements [bulkhead.Clearinghouse].
func (h *House) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := h.Counter.Check(ctx, q)
	if err == nil {
		h.decided(&q, &v)
	}
	return v, err
}

// CheckBatch checks queries[i] into verdicts[i].
func (h *House) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	if err := bulkhead.CheckBatch(ctx, h.Counter, queries, verdicts); err != nil {
		return err
	}
	for i := range verdicts {
		h.decided(&queries[i], &verdicts[i])
	}
	return nil
}

// Report implements [bulkhead.Clearinghouse].
func (h *House) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return h.CountAndReport(ctx, nil, nil, r)
}

// CountAndReport implements [bulkhead.CountReporter].
func (h *House) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	var k Key
	if r.Vote != bulkhead.Sighting && !r.Trap && h.trusted(r.Reporter) {
		k = h.decision(ctx, &r)
	}
	receipt, err := bulkhead.CountAndReport(ctx, h.Counter, sigs, n, r)
	if err == nil && receipt.Counted > 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.voted(r.Vote, k)
	}
	return receipt, err
}

// decision returns the decision that a vote is about.
func (h *House) decision(ctx context.Context, r *bulkhead.Report) Key {
	h.mu.Lock()
	k, ok := h.memory.find(r.Signatures, r.Source.MessageID, r.Vote)
	h.mu.Unlock()
	if ok {
		return k
	}
	v, err := h.Counter.Check(ctx, bulkhead.Query{Signatures: r.Signatures, Source: r.Source, Reporter: r.Reporter,
		Terse: true})
	if err != nil {
		return Key{}
	}
	return Key{v.Rule, v.Class}
}

// voted records a vote on a message with a decision. The caller holds mu.
func (h *House) voted(vote bulkhead.Vote, k Key) {
	flagged := k.Class >= bulkhead.ClassSuspected
	switch {
	case vote == bulkhead.Spam && flagged:
		h.count(k, func(r *Record) { r.Confirmed++ })
	case vote == bulkhead.Spam:
		h.count(k, func(r *Record) { r.Missed++ })
	case flagged:
		h.count(k, func(r *Record) { r.Objected++ })
	}
}
