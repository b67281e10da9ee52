package engine

import (
	"math"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// headroom is how much larger than the last generation's use the next one is, at
// least: capacities are powers of the root of two, 1.5 times the use in the mean,
// so that arrays of different nodes often have one geometry and can be merged.
const headroom = 1.25

// capacityAfter returns what the next generation is sized for.
func capacityAfter(keys uint64, grown float64, least uint64) uint64 {
	half := math.Ceil(2 * math.Log2(max(1, headroom*grown*float64(keys))))
	return max(least, uint64(math.Ceil(math.Exp2(half/2))))
}

// size is filter.SizeFor, which takes longer than all else that a rotation does,
// with a memory: most generations are sized like the one before.
func (e *Engine) size(t filter.Target) (filter.Geometry, error) {
	if g, ok := e.sizes[t]; ok {
		return g, nil
	}
	g, err := filter.SizeFor(t)
	if err != nil {
		return g, err
	}
	if len(e.sizes) > 64 {
		clear(e.sizes)
	}
	e.sizes[t] = g
	return g, nil
}

// memoryShare is the part of a book's memory that one generation takes at most,
// unless its least capacity takes more: the others keep what was counted before.
const memoryShare = 4

func (e *Engine) specTally(start uint64, v *view, grown float64) (tallySpec, error) {
	t := e.opts.Tally
	capacity, votes := t.Capacity, e.opts.Votes
	if len(v.tally) > 0 {
		last := v.tally[0]
		capacity = capacityAfter(last.counts.Keys(), grown, capacity)
		votes = capacityAfter(max(last.unique.Keys(), last.weights.Keys()), grown, votes)
	}
	for {
		s, err := e.tallyFor(start, capacity, votes)
		least := capacity == t.Capacity && votes == e.opts.Votes
		if err != nil || t.Memory == 0 || least || s.bytes() <= t.Memory/memoryShare {
			return s, err
		}
		// The larger one, measured by its least, gives way first.
		if float64(capacity)/float64(t.Capacity) >= float64(votes)/float64(e.opts.Votes) {
			capacity = smaller(capacity, t.Capacity)
		} else {
			votes = smaller(votes, e.opts.Votes)
		}
	}
}

// smaller returns the next smaller capacity, see capacityAfter.
func smaller(capacity, least uint64) uint64 {
	half := math.Round(2*math.Log2(float64(capacity))) - 1
	return max(least, min(capacity-1, uint64(math.Ceil(math.Exp2(half/2)))))
}

func (e *Engine) tallyFor(start, capacity, votes uint64) (tallySpec, error) {
	id := e.opts.Secret.ID()
	counts, err := e.size(filter.Target{Kind: filter.Cells, Signatures: capacity, Error: filter.CountWrong, Rate: e.opts.Tally.Error, KeyID: id})
	if err != nil {
		return tallySpec{}, err
	}
	// A weight that is too high lists or blocks what it should not.
	weights, err := e.size(filter.Target{Kind: filter.Cells, Signatures: votes, Error: filter.Ghost, Rate: 1e-5, KeyID: id})
	if err != nil {
		return tallySpec{}, err
	}
	// A false positive here loses a vote, so it is made rarer than any error
	// that the books show.
	unique, err := e.size(filter.Target{Kind: filter.Bitmap, Signatures: votes, Error: filter.Ghost, Rate: 1e-6, KeyID: id})
	if err != nil {
		return tallySpec{}, err
	}
	return tallySpec{Start: start, Capacity: capacity, Votes: votes, Counts: counts, Weights: weights, Unique: unique}, nil
}

func (e *Engine) specBlock(start uint64, v *view, grown float64) (blockSpec, error) {
	b := e.opts.Block
	capacity := b.Capacity
	if len(v.block) > 0 {
		last := v.block[0]
		capacity = capacityAfter(max(last.spam.Keys(), 4*last.revoked.Keys()), grown, capacity)
	}
	for {
		s, err := e.blockFor(start, capacity)
		if err != nil || b.Memory == 0 || capacity == b.Capacity || s.bytes() <= b.Memory/memoryShare {
			return s, err
		}
		capacity = smaller(capacity, b.Capacity)
	}
}

func (e *Engine) blockFor(start, capacity uint64) (blockSpec, error) {
	id := e.opts.Secret.ID()
	// The error of a judgement is the sum over the generations that live.
	each := e.opts.Block.Error / float64(e.opts.Block.Keep)
	spam, err := e.size(filter.Target{Kind: filter.Bitmap, Signatures: capacity, Error: filter.Ghost, Rate: each, KeyID: id})
	if err != nil {
		return blockSpec{}, err
	}
	// Few signatures are revoked. A false one hides a peer's listing.
	revoked, err := e.size(filter.Target{Kind: filter.Bitmap, Signatures: max(1, capacity/4), Error: filter.Ghost, Rate: each, KeyID: id})
	if err != nil {
		return blockSpec{}, err
	}
	return blockSpec{Start: start, Capacity: capacity, Spam: spam, Revoked: revoked}, nil
}

// TallyBytes returns the memory of the first generation of a tally without the
// tables of counts that outgrow their cells, or an error that wraps [filter.ErrGeometry].
// It allocates nothing of it.
func TallyBytes(b BookOptions) (uint64, error) {
	e := planner(Options{Tally: b, Block: DefaultBlocklist()})
	s, err := e.specTally(0, &view{}, 1)
	return s.bytes(), err
}

// BlocklistBytes is [TallyBytes] of a blocklist.
func BlocklistBytes(b BookOptions) (uint64, error) {
	e := planner(Options{Tally: DefaultTally(), Block: b})
	s, err := e.specBlock(0, &view{}, 1)
	return s.bytes(), err
}

// planner returns an engine that can do nothing but specify generations.
func planner(o Options) *Engine {
	o.Votes = max(1, o.Tally.Capacity/10)
	return &Engine{opts: o, sizes: make(map[filter.Target]filter.Geometry)}
}

// An aged generation, for the bound of a book's memory.
type aged struct{ start, bytes uint64 }

// beyond returns the starts of the oldest generations, of all newest first, that
// have no room in memory beside one that is opened. The newest one stays: what was
// counted a moment ago must not be forgotten.
func beyond(live []aged, opened, memory uint64) (drop []uint64) {
	if memory == 0 {
		return nil
	}
	used := opened
	for i, g := range live {
		if used += g.bytes; used > memory && i > 0 {
			drop = append(drop, g.start)
		}
	}
	return drop
}

func (s *tallySpec) bytes() uint64 { return s.Counts.Bytes() + s.Weights.Bytes() + s.Unique.Bytes() }
func (s *blockSpec) bytes() uint64 { return s.Spam.Bytes() + s.Revoked.Bytes() }

// forgot counts the generations that a rotation has given up for want of memory,
// and says so.
func (e *Engine) forgot(r *rotation, now time.Time) {
	for _, b := range []struct {
		name string
		book BookOptions
		from uint64
		drop []uint64
	}{{"tally", e.opts.Tally, r.TallyFrom, r.DropTally}, {"blocklist", e.opts.Block, r.BlockFrom, r.DropBlock}} {
		if b.from == 0 {
			continue
		}
		n := 0
		for _, start := range b.drop {
			if !expired(now, b.book, start) {
				n++
			}
		}
		e.counters.forgotten.Add(uint64(n))
		e.opts.Log.Warn("memory is short: the oldest generations are given up before their time", "book", b.name,
			"generations", n, "memory_bytes", b.book.Memory)
	}
}
