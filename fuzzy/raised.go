package fuzzy

import (
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// raised remembers for raisedTime how much writes raised digests and bands, so that
// texts with common bands raise those by the largest weight of one digest, and not by
// the sum. A mail's plain text and its HTML are learnt as two digests with much the same
// shingles; otherwise a near copy would be found with twice the weight of the mail
// itself. Its size is bounded, and it may be used concurrently.
type raised struct {
	mu     sync.Mutex
	totals map[bulkhead.Signature]*total
	ring   []*total // in the order of their entry; nil where none
	next   int
}

// A total is the amount by which a counter was raised since it was entered.
type total struct {
	sig   bulkhead.Signature
	since time.Time
	n     uint32
}

func newRaised(size int) *raised {
	return &raised{totals: make(map[bulkhead.Signature]*total), ring: make([]*total, size)}
}

// digest adds n to the total of a digest, and returns the sum.
func (r *raised) digest(sig bulkhead.Signature, n uint32, now time.Time) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, _ := r.at(sig, now)
	t.n = saturate(t.n, n)
	return t.n
}

// band returns how much a write of n to a digest raises a band of its text, if the
// digest's total becomes sum.
func (r *raised) band(sig bulkhead.Signature, n, sum uint32, now time.Time) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, known := r.at(sig, now)
	if !known {
		t.n = n
		return n
	}
	added := min(n, sum-min(sum, t.n))
	t.n = saturate(t.n, added)
	return added
}

// at returns the total of a counter, and whether there was one.
func (r *raised) at(sig bulkhead.Signature, now time.Time) (t *total, known bool) {
	if t = r.totals[sig]; t != nil && now.Sub(t.since) < raisedTime {
		return t, true
	}
	if old := r.ring[r.next]; old != nil && r.totals[old.sig] == old {
		delete(r.totals, old.sig)
	}
	t = &total{sig: sig, since: now}
	r.totals[sig], r.ring[r.next] = t, t
	r.next = (r.next + 1) % len(r.ring)
	return t, false
}

// forget removes counters: the write that raised them failed, or something is taken from
// them.
func (r *raised) forget(sigs []bulkhead.Signature) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sig := range sigs {
		delete(r.totals, sig)
	}
}

func saturate(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), bulkhead.Many)) }
