package dcc

import (
	"hash/maphash"
	"sync"
	"time"
)

// recent recognises retransmitted reports and DELETEs. A client gives up after 16
// seconds; requests are remembered for 32 to 64. Answers are not stored but looked up
// again, since the totals may have grown. Memory is bounded: about 40 bytes for each
// remembered request, and 6 million requests in 32 seconds; beyond that, they are remembered
// for less time. It may be used concurrently.
//
// Source: docs/specs/dcc.md#retransmission.
type recent struct {
	seed   maphash.Seed
	shards [64]recentShard
}

type recentShard struct {
	mu       sync.Mutex
	new, old map[recentKey]recentState
	since    time.Time // of new
}

const (
	recentTime = 32 * time.Second
	recentMost = 98_304 // requests in a map
)

// A recentKey stands for everything that the transmissions of one request have in common: a hash
// keyed with a secret of the process, so that a client cannot make two requests look the same.
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
	return recentKey(maphash.Comparable(r.seed,
		identity{port, p.version, p.op, uint16(len(p.raw)), p.sender, [12]byte(p.id[:12])}))
}

func (r *recent) init() { r.seed = maphash.MakeSeed() }

func (r *recent) shard(k recentKey) *recentShard { return &r.shards[k>>58] }

// enter looks up a request and, if it is new, marks it as being counted.
func (r *recent) enter(k recentKey, now time.Time) recentState {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.since); age >= recentTime || len(s.new) >= recentMost {
		s.old, s.new = s.new, make(map[recentKey]recentState, len(s.new))
		if age >= 2*recentTime {
			s.old = nil // no request came for that long
		}
		s.since = now
	}
	state := max(s.new[k], s.old[k])
	if state == recentNew {
		s.new[k] = recentBusy
	}
	return state
}

// finish marks a request as counted.
func (r *recent) finish(k recentKey) {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, states := range []map[recentKey]recentState{s.new, s.old} {
		if _, ok := states[k]; ok {
			states[k] = recentDone
		}
	}
}

// forget removes a request that was not counted.
func (r *recent) forget(k recentKey) {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.new, k)
	delete(s.old, k)
}
