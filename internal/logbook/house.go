package logbook

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// A House is a Counter that records the checks and reports of one door in a book. It does not
// record looks and counts of single signatures, which do not belong to one message. Its methods may
// be called concurrently.
type House struct {
	bulkhead.Counter
	book *Book
	door string
}

// NewHouse returns a House in front of another Counter, for the named door.
func NewHouse(house bulkhead.Counter, book *Book, door string) *House {
	return &House{Counter: house, book: book, door: door}
}

// Check implements [bulkhead.Clearinghouse].
func (h *House) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := h.Counter.Check(ctx, q)
	if err == nil {
		h.checked(&q, &v)
	}
	return v, err
}

// CheckBatch checks queries[i] into verdicts[i].
func (h *House) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	if err := bulkhead.CheckBatch(ctx, h.Counter, queries, verdicts); err != nil {
		return err
	}
	for i := range queries {
		h.checked(&queries[i], &verdicts[i])
	}
	return nil
}

// Report implements [bulkhead.Clearinghouse].
func (h *House) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return h.CountAndReport(ctx, nil, nil, r)
}

// CountAndReport implements [bulkhead.CountReporter].
func (h *House) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, counts []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	receipt, err := bulkhead.CountAndReport(ctx, h.Counter, sigs, counts, r)
	if err == nil && !h.book.full(kindOf(r.Vote)) {
		n := h.note(kindOf(r.Vote), r.Signatures, &r.Source, r.Reporter)
		n.White, n.Trap = receipt.Whitelisted >= len(r.Signatures), r.Trap
		n.Listed, n.Revoked = receipt.Listed, receipt.Revoked
		n.Waits = r.Vote == bulkhead.Spam && receipt.Listed == 0 && receipt.Pending > 0
		if r.Vote == bulkhead.Sighting {
			n.Count, n.to = min(max(r.Count, 1), bulkhead.Many), slices.Clone(r.Recipients)
		}
		h.book.add(n)
	}
	return receipt, err
}

func (h *House) checked(q *bulkhead.Query, v *bulkhead.Verdict) {
	if h.book.full(Checked) {
		return
	}
	n := h.note(Checked, q.Signatures, &q.Source, q.Reporter)
	n.Class, n.Confidence, n.White = v.Class, v.Confidence, v.Whitelisted != ""
	n.Reasons = slices.Clone(v.Reasons[:min(len(v.Reasons), maxReasons)])
	h.book.add(n)
}

// note queues a note. The caller may reuse sigs.
func (h *House) note(kind Kind, sigs []bulkhead.Signature, source *bulkhead.Source, who bulkhead.Reporter) *note {
	n := &note{who: who, messageID: source.MessageID}
	n.ID, n.Door, n.Kind, n.packed = uint64(max(1, h.book.o.Now().UnixMicro())), h.door, kind, pack(sigs)
	for _, n.from = range []string{source.From, source.Sender, source.ClaimedSender} {
		if n.from != "" {
			break
		}
	}
	n.Post = source.ListID != "" || source.ClaimedListID != ""
	if h.book.o.Subjects {
		n.Subject = source.Subject
	}
	var sum maphash.Hash
	sum.SetSeed(h.book.seed)
	sum.WriteString(h.door)
	sum.WriteByte(0)
	sum.WriteString(who.Account)
	sum.Write(n.packed)
	n.sum = sum.Sum64()
	return n
}
