package fuzzy

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// raised remembers for raisedTime how much writes raised digests and bands, so that
// texts with common bands raise those by the largest weight of one digest, and not by
// the sum. A mail's plain text and its HTML are learnt as two digests with much the same
// shingles; otherwise a near copy would be found with twice the weight of the mail
// itself. It has room for a fixed number of counters, and may be used concurrently.
type raised struct {
	seed maphash.Seed
	mu   sync.Mutex
	sets [][setSize]total // by the hash of the counter
}

// setSize is how many counters share a place of the memory. The oldest of them makes room for a new one.
const setSize = 4

// A total is the amount by which a counter was raised since it was entered.
type total struct {
	counter uint64 // its hash; the memory is several times slower with whole signatures
	since   int64  // Unix time in nanoseconds, 0 for none
	n       uint32
}

// newRaised returns a memory of at least size counters.
func newRaised(size int) *raised {
	return &raised{seed: maphash.MakeSeed(), sets: make([][setSize]total, (size+setSize-1)/setSize)}
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
	if known {
		n = min(n, sum-min(sum, t.n))
	}
	t.n = saturate(t.n, n)
	return n
}

// at returns the total of a counter, and whether it had one.
func (r *raised) at(sig bulkhead.Signature, now time.Time) (t *total, known bool) {
	counter := maphash.Comparable(r.seed, sig)
	t = r.place(counter)
	if t.counter != counter || now.UnixNano()-t.since >= int64(raisedTime) {
		*t = total{counter: counter, since: now.UnixNano()}
		return t, false
	}
	return t, true
}

// place returns the place of a counter, or the one that it would take.
func (r *raised) place(counter uint64) *total {
	set := &r.sets[counter%uint64(len(r.sets))]
	oldest := &set[0]
	for i := range set {
		t := &set[i]
		if t.counter == counter {
			return t
		}
		if t.since < oldest.since {
			oldest = t
		}
	}
	return oldest
}

// forget removes counters: the write that raised them failed, or something is taken from
// them.
func (r *raised) forget(sigs []bulkhead.Signature) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sig := range sigs {
		counter := maphash.Comparable(r.seed, sig)
		if t := r.place(counter); t.counter == counter {
			*t = total{}
		}
	}
}

func saturate(a, b uint32) uint32 { return uint32(min(uint64(a)+uint64(b), bulkhead.Many)) }
