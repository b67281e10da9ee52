package prototest

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Tally is a [House] that is also a [bulkhead.Counter]. Its counts age like a node's, a
// generation at a time; votes and sightings that come in reports belong to the House and do
// not age. Its methods may be called concurrently.
type Tally struct {
	House
	// Chance is the error probability that Look gives for whatever has a count.
	Chance float64

	lock        sync.Mutex
	generations []generation // the newest last
	checks      int
	looks       int
}

type generation struct {
	start time.Time
	n     map[bulkhead.Signature]uint32
}

func newGeneration() generation {
	return generation{time.Now(), make(map[bulkhead.Signature]uint32)}
}

// NewTally returns a Tally that keeps a number of generations.
func NewTally(keep int) *Tally {
	h := new(Tally)
	for range keep {
		h.generations = append(h.generations, newGeneration())
	}
	return h
}

// Age begins a generation, and drops the oldest.
func (h *Tally) Age() {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.generations = append(h.generations[1:], newGeneration())
}

// Add counts a signature n times, as doors or an error of a filter would.
func (h *Tally) Add(sig bulkhead.Signature, n uint32) {
	h.lock.Lock()
	defer h.lock.Unlock()
	g := h.generations[len(h.generations)-1].n
	g[sig] = uint32(min(uint64(g[sig])+uint64(n), bulkhead.Many))
}

// Sightings returns the count of a signature.
func (h *Tally) Sightings(sig bulkhead.Signature) (n uint32) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, g := range h.generations {
		n += g.n[sig]
	}
	return n
}

// dates returns the starts of the oldest and the newest generation that count a
// signature.
func (h *Tally) dates(sig bulkhead.Signature) (first, last time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, g := range h.generations {
		if g.n[sig] > 0 {
			if last = g.start; first.IsZero() {
				first = last
			}
		}
	}
	return first, last
}

// Looks returns how often Look was called, and how many of the calls were checks
// of clients.
func (h *Tally) Looks() (all, checks int) {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.looks, h.checks
}

// Check implements [bulkhead.Clearinghouse].
func (h *Tally) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := h.House.Check(ctx, q)
	for i := range v.Findings {
		f := &v.Findings[i]
		if h.White[f.Signature] {
			continue
		}
		f.Sightings = uint32(min(uint64(f.Sightings)+uint64(h.Sightings(f.Signature)), bulkhead.Many))
		f.Bulk = f.Sightings >= v.Threshold
		if first, last := h.dates(f.Signature); f.First.IsZero() {
			f.First, f.Last = first, last
		}
		if v.First.IsZero() {
			v.First = f.First
		}
		v.Sightings, v.Bulk = max(v.Sightings, f.Sightings), v.Bulk || f.Bulk
	}
	return v, err
}

// Look implements [bulkhead.Counter].
func (h *Tally) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	h.lock.Lock()
	h.looks++
	if what&bulkhead.Aside == 0 {
		h.checks++
	}
	h.lock.Unlock()
	clear(out[:len(sigs)])
	if len(sigs) == 0 {
		return nil
	}
	v, err := h.Check(ctx, bulkhead.Query{Signatures: sigs})
	for i := range v.Findings {
		f, l := &v.Findings[i], &out[i]
		if what&bulkhead.Counts != 0 && f.Sightings > 0 {
			l.Sightings, l.Error = f.Sightings, h.Chance
		}
		if what&bulkhead.Judgements != 0 && f.Judged != bulkhead.Unjudged {
			l.Judged, l.Spam, l.Confidence = f.Judged, f.Spam, f.Confidence
		}
		if !f.First.IsZero() {
			l.First = f.First.Unix()
		}
	}
	return err
}

// Count implements [bulkhead.Counter].
func (h *Tally) Count(_ context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if err := bulkhead.ValidCounts(sigs, n); err != nil || len(sigs) == 0 {
		return err
	}
	h.mu.Lock() // the House's, since its error may change
	err := h.refuse(sigs)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	for i, sig := range sigs {
		if !h.White[sig] {
			h.Add(sig, n[i])
		}
	}
	return nil
}
