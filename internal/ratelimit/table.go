package ratelimit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// The shape of a table.
const (
	maxShards   = 256
	chunkTarget = 8 << 10 // bytes of a chunk that holds several slots
	slotHeader  = 8       // tag and link of a slot
	linkBits    = 18      // at most 2^18 - 1 slots in a shard
	maxSlots    = 1<<linkBits - 1
	chainLength = 4  // keys for each head of a chain, on average at most
	evictSample = 16 // keys compared to find the one to evict
	sweepStep   = 8  // keys checked for idleness with each new key
	minSlots    = 16 // the minimum number of keys that a table must have room for
	minLarge    = 8  // and the minimum number of keys at the limit
	maxTrim     = 64 // keys dropped at most for one event, to make room for a key's items
)

// A table holds the states of one rule by the keyed hash of the key; the key itself is not kept. 46
// bits of the hash identify a key: among a million keys, the chance that any two share a state is
// 0.7 %.
//
// If a rule can have large states, slots take a quarter of the memory, and states that have
// outgrown their slots take the rest. A flood of keys therefore does not push out keys with many
// items, or the reverse.
type table struct {
	rate   *filter.UniqueRate
	inline int   // bytes of a new state
	slot   int   // bytes of a slot
	chunk  int   // slots of a chunk
	quota  int   // maximum number of slots in a shard
	room   int64 // maximum bytes of large states
	shards []shard
	large  atomic.Int64  // bytes of large states
	turn   atomic.Uint32 // the shard at which the next search for a large state begins
}

// A shard is a chained hash table whose slots lie in chunks. A slot holds
//
//	0  8  tag: the upper 46 bits of the hash; link: the number of the next slot
//	      of the chain plus 1, or 0, in the lower 18 bits
//	8  .  the state, see filter.UniqueRate; all zero in a free slot. A state that is too
//	      large is replaced by its number among the large states, with the bit
//	      largeFlag in place of the last change
type shard struct {
	mu      sync.Mutex
	heads   []uint32 // number of the first slot of the chain plus 1
	chunks  [][]byte
	free    uint32 // first free slot plus 1, linked like a chain
	used    int    // live slots
	slots   int    // slots in the chunks
	hand    int    // the position of the next sweep
	pick    uint32 // position of the last sample, in units of 2^-32 of the slots
	large   []largeState
	work    []byte // the state being changed
	evicted int64
	dropped int64
	changed bool // since the last save
}

// A largeState is stored outside of its slot.
type largeState struct {
	state []byte
	slot  uint32 // plus 1
}

const largeFlag = 1 << 63

// largeBytes returns the memory of a large state, in bytes: the state itself, an eighth for the
// allocator's rounding, and its entry in the shard.
func largeBytes(state []byte) int64 { return int64(len(state)) + int64(len(state))/8 + 48 }

// newTable makes a table of memory bytes; largest is the size of the largest state.
func newTable(rate *filter.UniqueRate, largest int, memory int64) (*table, error) {
	t := &table{rate: rate, inline: rate.StateBytes(), slot: slotHeader + rate.StateBytes()}
	if largest > t.inline {
		t.room = memory - memory/4
		if int64(largest)*minLarge > t.room {
			return nil, fmt.Errorf(
				"memory of %d bytes holds %d keys that have reached the limit, of %d bytes each, want at least %d",
				memory, t.room/int64(largest), largest, minLarge)
		}
		memory /= 4
	}
	// The index takes at most 2 bytes for each slot: a head of 4 bytes for 2 to 4 keys.
	keys := memory / int64(t.slot+2)
	if keys < minSlots {
		return nil, fmt.Errorf("memory of %d bytes holds %d keys of %d bytes, want at least %d",
			memory, keys, t.slot+2, minSlots)
	}
	t.chunk = max(1, chunkTarget/t.slot)
	shards := maxShards
	for shards > 1 && keys < int64(4*shards*t.chunk) {
		shards /= 2
	}
	t.shards = make([]shard, shards)
	t.chunk = int(min(int64(t.chunk), keys/int64(shards)))
	t.quota = int(min(keys/int64(shards), maxSlots))
	t.quota -= t.quota % t.chunk
	return t, nil
}

