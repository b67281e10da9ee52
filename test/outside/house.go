package outside

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A House is a small clearinghouse: it counts in maps, and trusts all reporters equally. The zero
// House knows nothing. Its methods may be called concurrently.
type House struct {
	mu    sync.Mutex
	known map[bulkhead.Signature]*record
}

// A record holds the counts of one signature.
type record struct {
	bulkhead.Finding
	reports map[string]bool // IDs of sightings with their reporters
	latest  map[bulkhead.Reporter]bulkhead.Vote
	ever    map[vote]bool
}

type vote struct {
	who  bulkhead.Reporter
	vote bulkhead.Vote
}

// Check implements [bulkhead.Clearinghouse].
func (h *House) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	if err := refuse(q.Signatures); err != nil {
		return bulkhead.Verdict{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v := bulkhead.Verdict{Threshold: q.Threshold}
	if v.Threshold == 0 {
		v.Threshold = 20
	}
	for _, sig := range q.Signatures {
		f := bulkhead.Finding{Signature: sig}
		if r := h.known[sig]; r != nil {
			f = r.Finding
		}
		f.Bulk = f.Sightings >= v.Threshold
		v.Findings = append(v.Findings, f)
		v.Sightings, v.SpamVotes, v.HamVotes = max(v.Sightings, f.Sightings), max(v.SpamVotes, f.Spam), max(v.HamVotes, f.Ham)
		v.Confidence, v.Bulk = max(v.Confidence, f.Confidence), v.Bulk || f.Bulk
		if v.Judged != bulkhead.JudgedSpam {
			v.Judged = f.Judged
		}
		if v.First.IsZero() || !f.First.IsZero() && f.First.Before(v.First) {
			v.First = f.First
		}
	}
	switch {
	case v.Spam():
		v.Class = bulkhead.ClassSpam
	case v.Bulk:
		v.Class = bulkhead.ClassBulk
	}
	if !q.Terse {
		v.Reasons = []string{fmt.Sprintf("seen %d times, called spam by %d", v.Sightings, v.SpamVotes)}
	}
	return v, nil
}

// Report implements [bulkhead.Clearinghouse].
func (h *House) Report(_ context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if err := refuse(r.Signatures); err != nil {
		return bulkhead.Receipt{}, err
	}
	if r.Vote >= bulkhead.NumVotes {
		return bulkhead.Receipt{}, fmt.Errorf("%w: vote %d", bulkhead.ErrMalformed, r.Vote)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var receipt bulkhead.Receipt
	for _, sig := range r.Signatures {
		k := h.record(sig)
		if !k.count(&r) {
			receipt.Duplicate++
			continue
		}
		k.Last = time.Now()
		receipt.Counted++
		k.judge(&receipt)
	}
	return receipt, nil
}

func (h *House) record(sig bulkhead.Signature) *record {
	if h.known == nil {
		h.known = make(map[bulkhead.Signature]*record)
	}
	k := h.known[sig]
	if k == nil {
		k = &record{
			Finding: bulkhead.Finding{Signature: sig, First: time.Now()}, reports: make(map[string]bool),
			latest: make(map[bulkhead.Reporter]bulkhead.Vote), ever: make(map[vote]bool),
		}
		h.known[sig] = k
	}
	return k
}

// count counts a report, unless it was counted before.
func (k *record) count(r *bulkhead.Report) bool {
	if r.Vote == bulkhead.Sighting {
		id := fmt.Sprint(r.Reporter, r.ID)
		if r.ID != "" && k.reports[id] {
			return false
		}
		k.reports[id] = true
		k.Sightings = uint32(min(uint64(k.Sightings)+uint64(max(r.Count, 1)), bulkhead.Many))
		return true
	}
	if last, ok := k.latest[r.Reporter]; ok && last == r.Vote {
		return false
	}
	k.latest[r.Reporter] = r.Vote
	if v := (vote{r.Reporter, r.Vote}); !k.ever[v] {
		k.ever[v] = true
		switch r.Vote {
		case bulkhead.Spam:
			k.Spam++
		case bulkhead.Ham:
			k.Ham++
		}
	}
	return true
}

// judge lists the signature if, by the latest votes, more reporters call it spam than not.
func (k *record) judge(receipt *bulkhead.Receipt) {
	balance := 0
	for _, v := range k.latest {
		if v == bulkhead.Spam {
			balance++
		} else {
			balance--
		}
	}
	switch listed := k.Judged == bulkhead.JudgedSpam; {
	case balance > 0 && !listed:
		k.Judged, k.Confidence = bulkhead.JudgedSpam, 100
		receipt.Listed++
	case balance <= 0 && listed:
		k.Judged, k.Confidence = bulkhead.Revoked, 0
		receipt.Revoked++
	}
}

func refuse(sigs []bulkhead.Signature) error {
	if len(sigs) == 0 {
		return fmt.Errorf("%w: no signatures", bulkhead.ErrMalformed)
	}
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: invalid signature", bulkhead.ErrMalformed)
		}
	}
	return nil
}
