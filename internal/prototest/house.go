// Package prototest is what the tests of the front doors share: an exact,
// in-memory [bulkhead.Clearinghouse] that stands in for the engine, and servers
// that run until the test ends.
//
//	house := &prototest.House{}
//	address := prototest.ServeStream(t, "127.0.0.1:0", (&Server{House: house}).Serve)
package prototest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A House is an exact clearinghouse held in maps: one report lists, one revoke
// unlists, a later report lists again. The zero House is ready to use. Its
// methods may be called concurrently.
type House struct {
	// Err, when set, is returned by every call, which then changes nothing.
	Err error
	// Threshold is the count at which a signature is bulk; 0 means 20.
	Threshold uint32
	// Now is the time of first and last sightings; nil means time.Now.
	Now func() time.Time

	mu      sync.Mutex
	entries map[bulkhead.Signature]*entry
	reports []bulkhead.Report
}

type entry struct {
	votes       [bulkhead.NumVotes]uint32
	listed      bool
	revoked     bool
	first, last time.Time
}

// Reports returns every report and revoke taken so far, in order.
func (h *House) Reports() []bulkhead.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]bulkhead.Report(nil), h.reports...)
}

// Check implements [bulkhead.Clearinghouse].
func (h *House) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refuse(q.Signatures); err != nil {
		return bulkhead.Verdict{}, err
	}
	v := bulkhead.Verdict{Threshold: q.Threshold}
	if v.Threshold == 0 {
		v.Threshold = h.Threshold
	}
	if v.Threshold == 0 {
		v.Threshold = 20
	}
	for _, sig := range q.Signatures {
		f := bulkhead.Finding{Signature: sig}
		if e := h.entries[sig]; e != nil {
			f.Sightings, f.Spam, f.Ham = e.votes[bulkhead.Sighting], e.votes[bulkhead.Spam], e.votes[bulkhead.Ham]
			f.First, f.Last = e.first, e.last
			f.Bulk = f.Sightings >= v.Threshold
			f.Contested = f.Spam > 0 && f.Ham > 0
			switch {
			case e.listed:
				f.Judged, f.Confidence = bulkhead.JudgedSpam, 100
			case e.revoked:
				f.Judged = bulkhead.Revoked
			}
		}
		if f.Judged == bulkhead.JudgedSpam || v.Judged == bulkhead.Unjudged {
			v.Judged = f.Judged
		}
		v.Confidence = max(v.Confidence, f.Confidence)
		v.Bulk = v.Bulk || f.Bulk
		v.Sightings = max(v.Sightings, f.Sightings)
		v.SpamVotes = max(v.SpamVotes, f.Spam)
		v.HamVotes = max(v.HamVotes, f.Ham)
		v.Findings = append(v.Findings, f)
	}
	v.Reasons = []string{fmt.Sprintf("seen %d times, %d spam votes, %d ham votes", v.Sightings, v.SpamVotes, v.HamVotes)}
	return v, nil
}

// Report implements [bulkhead.Clearinghouse].
func (h *House) Report(_ context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refuse(r.Signatures); err != nil {
		return bulkhead.Receipt{}, err
	}
	if r.Vote >= bulkhead.NumVotes {
		return bulkhead.Receipt{}, fmt.Errorf("%w: vote %d", bulkhead.ErrMalformed, r.Vote)
	}
	now := time.Now
	if h.Now != nil {
		now = h.Now
	}
	if h.entries == nil {
		h.entries = make(map[bulkhead.Signature]*entry)
	}
	h.reports = append(h.reports, r)
	var receipt bulkhead.Receipt
	for _, sig := range r.Signatures {
		e := h.entries[sig]
		if e == nil {
			e = &entry{first: now()}
			h.entries[sig] = e
		}
		e.last = now()
		n := max(r.Count, 1)
		e.votes[r.Vote] = uint32(min(uint64(e.votes[r.Vote])+uint64(n), bulkhead.Many))
		receipt.Counted++
		switch {
		case r.Vote == bulkhead.Spam && !e.listed:
			e.listed, e.revoked = true, false
			receipt.Listed++
		case r.Vote == bulkhead.Revocation && e.listed:
			e.listed, e.revoked = false, true
			receipt.Revoked++
		}
	}
	return receipt, nil
}

func (h *House) refuse(sigs []bulkhead.Signature) error {
	if h.Err != nil {
		return h.Err
	}
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: invalid signature", bulkhead.ErrMalformed)
		}
	}
	return nil
}
