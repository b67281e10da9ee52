package prototest

import (
	"context"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// A Tally is a [House] whose counts age as those of a node do, a generation at a
// time. Votes are those of the House, and do not show in Look. Its methods may be
// called concurrently.
type Tally struct {
	House

	lock        sync.Mutex
	generations []map[bulkhead.Signature]uint32 // the newest last
	checks      int
	looks       int
}

// NewTally returns a Tally that keeps so many generations.
func NewTally(keep int) *Tally {
	h := new(Tally)
	for range keep {
		h.generations = append(h.generations, make(map[bulkhead.Signature]uint32))
	}
	return h
}

// Age begins a generation, and drops the oldest.
func (h *Tally) Age() {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.generations = append(h.generations[1:], make(map[bulkhead.Signature]uint32))
}

// Add counts a signature n times, as an error of a filter may do too.
func (h *Tally) Add(sig bulkhead.Signature, n uint32) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.generations[len(h.generations)-1][sig] += n
}

// Sightings returns the count of a signature.
func (h *Tally) Sightings(sig bulkhead.Signature) (n uint32) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for _, g := range h.generations {
		n += g[sig]
	}
	return n
}

// Looks returns how often Look was called, and how many of the calls were checks
// of clients.
func (h *Tally) Looks() (all, checks int) {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.looks, h.checks
}

// Look implements [bulkhead.Counter].
func (h *Tally) Look(_ context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	h.lock.Lock()
	h.looks++
	if what&bulkhead.Aside == 0 {
		h.checks++
	}
	h.lock.Unlock()
	for i, sig := range sigs {
		out[i] = bulkhead.Look{Sightings: h.Sightings(sig)}
	}
	return h.Err
}

// Count implements [bulkhead.Counter].
func (h *Tally) Count(_ context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if h.Err != nil {
		return h.Err
	}
	for i, sig := range sigs {
		h.Add(sig, n[i])
	}
	return nil
}