// tagMask covers the bits of a hash that a slot keeps.
const tagMask = ^uint64(maxSlots)

func (t *table) shard(hash uint64) *shard {
	return &t.shards[hash>>linkBits%uint64(len(t.shards))]
}

func (t *table) at(s *shard, i uint32) []byte {
	n := int(i - 1)
	off := n % t.chunk * t.slot
	return s.chunks[n/t.chunk][off : off+t.slot : off+t.slot]
}

func tagOf(slot []byte) uint64  { return binary.LittleEndian.Uint64(slot) & tagMask }
func linkOf(slot []byte) uint32 { return uint32(binary.LittleEndian.Uint64(slot) & maxSlots) }
func setSlot(slot []byte, tag uint64, link uint32) {
	binary.LittleEndian.PutUint64(slot, tag&tagMask|uint64(link))
}

// live reports whether the slot holds a state that was ever changed.
func live(slot []byte) bool { return changedOf(slot) != 0 }

func changedOf(slot []byte) uint64 { return binary.LittleEndian.Uint64(slot[slotHeader+8:]) }

// state returns the state of a slot.
func (s *shard) state(slot []byte) []byte {
	if changedOf(slot)&largeFlag == 0 {
		return slot[slotHeader:]
	}
	return s.large[binary.LittleEndian.Uint64(slot[slotHeader:])].state
}

// store puts the changed state of slot i where it belongs.
func (t *table) store(s *shard, i uint32, state []byte) {
	slot := t.at(s, i)
	if len(state) == t.inline {
		if changedOf(slot)&largeFlag != 0 {
			t.release(s, slot)
		}
		copy(slot[slotHeader:], state)
		return
	}
	if changedOf(slot)&largeFlag != 0 {
		l := &s.large[binary.LittleEndian.Uint64(slot[slotHeader:])]
		t.large.Add(largeBytes(state) - largeBytes(l.state))
		l.state = state
		return
	}
	clear(slot[slotHeader:])
	binary.LittleEndian.PutUint64(slot[slotHeader:], uint64(len(s.large)))
	binary.LittleEndian.PutUint64(slot[slotHeader+8:], largeFlag)
	s.large = append(s.large, largeState{state, i})
	t.large.Add(largeBytes(state))
}

// release frees the large state of the slot. The shard's last large state takes over its number.
func (t *table) release(s *shard, slot []byte) {
	at := binary.LittleEndian.Uint64(slot[slotHeader:])
	t.large.Add(-largeBytes(s.large[at].state))
	last := len(s.large) - 1
	s.large[at] = s.large[last]
	binary.LittleEndian.PutUint64(t.at(s, s.large[at].slot)[slotHeader:], at)
	s.large[last] = largeState{}
	s.large = s.large[:last]
	clear(slot[slotHeader:])
}

// head returns the chain of a hash; the shard must have heads.
func (s *shard) head(hash uint64) *uint32 {
	return &s.heads[hash>>(64-bits.TrailingZeros(uint(len(s.heads))))]
}

// find returns the number of the slot of hash, or 0.
func (t *table) find(s *shard, hash uint64) uint32 {
	if len(s.heads) == 0 {
		return 0
	}
	for i := *s.head(hash); i != 0; {
		slot := t.at(s, i)
		if tagOf(slot) == hash&tagMask {
			return i
		}
		i = linkOf(slot)
	}
	return 0
}

// view calls f with the state of hash, nil if there is none, under the lock of its shard. f must
// not modify the state.
func (t *table) view(hash uint64, f func(state []byte)) {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := t.find(s, hash)
	if i == 0 {
		f(nil)
		return
	}
	f(s.state(t.at(s, i)))
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
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := t.find(s, hash)
	if i == 0 {
		i = t.insert(s, hash, now)
	}
	slot := t.at(s, i)
	s.work = s.state(slot) // a local variable would be allocated for each call of f
	before := len(s.work)
	if f(&s.work); len(s.work) != before {
		t.store(s, i, s.work)
	}
	s.work = nil
	if !live(slot) {
		t.remove(s, hash)
		return
	}
	s.changed = true
}

