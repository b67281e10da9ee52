// Package calibration measures how often the rules of the judgement are wrong on the mail of this
// node: what each rule decides, and what voters say of it afterwards.
package calibration

import (
	"context"
	"math"
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

// A table numbers keys, from 1. Rules are few, so a number takes the place of a key wherever there are many.
type table struct {
	keys    []Key
	numbers map[Key]uint16
}

// number returns the number of a key.
func (t *table) number(k Key) uint16 {
	n, ok := t.numbers[k]
	if !ok && len(t.keys) < math.MaxUint16 {
		t.keys = append(t.keys, k)
		n = uint16(len(t.keys))
		t.numbers[k] = n
	}
	return n
}

// key returns the key with a number, or the zero Key for 0.
func (t *table) key(n uint16) Key {
	if n == 0 {
		return Key{}
	}
	return t.keys[n-1]
}

// records are indexed by the number of their key.
type records []Record

// at returns the record of a key with a number above 0.
func (r *records) at(n uint16) *Record {
	for len(*r) < int(n) {
		*r = append(*r, Record{})
	}
	return &(*r)[n-1]
}

// day is the records of one day.
type day struct {
	number  int64 // since 1970
	records records
}

// A House is a Counter that records decisions in front of another Counter. A vote counts for the rule
// that decided when the message was checked, as far as the House remembers it. For other votes it
// judges the message once more, just before the vote counts. Its methods may be called concurrently.
type House struct {
	bulkhead.Counter
	trusted func(bulkhead.Reporter) bool
	now     func() time.Time

	mu     sync.Mutex
	table  table     // guarded by mu
	days   [Days]day // guarded by mu; by number modulo Days
	total  records   // guarded by mu; since the start
	memory memory    // guarded by mu
}

// New returns a House. Only checks and votes of reporters for whom trusted returns true are
// remembered: strangers could otherwise discredit a rule. now is the clock of the node.
func New(house bulkhead.Counter, trusted func(bulkhead.Reporter) bool, now func() time.Time) *House {
	return &House{Counter: house, trusted: trusted, now: now, table: table{numbers: make(map[Key]uint16)}}
}

// Total returns the records since the start.
func (h *House) Total() map[Key]Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[Key]Record)
	h.add(all, h.total)
	return all
}

// Records returns the records of the last days, today included. n is 1 to [Days].
func (h *House) Records(n int) map[Key]Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	today := h.today()
	all := make(map[Key]Record)
	for _, d := range h.days {
		if d.number <= today && d.number > today-int64(n) {
			h.add(all, d.records)
		}
	}
	return all
}

// add adds records to those in a map. The caller holds mu.
func (h *House) add(to map[Key]Record, from records) {
	for i, r := range from {
		if r != (Record{}) {
			k := h.table.keys[i]
			t := to[k]
			t.Add(r)
			to[k] = t
		}
	}
}

func (h *House) today() int64 { return h.now().Unix() / int64(24*time.Hour/time.Second) }

// count changes today's record of the decision with a number. The caller holds mu.
func (h *House) count(n uint16, what func(*Record)) {
	if n == 0 {
		return
	}
	today := h.today()
	d := &h.days[((today%Days)+Days)%Days]
	if d.number != today {
		*d = day{number: today}
	}
	what(d.records.at(n))
	what(h.total.at(n))
}

// number returns the number of the rule and class of a verdict, or 0 if it names no rule. The caller holds mu.
func (h *House) number(v *bulkhead.Verdict) uint16 {
	if v.Rule == "" { // of a node that has none
		return 0
	}
	return h.table.number(Key{v.Rule, v.Class})
}

// decided records a check.
func (h *House) decided(q *bulkhead.Query, v *bulkhead.Verdict) {
	trusted := h.trusted(q.Reporter)
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.number(v)
	h.count(n, func(r *Record) { r.Decided++ })
	if trusted && n > 0 {
		h.memory.note(q.Signatures, q.Source.MessageID, n)
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
	var decided uint16
	if r.Vote != bulkhead.Sighting && !r.Trap && h.trusted(r.Reporter) {
		decided = h.decision(ctx, &r)
	}
	receipt, err := bulkhead.CountAndReport(ctx, h.Counter, sigs, n, r)
	if err == nil && receipt.Counted > 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.voted(r.Vote, decided)
	}
	return receipt, err
}

// decision returns the number of the decision that a vote is about, or 0 if there is none.
func (h *House) decision(ctx context.Context, r *bulkhead.Report) uint16 {
	h.mu.Lock()
	n := h.memory.find(r.Signatures, r.Source.MessageID, r.Vote)
	h.mu.Unlock()
	if n > 0 {
		return n
	}
	v, err := h.Counter.Check(ctx, bulkhead.Query{Signatures: r.Signatures, Source: r.Source, Reporter: r.Reporter,
		Terse: true})
	if err != nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.number(&v)
}

// voted records a vote on a message with a decision. The caller holds mu.
func (h *House) voted(vote bulkhead.Vote, decided uint16) {
	flagged := h.table.key(decided).Class >= bulkhead.ClassSuspected
	switch {
	case vote == bulkhead.Spam && flagged:
		h.count(decided, func(r *Record) { r.Confirmed++ })
	case vote == bulkhead.Spam:
		h.count(decided, func(r *Record) { r.Missed++ })
	case flagged:
		h.count(decided, func(r *Record) { r.Objected++ })
	}
}
