package dcc

import (
	"hash/maphash"
	"sync"
	"time"
)

// recent recognises retransmitted reports and DELETEs. A client gives up after 16
// seconds; requests are remembered for 32 to 64. Answers are not stored but looked up
// again, since the totals may have grown. Memory is bounded: at most 24 bytes for each
// remembered request, and 2^23 requests in 32 seconds; beyond that, they are remembered
// for less time. It may be used concurrently.
//
// Source: docs/specs/dcc.md#retransmission.
type recent struct {
	seed   maphash.Seed
	shards [64]recentShard
}

type recentShard struct {
	mu       sync.Mutex
	new, old recentTable
	since    time.Time // of new
}

const (
	recentTime     = 32 * time.Second
	recentSmallest = 1 << 6  // slots of a table
	recentLargest  = 1 << 17 // slots of a table
)

// A recentKey stands for everything that the transmissions of one request have in common: 62 bits
// of a hash keyed with a secret of the process, so that a client cannot make two requests look the
// same. Its lowest two bits are 0.
type recentKey uint64

type recentState uint8

const (
	recentNew  recentState = iota // or abandoned
	recentBusy                    // being counted
	recentDone
)

// key is made from the client's port, version, length, operation, sender and h, p and r,
// but not from t or the address.
func (r *recent) key(p *packet, port uint16) recentKey {
	type identity struct {
		port    uint16
		version uint8
		op      Op
		length  uint16
		sender  uint32
		hpr     [12]byte
	}
	h := maphash.Comparable(r.seed, identity{port, p.version, p.op, uint16(len(p.raw)), p.sender, [12]byte(p.id[:12])})
	return recentKey(h&^3 | 4) // never 0, which is an empty slot
}

func (r *recent) init() { r.seed = maphash.MakeSeed() }

func (r *recent) shard(k recentKey) *recentShard { return &r.shards[k>>58] }

// enter looks up a request and, if it is new, marks it as being counted.
func (r *recent) enter(k recentKey, now time.Time) recentState {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.since); age >= recentTime || s.new.full() {
		s.old, s.new = s.new, s.old
		if age >= 2*recentTime {
			s.old.reset(0) // no request came for that long
		}
		s.new.reset(s.old.used)
		s.since = now
	}
	state := s.new.get(k)
	if state == recentNew {
		state = s.old.get(k)
	}
	if state == recentNew {
		s.new.put(k, recentBusy)
	}
	return state
}

// finish marks a request as counted.
func (r *recent) finish(k recentKey) { r.set(k, recentDone) }

// forget removes a request that was not counted.
func (r *recent) forget(k recentKey) { r.set(k, recentNew) }

func (r *recent) set(k recentKey, state recentState) {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.new.replace(k, state) {
		s.old.replace(k, state)
	}
}

// A recentTable is a hash table with linear probing. A slot holds a key with its state in the
// lowest two bits; 0 is an empty slot.
type recentTable struct {
	slots []uint64
	used  int
}

// full reports whether the table has reached its largest size and has no room.
func (t *recentTable) full() bool {
	return len(t.slots) >= recentLargest && t.used >= len(t.slots)*3/4
}

// reset empties the table and makes it large enough for the given number of keys.
func (t *recentTable) reset(keys int) {
	size := recentSmallest
	for size*3/4 <= keys && size < recentLargest {
		size *= 2
	}
	t.used = 0
	if len(t.slots) == size {
		clear(t.slots)
		return
	}
	t.slots = nil
	if keys > 0 {
		t.slots = make([]uint64, size)
	}
}

// find returns the slot of a key, or the empty one where it belongs.
func (t *recentTable) find(k recentKey) *uint64 {
	mask := uint64(len(t.slots) - 1)
	for i := uint64(k) >> 8 & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; *s == 0 || *s&^3 == uint64(k) {
			return s
		}
	}
}

func (t *recentTable) get(k recentKey) recentState {
	if t.used == 0 {
		return recentNew
	}
	return recentState(*t.find(k) & 3)
}

// put enters a key, or sets its state.
func (t *recentTable) put(k recentKey, state recentState) {
	if t.used >= len(t.slots)*3/4 {
		t.grow()
	}
	s := t.find(k)
	if *s == 0 {
		t.used++
	}
	*s = uint64(k) | uint64(state)
}

// replace sets the state of a key, if it is there.
func (t *recentTable) replace(k recentKey, state recentState) bool {
	if t.used == 0 {
		return false
	}
	s := t.find(k)
	if *s == 0 {
		return false
	}
	*s = uint64(k) | uint64(state)
	return true
}

func (t *recentTable) grow() {
	old := t.slots
	t.slots = make([]uint64, max(recentSmallest, 2*len(old)))
	for _, v := range old {
		if v != 0 {
			*t.find(recentKey(v &^ 3)) = v
		}
	}
}