// evictLarge drops the key with the lowest rate among a few with large states, from as many shards
// as it takes to find them. It returns false if it finds none.
func (t *table) evictLarge(now time.Time) bool {
	var shard *shard
	var victim uint64
	lowest, looked := 0.0, 0
	for n := 0; looked < evictSample && n < len(t.shards)+evictSample; n++ {
		s := &t.shards[t.turn.Add(1)%uint32(len(t.shards))]
		s.mu.Lock()
		if len(s.large) > 0 {
			s.pick += 0x9e3779b9 // see sample
			l := s.large[uint64(s.pick)*uint64(len(s.large))>>32]
			rate, err := t.rate.Rate(l.state, now)
			if err != nil {
				rate = 0
			}
			if looked++; shard == nil || rate < lowest {
				shard, victim, lowest = s, tagOf(t.at(s, l.slot)), rate
			}
		}
		s.mu.Unlock()
	}
	if shard == nil {
		return false
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if t.find(shard, victim) != 0 { // it may have been removed in between
		t.remove(shard, victim)
		shard.evicted++
	}
	return true
}

// insert makes room for hash and returns its slot.
func (t *table) insert(s *shard, hash uint64, now time.Time) uint32 {
	if s.free == 0 {
		t.sweep(s, now, sweepStep)
	}
	if s.free == 0 && s.slots < t.quota {
		t.grow(s)
	}
	if s.free == 0 {
		t.evict(s, now)
	}
	if s.used >= chainLength*len(s.heads) {
		t.rehash(s)
	}
	i := s.free
	slot := t.at(s, i)
	s.free = linkOf(slot)
	head := s.head(hash)
	setSlot(slot, hash, *head)
	*head = i
	s.used++
	return i
}

func (t *table) grow(s *shard) {
	s.chunks = append(s.chunks, make([]byte, t.chunk*t.slot))
	for range t.chunk {
		s.slots++
		setSlot(t.at(s, uint32(s.slots)), 0, s.free)
		s.free = uint32(s.slots)
	}
}

// rehash doubles the number of heads.
func (t *table) rehash(s *shard) {
	old := s.heads
	s.heads = make([]uint32, max(2, 2*len(old)))
	for _, i := range old {
		for i != 0 {
			slot := t.at(s, i)
			next := linkOf(slot)
			head := s.head(tagOf(slot))
			setSlot(slot, tagOf(slot), *head)
			*head = i
			i = next
		}
	}
}

// remove takes hash, which must be present, out of its chain and frees its slot.
func (t *table) remove(s *shard, hash uint64) {
	var before []byte
	for i := *s.head(hash); i != 0; {
		slot := t.at(s, i)
		next := linkOf(slot)
		if tagOf(slot) != hash&tagMask {
			before, i = slot, next
			continue
		}
		if before == nil {
			*s.head(hash) = next
		} else {
			setSlot(before, tagOf(before), next)
		}
		if changedOf(slot)&largeFlag != 0 {
			t.release(s, slot)
		}
		clear(slot)
		setSlot(slot, 0, s.free)
		s.free = i
		s.used--
		s.changed = true
		return
	}
}

// sweep frees the idle slots among the next n.
func (t *table) sweep(s *shard, now time.Time, n int) {
	for range min(n, s.slots) {
		i := s.next()
		slot := t.at(s, i)
		if !live(slot) {
			continue
		}
		state := s.state(slot)
		before := len(state)
		if settled, err := t.rate.Settle(&state, now); settled && err == nil {
			s.changed = true
			if len(state) != before {
				t.store(s, i, state)
			}
		}
		// An error means that the state is damaged, so dropping it loses nothing.
		if idle, err := t.rate.Idle(state, now); idle || err != nil {
			t.remove(s, tagOf(slot))
			s.dropped++
		}
	}
}

// next moves the hand to the next slot; the shard must have slots.
func (s *shard) next() uint32 {
	s.hand = s.hand%s.slots + 1
	return uint32(s.hand)
}

// sample returns slots that lie far apart in successive calls; the shard must have slots. Keys that
// arrived together lie together, so neighbours would be a poor sample.
func (s *shard) sample() uint32 {
	s.pick += 0x9e3779b9 // 2^32 divided by the golden ratio
	return uint32(uint64(s.pick)*uint64(s.slots)>>32) + 1
}

// evict frees the slot with the lowest rate among a few. A flood of new keys therefore does not
// push out keys near their limit.
func (t *table) evict(s *shard, now time.Time) {
	if victim, _, found := t.lowest(s, now); found {
		t.remove(s, victim)
		s.evicted++
	}
}

// lowest returns the key with the lowest rate among a few.
func (t *table) lowest(s *shard, now time.Time) (victim uint64, lowest float64, found bool) {
	for range min(evictSample, s.slots) {
		slot := t.at(s, s.sample())
		if !live(slot) {
			continue
		}
		rate, err := t.rate.Rate(s.state(slot), now)
		if err != nil {
			rate = 0
		}
		if !found || rate < lowest {
			victim, lowest, found = tagOf(slot), rate, true
		}
	}
	return victim, lowest, found
}

// clean drops every idle key, and releases memory where most slots are free.
func (t *table) clean(now time.Time) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		t.sweep(s, now, s.slots)
		if s.slots-s.used > t.chunk && s.used < s.slots/2 {
			t.compact(s)
		}
		s.mu.Unlock()
	}
}

