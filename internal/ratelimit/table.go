package ratelimit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// The shape of a table.
const (
	maxShards   = 256
	shardKeys   = 128 // keys for each shard, at least, if there is more than one
	evictSample = 16  // keys compared to find the one to evict
	sweepStep   = 8   // keys checked for idleness with each new key of a full shard
	tagBytes    = 8   // bytes of a saved tag
	minKeys     = 16  // the minimum number of keys that a table must have room for
	minLarge    = 8   // and the minimum number of keys at the limit
	maxTrim     = 64  // keys dropped at most for one event, to make room for a key's items

	// keyBytes is the memory of a small key besides its state, in bytes: 8 for the tag, 40 for the
	// map, which may be less than half full, and what slots that grow have in reserve.
	keyBytes = 60
)

// A table holds the states of one rule by the keyed hash of the key; the key itself is not kept. 46
// bits of the hash, its tag, identify a key: among a million keys, the chance that any two share a
// state is 0.7 %.
//
// A hand-made chained table in place of the maps took 55 bytes a key instead of 94, and saved 3 % of
// the processor time of a question about four rules (8.5 instead of 8.8 us, minima of three runs in
// turns of BenchmarkLimit/rules4).
//
// If a rule can have large states, small states take a quarter of the memory, and large states take
// the rest. A flood of keys therefore does not push out keys with many items, or the reverse.
type table struct {
	rate   *filter.UniqueRate
	inline int   // bytes of a new state; a longer state is large
	key    int   // bytes of a key with such a state
	quota  int   // maximum number of keys in a shard
	room   int64 // maximum bytes of large states
	shards []shard
	large  atomic.Int64  // bytes of large states
	turn   atomic.Uint32 // the shard at which the next search for a large state begins
}

// A shard holds the states of some keys by their tags: small states in slots, which the garbage
// collector need not look into, large ones in a map.
type shard struct {
	mu      sync.Mutex
	index   map[uint64]int32 // slots of the small states
	slots   []byte           // tags of 8 bytes and states, without gaps
	large   map[uint64][]byte
	peak    int    // the largest number of slots since index was allocated
	work    []byte // the state being changed
	fresh   []byte // the state of a new key until it is stored
	evicted int64
	dropped int64
	changed bool // since the last save
}

// largeBytes returns the memory of a large state, in bytes: the state itself, an eighth for the
// allocator's rounding, and its entry in the shard.
func largeBytes(state []byte) int64 { return int64(len(state)) + int64(len(state))/8 + 48 }

// newTable makes a table of memory bytes; largest is the size of the largest state.
func newTable(rate *filter.UniqueRate, largest int, memory int64) (*table, error) {
	t := &table{rate: rate, inline: rate.StateBytes()}
	t.key = t.inline + keyBytes
	if largest > t.inline {
		t.room = memory - memory/4
		if int64(largest)*minLarge > t.room {
			return nil, fmt.Errorf(
				"memory of %d bytes holds %d keys that have reached the limit, of %d bytes each, want at least %d",
				memory, t.room/int64(largest), largest, minLarge)
		}
		memory /= 4
	}
	keys := memory / int64(t.key)
	if keys < minKeys {
		return nil, fmt.Errorf("memory of %d bytes holds %d keys of %d bytes, want at least %d",
			memory, keys, t.key, minKeys)
	}
	shards := maxShards
	for shards > 1 && keys < int64(shards)*shardKeys {
		shards /= 2
	}
	t.shards = make([]shard, shards)
	for i := range t.shards {
		t.shards[i].index, t.shards[i].large = make(map[uint64]int32), make(map[uint64][]byte)
	}
	t.quota = int(keys / int64(shards))
	return t, nil
}

// The bits of a hash that identify a key. Saved states have zeros in place of the others.
const (
	tagShift = 18
	tagMask  = ^uint64(1<<tagShift - 1)
)

func (t *table) shard(hash uint64) *shard {
	return &t.shards[hash>>tagShift%uint64(len(t.shards))]
}

// live reports whether a state was ever changed.
func live(state []byte) bool { return binary.LittleEndian.Uint64(state[8:]) != 0 }

// slot returns the tag and the state in a slot.
func (t *table) slot(s *shard, i int) (tag uint64, state []byte) {
	n := tagBytes + t.inline
	b := s.slots[i*n : (i+1)*n : (i+1)*n]
	return binary.LittleEndian.Uint64(b), b[tagBytes:]
}

// state returns the state of a key, nil if there is none.
func (t *table) state(s *shard, tag uint64) []byte {
	if i, ok := s.index[tag]; ok {
		_, state := t.slot(s, int(i))
		return state
	}
	return s.large[tag]
}

