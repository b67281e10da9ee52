// Package prototest is what the tests of the front doors share: an exact,
// in-memory [bulkhead.Clearinghouse] that stands in for the engine, and servers
// that run until the test ends.
//
//	house := &prototest.House{}
//	address := prototest.ServeStream(t, "127.0.0.1:0", &Server{Clearinghouse: house})
package prototest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A House is an exact clearinghouse held in maps, in which all reporters weigh the same: a
// signature is listed while more reporters call it spam, by their latest votes, than ham or
// revoked. The zero House is ready to use. Its methods may be called concurrently.
type House struct {
	// Err, if set, is returned by every call, which then changes nothing. See Fail.
	Err error
	// White holds the whitelisted signatures, Suspected those that make a message suspected.
	White, Suspected map[bulkhead.Signature]bool
	// Threshold is the count at which a signature is bulk; 0 means 20.
	Threshold uint32
	// Now is the time of first and last sightings; nil means time.Now.
	Now func() time.Time

	mu      sync.Mutex
	entries map[bulkhead.Signature]*entry
	reports []bulkhead.Report
}

type entry struct {
	counts      [bulkhead.NumVotes]uint32 // sightings, and voters of each kind
	latest      map[bulkhead.Reporter]bulkhead.Vote
	voted       map[ballot]bool
	ids         map[string]bool // of sightings
	listed      bool
	revoked     bool
	first, last time.Time
}

// A ballot says that a reporter has ever cast a vote.
type ballot struct {
	who  bulkhead.Reporter
	vote bulkhead.Vote
}

// count counts a report, and reports false for a duplicate.
func (e *entry) count(r *bulkhead.Report) bool {
	if r.Vote == bulkhead.Sighting {
		id := fmt.Sprint(r.Reporter, r.ID)
		if r.ID != "" && e.ids[id] {
			return false
		}
		e.ids[id] = true
		e.counts[r.Vote] = uint32(min(uint64(e.counts[r.Vote])+uint64(max(r.Count, 1)), bulkhead.Many))
		return true
	}
	if latest, ok := e.latest[r.Reporter]; ok && latest == r.Vote {
		return false
	}
	e.latest[r.Reporter] = r.Vote
	if b := (ballot{r.Reporter, r.Vote}); !e.voted[b] {
		e.voted[b] = true
		e.counts[r.Vote]++
	}
	return true
}

// spam reports whether more reporters call it spam than not.
func (e *entry) spam() bool {
	balance := 0
	for _, v := range e.latest {
		if v == bulkhead.Spam {
			balance++
		} else {
			balance--
		}
	}
	return balance > 0
}

// Fail sets Err, or clears it with nil. Unlike Err it may be used while servers run.
func (h *House) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Err = err
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
	contents := slices.ContainsFunc(q.Signatures, ofContents)
	for _, sig := range q.Signatures {
		f := bulkhead.Finding{Signature: sig}
		if h.White[sig] {
			v.Whitelisted = "signature " + sig.String()
		} else if e := h.entries[sig]; e != nil {
			f.Sightings, f.Spam, f.Ham = e.counts[bulkhead.Sighting], e.counts[bulkhead.Spam], e.counts[bulkhead.Ham]
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
		v.Findings = append(v.Findings, f)
		if contents && !ofContents(sig) {
			continue // about the sender, not about the content
		}
		if f.Judged == bulkhead.JudgedSpam || v.Judged == bulkhead.Unjudged {
			v.Judged = f.Judged
		}
		v.Confidence = max(v.Confidence, f.Confidence)
		v.Bulk = v.Bulk || f.Bulk
		v.Sightings = max(v.Sightings, f.Sightings)
		v.SpamVotes = max(v.SpamVotes, f.Spam)
		v.HamVotes = max(v.HamVotes, f.Ham)
		if v.First.IsZero() || !f.First.IsZero() && f.First.Before(v.First) {
			v.First = f.First
		}
	}
	v.Class = h.class(&v)
	if q.Terse {
		return v, nil
	}
	v.Reasons = []string{fmt.Sprintf("seen %d times, %d spam votes, %d ham votes", v.Sightings, v.SpamVotes, v.HamVotes)}
	return v, nil
}

// ofContents reports whether a signature is of a message's content, not of its sender.
func ofContents(sig bulkhead.Signature) bool {
	facet := sig.Scheme().Facet()
	return facet != bulkhead.SenderFacet && facet != bulkhead.NetworkFacet
}

// class returns the class of a verdict.
func (h *House) class(v *bulkhead.Verdict) bulkhead.Class {
	switch {
	case v.Whitelisted != "":
		return bulkhead.ClassGood
	case v.Spam():
		return bulkhead.ClassSpam
	case slices.ContainsFunc(v.Findings, func(f bulkhead.Finding) bool { return h.Suspected[f.Signature] }):
		return bulkhead.ClassSuspected
	case v.Bulk:
		return bulkhead.ClassBulk
	}
	return bulkhead.ClassUnknown
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
		if h.White[sig] {
			receipt.Whitelisted++
			continue
		}
		e := h.entries[sig]
		if e == nil {
			e = &entry{first: now(), latest: make(map[bulkhead.Reporter]bulkhead.Vote), voted: make(map[ballot]bool),
				ids: make(map[string]bool)}
			h.entries[sig] = e
		}
		if !e.count(&r) {
			receipt.Duplicate++
			continue
		}
		e.last = now()
		receipt.Counted++
		switch spam := e.spam(); {
		case spam && !e.listed:
			e.listed, e.revoked = true, false
			receipt.Listed++
		case !spam && e.listed:
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