// compact moves the live slots of s together.
func (t *table) compact(s *shard) {
	old := s.chunks
	s.chunks, s.heads, s.free, s.used, s.slots, s.hand = nil, nil, 0, 0, 0, 0
	for _, chunk := range old {
		for ; len(chunk) > 0; chunk = chunk[t.slot:] {
			if slot := chunk[:t.slot]; live(slot) {
				if s.free == 0 {
					t.grow(s)
				}
				i := t.insert(s, tagOf(slot), time.Time{})
				copy(t.at(s, i)[slotHeader:], slot[slotHeader:])
				if changedOf(slot)&largeFlag != 0 {
					s.large[binary.LittleEndian.Uint64(slot[slotHeader:])].slot = i
				}
			}
		}
	}
}

// put stores a saved state, and returns false if there is no room.
func (t *table) put(hash uint64, state []byte) bool {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := t.find(s, hash)
	if i == 0 {
		if s.free == 0 && s.slots >= t.quota {
			return false
		}
		if s.free == 0 {
			t.grow(s)
		}
		i = t.insert(s, hash, time.Time{})
	}
	if len(state) > t.inline {
		state = bytes.Clone(state)
		if t.room == 0 {
			t.rate.Forget(&state) // the rate matters most, and has room
		}
	}
	t.store(s, i, state)
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
	victim, lowest, found := t.lowest(s, now)
	if found = found && lowest < rate; found {
		t.remove(s, victim)
	}
	s.mu.Unlock()
	if found {
		t.put(hash, state)
	}
}

// drop removes hash and reports whether it was there.
func (t *table) drop(hash uint64) bool {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.find(s, hash) == 0 {
		return false
	}
	t.remove(s, hash)
	return true
}

// all yields the tag and state of every key, shard by shard, each shard as of one moment. The
// slices are valid until the next step.
func (t *table) all() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, state []byte) bool) {
		var copied []byte
		for i := range t.shards {
			copied = t.snapshot(i, copied[:0])
			for rest := copied; len(rest) > 0; {
				end := slotHeader + 4 + int(binary.LittleEndian.Uint32(rest[slotHeader:]))
				if !yield(rest[:slotHeader], rest[slotHeader+4:end]) {
					return
				}
				rest = rest[end:]
			}
		}
	}
}

// snapshot appends the live slots of a shard to dst: tag, length of the state, state.
func (t *table) snapshot(shard int, dst []byte) []byte {
	s := &t.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := uint32(1); int(i) <= s.slots; i++ {
		if slot := t.at(s, i); live(slot) {
			state := s.state(slot)
			dst = binary.LittleEndian.AppendUint64(dst, tagOf(slot))
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(state)))
			dst = append(dst, state...)
		}
	}
	s.changed = false
	return dst
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
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		keys += s.used
		bytes += int64(s.slots*t.slot + 4*len(s.heads))
		evicted += s.evicted
		dropped += s.dropped
		s.mu.Unlock()
	}
	return keys, bytes + t.large.Load(), evicted, dropped
}
