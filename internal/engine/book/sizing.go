package book

import (
	"math"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// keys is the number of keys of each sort that a generation has, or is sized for. It is 0 for a
// sort that the book does not have.
type keys [3]uint64

// The sorts of keys.
const (
	signatures = iota // counted, or listed
	marks             // keys of who did what: reports and recipients in the tally, votes in the blocklist
	names             // named facets in the blocklist
)

// headroom is the least factor between an expected use and the capacity of a generation.
// Capacities are powers of the root of two, 1.5 times the use on average, so that arrays of
// different nodes often have the same geometry and can be merged.
const headroom = 1.25

// after returns the capacity of a generation that is expected to have the keys.
func (used keys) after(least keys) (next keys) {
	for i := range used {
		next[i] = capacityAfter(used[i], least[i])
	}
	return next
}

func capacityAfter(used, least uint64) uint64 {
	if least == 0 {
		return 0
	}
	half := math.Ceil(2 * math.Log2(max(1, headroom*float64(used))))
	return max(least, uint64(math.Ceil(math.Exp2(half/2))))
}

const (
	// quiet is the factor between the capacity of the first generation and the least one of those that follow it.
	quiet = 8
	// smallest is a number of keys below which quiet saves nothing. One journal entry has up to half as many.
	smallest = 1 << 17
)

// least returns the smallest capacity of the generations that follow a first one.
func (first keys) least() (least keys) {
	for i := range first {
		least[i] = max(min(first[i], smallest), first[i]/quiet)
	}
	least[names] = first[names] // a generation that has too many opens no further one
	return least
}

// expected returns the keys that a slice of time which begins at start will have: the lesser use of the last two
// slices before it in which generations began. A single day of many keys thus makes no later generation large. If a
// slice has more keys than expected, further generations open, each larger than the one before. Of names, which open
// none, it is the greater use.
func (k *Keeper[S, G]) expected(b Book[G], start uint64) (use keys) {
	length := uint64(k.opts.Generation / time.Second)
	slices, last := 0, uint64(0)
	var sum keys
	add := func() {
		for i := range sum {
			if slices == 1 || slices > 1 && (sum[i] < use[i]) != (i == names) {
				use[i] = sum[i]
			}
		}
	}
	for _, g := range b.Live { // newest first
		slice := g.begin() - g.begin()%length
		if slice >= start {
			continue
		}
		if slices == 0 || slice != last {
			add()
			if slices == 2 {
				return use
			}
			slices, last, sum = slices+1, slice, keys{}
		}
		for i, n := range g.uses() {
			sum[i] += n
		}
	}
	add()
	return use
}

// smaller returns the next smaller capacity. It reduces the sort whose capacity is the largest
// multiple of its least.
func (capacity keys) smaller(least keys) keys {
	largest := 0
	for i := range capacity {
		if share(capacity[i], least[i]) > share(capacity[largest], least[largest]) {
			largest = i
		}
	}
	capacity[largest] = smaller(capacity[largest], least[largest])
	return capacity
}

func smaller(capacity, least uint64) uint64 {
	half := math.Round(2*math.Log2(float64(capacity))) - 1
	return max(least, min(capacity-1, uint64(math.Ceil(math.Exp2(half/2)))))
}

// share returns how full a generation sized for capacity is.
func (used keys) share(capacity keys) (most float64) {
	for i := range used {
		most = max(most, share(used[i], capacity[i]))
	}
	return most
}

func share(keys, capacity uint64) float64 { return float64(keys) / float64(max(capacity, 1)) }

// memoryShare divides a book's memory: a generation takes at most one part in memoryShare, unless
// it is the first, or its least capacity takes more. The remaining memory is for older generations.
const memoryShare = 4

// spec returns the arrays of a generation for the expected keys.
func (k *Keeper[S, G]) spec(start uint64, use keys) (S, error) {
	capacity := use.after(k.least)
	if k.ready != nil && k.ready.capacity.suits(capacity) {
		return k.at(k.ready.spec, start), nil
	}
	k.ready = nil
	return k.within(start, capacity, k.sizes.size)
}

// within returns the arrays of a generation sized for capacity, or for less if that takes
// too much memory.
func (k *Keeper[S, G]) within(start uint64, capacity keys, size sizer) (S, error) {
	for {
		s, err := k.shape(start, capacity, size)
		if err != nil || k.opts.Memory == 0 || capacity == k.least || s.bytes() <= k.opts.Memory/memoryShare {
			return s, err
		}
		capacity = capacity.smaller(k.least)
	}
}

// Least returns the arrays of the smallest generation.
func (k *Keeper[S, G]) Least(start uint64) (S, error) {
	return k.within(start, k.least, k.sizes.size)
}

// First returns the memory of the first generation without its overflow tables, or an error
// that wraps [filter.ErrGeometry]. It allocates no array.
func (k *Keeper[S, G]) First() (bytes uint64, err error) {
	s, err := k.shape(0, k.first, k.sizes.size)
	return s.bytes(), err
}

// A sizer returns the geometry of an array that meets a target.
type sizer func(filter.Target) (filter.Geometry, error)

// sizes caches the geometry that meets each target.
type sizes map[filter.Target]filter.Geometry

// size is filter.SizeFor with a cache. Sizing takes longer than most of a change, and most
// generations are sized like the one before.
func (s sizes) size(t filter.Target) (filter.Geometry, error) {
	if g, ok := s[t]; ok {
		return g, nil
	}
	g, err := filter.SizeFor(t)
	if err != nil {
		return g, err
	}
	if len(s) > 64 {
		clear(s)
	}
	s[t] = g
	return g, nil
}

// beyond returns the starts of the oldest live generations that do not fit into memory together
// with the one being opened. live is newest first. The newest always stays, since the counts of a
// moment ago must not be forgotten.
func beyond[G generation](live []G, opened, memory uint64) (drop []uint64) {
	if memory == 0 {
		return nil
	}
	used := opened
	for i, g := range live {
		if used += g.bytes(); used > memory && i > 0 {
			drop = append(drop, g.begin())
		}
	}
	return drop
}

// AdoptTally returns a generation of the tally whose counts have the given geometry: they come back
// from a peer. The other array is empty and of the least size.
func AdoptTally(k *TallyKeeper, start uint64, counts filter.Geometry) (TallySpec, error) {
	s, err := k.Least(start)
	s.CountsGeometry, s.UniqueGeometry.KeyID, s.Floor = counts, counts.KeyID, 0
	return s, err
}

// AdoptBlock is [AdoptTally] for the blocklist. A zero geometry stands for an array that no peer has.
func AdoptBlock(k *BlockKeeper, start uint64, spam, revoked filter.Geometry) (BlockSpec, error) {
	s, err := k.Least(start)
	if spam != (filter.Geometry{}) {
		s.SpamGeometry = spam
	} else {
		s.SpamGeometry.KeyID = revoked.KeyID
	}
	id := s.SpamGeometry.KeyID
	s.RevokedGeometry.KeyID = id
	if revoked != (filter.Geometry{}) {
		s.RevokedGeometry = revoked
	}
	s.WeightsGeometry.KeyID, s.VotesGeometry.KeyID, s.NamesGeometry.KeyID, s.Floor = id, id, id, 0
	return s, err
}