// store sets the state of a key.
func (t *table) store(s *shard, tag uint64, state []byte) {
	if len(state) > t.inline {
		if old := s.large[tag]; old != nil {
			t.large.Add(-largeBytes(old))
		} else {
			t.remove(s, tag)
		}
		s.large[tag] = state
		t.large.Add(largeBytes(state))
		return
	}
	if i, ok := s.index[tag]; ok {
		_, old := t.slot(s, int(i))
		copy(old, state)
		return
	}
	t.remove(s, tag)
	s.index[tag] = int32(len(s.index))
	s.slots = append(binary.LittleEndian.AppendUint64(s.slots, tag), state...)
	s.peak = max(s.peak, len(s.index))
}

// remove drops a key. The last slot takes the place of the key's.
func (t *table) remove(s *shard, tag uint64) {
	s.changed = true
	if state := s.large[tag]; state != nil {
		t.large.Add(-largeBytes(state))
		delete(s.large, tag)
		return
	}
	i, ok := s.index[tag]
	if !ok {
		return
	}
	end := len(s.slots) - tagBytes - t.inline
	last := s.slots[end:]
	copy(s.slots[int(i)*len(last):], last)
	s.index[binary.LittleEndian.Uint64(last)] = i
	delete(s.index, tag)
	s.slots = s.slots[:end]
}

// view calls f with the state of hash, nil if there is none, under the lock of its shard. f must
// not modify the state.
func (t *table) view(hash uint64, f func(state []byte)) {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	f(t.state(s, hash&tagMask))
}

// update calls f with the state of hash under the lock of its shard. A new key has an all-zero
// state, and is not kept if f leaves the state all zero.
func (t *table) update(hash uint64, now time.Time, f func(state *[]byte)) {
	t.change(hash, now, f)
	for range maxTrim {
		if t.large.Load() <= t.room || !t.evictLarge(now) {
			return
		}
	}
}

func (t *table) change(hash uint64, now time.Time, f func(state *[]byte)) {
	s, tag := t.shard(hash), hash&tagMask
	s.mu.Lock()
	defer s.mu.Unlock()
	state := t.state(s, tag)
	known, before := state != nil, len(state)
	if !known {
		if s.fresh == nil {
			s.fresh = make([]byte, t.inline)
		}
		clear(s.fresh)
		state = s.fresh
	}
	s.work = state // a local variable would be allocated for each call of f
	f(&s.work)
	state, s.work = s.work, nil
	switch {
	case !live(state) && known:
		t.remove(s, tag)
		return
	case !live(state):
		return
	case !known:
		t.makeRoom(s, now)
		t.store(s, tag, state)
	case len(state) != before:
		t.store(s, tag, state)
	}
	s.changed = true
}

// evictLarge drops the key with the lowest rate among a few with large states, from as many shards
// as it takes to find them. It returns false if it finds none.
func (t *table) evictLarge(now time.Time) bool {
	var shard *shard
	var victim uint64
	lowest, sampled := 0.0, 0
	for n := 0; sampled < evictSample && n < len(t.shards)+evictSample; n++ {
		s := &t.shards[t.turn.Add(1)%uint32(len(t.shards))]
		s.mu.Lock()
		for tag, state := range s.large { // begins at a random key
			rate := t.rateOf(state, now)
			if sampled++; shard == nil || rate < lowest {
				shard, victim, lowest = s, tag, rate
			}
			break
		}
		s.mu.Unlock()
	}
	if shard == nil {
		return false
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, ok := shard.large[victim]; ok { // it may have been removed in between
		t.remove(shard, victim)
		shard.evicted++
	}
	return true
}

// rateOf returns the rate of a state, 0 if the state is damaged.
func (t *table) rateOf(state []byte, now time.Time) float64 {
	rate, err := t.rate.Rate(state, now)
	if err != nil {
		return 0
	}
	return rate
}

// makeRoom makes room for one more small state.
func (t *table) makeRoom(s *shard, now time.Time) {
	if len(s.index) >= t.quota {
		for range sweepStep {
			tag, state := t.slot(s, rand.IntN(len(s.index)))
			if t.settle(s, now, tag, state); len(s.index) < t.quota {
				return
			}
		}
	}
	for len(s.index) >= t.quota {
		// A flood of new keys does not push out keys near their limit.
		victim, _ := t.lowest(s, now)
		t.remove(s, victim)
		s.evicted++
	}
}

// settle moves a state that is ahead of the clock, and drops the key if it is idle.
func (t *table) settle(s *shard, now time.Time, tag uint64, state []byte) {
	before := len(state)
	settled, err := t.rate.Settle(&state, now)
	if settled && err == nil {
		s.changed = true
		if len(state) != before {
			t.store(s, tag, state)
		}
	}
	// An error means that the state is damaged, so dropping it loses nothing.
	if idle, err := t.rate.Idle(state, now); idle || err != nil {
		t.remove(s, tag)
		s.dropped++
	}
}

// lowest returns the key with the lowest rate among a few small states; there must be one.
func (t *table) lowest(s *shard, now time.Time) (victim uint64, lowest float64) {
	lowest = math.Inf(1)
	for range min(evictSample, len(s.index)) {
		tag, state := t.slot(s, rand.IntN(len(s.index)))
		if rate := t.rateOf(state, now); rate <= lowest {
			victim, lowest = tag, rate
		}
	}
	return victim, lowest
}

// clean drops every idle key, and releases memory where few keys are left.
func (t *table) clean(now time.Time) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for tag, state := range s.large {
			t.settle(s, now, tag, state)
		}
		for slot := len(s.index) - 1; slot >= 0; slot-- { // the last slot takes the place of a dropped one
			tag, state := t.slot(s, slot)
			t.settle(s, now, tag, state)
		}
		if len(s.index) < s.peak/2 {
			s.compact()
		}
		s.mu.Unlock()
	}
}

