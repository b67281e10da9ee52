package dcc

import (
	"hash/maphash"
	"sync"
	"time"
)

// recent recognises retransmitted reports and DELETEs. A client gives up after
// 16 seconds; requests are remembered for 32 to 64. Their answers are not
// stored but looked up again: the totals may have grown meanwhile. Memory is
// bounded: about 20 bytes a request, 2^23 requests at most. It may be used
// concurrently.
//
// Source: dcc.md section 1.6.
type recent struct {
	seed   maphash.Seed
	shards [64]recentShard
}

type recentShard struct {
	mu       sync.Mutex
	new, old map[recentKey]bool // whether it was counted
	since    time.Time          // of new
}

const (
	recentTime  = 32 * time.Second
	recentShare = 1 << 16 // requests in one map of a shard
)

// A recentKey stands for everything that two transmissions of one request have
// in common. It is keyed with a secret of the process, so that nobody can make
// two requests look like one.
type recentKey uint64

type recentState uint8

const (
	recentNew  recentState = iota
	recentBusy             // being counted
	recentDone
)

// key is made of the client's port, version, length, operation, sender
// and h, p and r, but neither of t nor of the address.
func (r *recent) key(p *packet, port uint16) recentKey {
	type identity struct {
		port    uint16
		version uint8
		op      Op
		length  uint16
		sender  uint32
		hpr     [12]byte
	}
	return recentKey(maphash.Comparable(r.seed, identity{port, p.version, p.op, uint16(len(p.raw)), p.sender, [12]byte(p.id[:12])}))
}

func (r *recent) init() {
	r.seed = maphash.MakeSeed()
	for i := range r.shards {
		r.shards[i].new = make(map[recentKey]bool)
	}
}

func (r *recent) shard(k recentKey) *recentShard { return &r.shards[k>>58] }

// enter looks a request up and, if it is new, enters it as being counted.
func (r *recent) enter(k recentKey, now time.Time) recentState {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.since); age >= recentTime || len(s.new) >= recentShare {
		s.old = s.new
		if age >= 2*recentTime {
			s.old = nil // nothing came for so long
		}
		s.new, s.since = make(map[recentKey]bool), now
	}
	done, ok := s.new[k]
	if !ok {
		done, ok = s.old[k]
	}
	switch {
	case !ok:
		s.new[k] = false
		return recentNew
	case done:
		return recentDone
	}
	return recentBusy
}

// finish says that a request was counted.
func (r *recent) finish(k recentKey) {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.old, k)
	s.new[k] = true
}

// forget takes a request back that was not counted.
func (r *recent) forget(k recentKey) {
	s := r.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.new, k)
	delete(s.old, k)
}