// compact releases the memory that s had at its largest size.
func (s *shard) compact() {
	index := make(map[uint64]int32, len(s.index))
	maps.Copy(index, s.index)
	s.index, s.slots, s.peak = index, bytes.Clone(s.slots), len(index)
}

// put stores a saved state, and returns false if there is no room.
func (t *table) put(hash uint64, state []byte) bool {
	s, tag := t.shard(hash), hash&tagMask
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state(s, tag) == nil && len(s.index) >= t.quota {
		return false
	}
	state = bytes.Clone(state)
	if len(state) > t.inline && t.room == 0 {
		t.rate.Forget(&state) // the rate matters most, and has room
	}
	t.store(s, tag, state)
	s.changed = true
	return true
}

// keep stores a state as put does. If there is no room, a sampled key with a lower rate gives way.
func (t *table) keep(hash uint64, state []byte, now time.Time) {
	if t.put(hash, state) {
		for t.large.Load() > t.room && t.evictLarge(now) {
		}
		return
	}
	rate, err := t.rate.Rate(state, now)
	if err != nil {
		return
	}
	s := t.shard(hash)
	s.mu.Lock()
	victim, lowest := t.lowest(s, now)
	if lowest < rate {
		t.remove(s, victim)
	}
	s.mu.Unlock()
	if lowest < rate {
		t.put(hash, state)
	}
}

// drop removes hash and reports whether it was there.
func (t *table) drop(hash uint64) bool {
	s, tag := t.shard(hash), hash&tagMask
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state(s, tag) == nil {
		return false
	}
	t.remove(s, tag)
	return true
}

// all yields the tag and state of every key, shard by shard, each shard as of one moment. The
// slices are valid until the next step.
func (t *table) all() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, state []byte) bool) {
		size := tagBytes + t.inline
		for i := range t.shards {
			slots, large := t.shards[i].snapshot()
			for ; len(slots) > 0; slots = slots[size:] {
				if !yield(slots[:tagBytes], slots[tagBytes:size]) {
					return
				}
			}
			for tag, state := range large {
				if !yield(binary.LittleEndian.AppendUint64(nil, tag), state) {
					return
				}
			}
		}
	}
}

// snapshot returns a copy of the states.
func (s *shard) snapshot() (slots []byte, large map[uint64][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	large = make(map[uint64][]byte, len(s.large))
	for tag, state := range s.large {
		large[tag] = bytes.Clone(state)
	}
	s.changed = false
	return bytes.Clone(s.slots), large
}

// dirty reports whether anything changed since the last snapshot.
func (t *table) dirty() bool {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if changed {
			return true
		}
	}
	return false
}

// touch marks the table as dirty again, after a snapshot that was not saved.
func (t *table) touch() {
	s := &t.shards[0]
	s.mu.Lock()
	s.changed = true
	s.mu.Unlock()
}

// usage returns the totals over all shards.
func (t *table) usage() (keys int, bytes, evicted, dropped int64) {
	small := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		small += len(s.index)
		keys += len(s.index) + len(s.large)
		evicted += s.evicted
		dropped += s.dropped
		s.mu.Unlock()
	}
	return keys, int64(small)*int64(t.key) + t.large.Load(), evicted, dropped
}
