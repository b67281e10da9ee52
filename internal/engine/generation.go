package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A generation is known by its start in Unix seconds: unique within a book,
// and growing.

// tallySpec says which arrays a generation of the tally has.
type tallySpec struct {
	Start    uint64          `json:"start"`
	Capacity uint64          `json:"capacity"` // signatures it is sized for
	Votes    uint64          `json:"votes"`    // keys of votes of people, two each, likewise
	Counts   filter.Geometry `json:"counts"`
	Weights  filter.Geometry `json:"weights"`
	Unique   filter.Geometry `json:"unique"`
}

// blockSpec says which arrays a generation of the blocklist has.
type blockSpec struct {
	Start    uint64          `json:"start"`
	Capacity uint64          `json:"capacity"`
	Spam     filter.Geometry `json:"spam"`
	Revoked  filter.Geometry `json:"revoked"`
}

type tallyGen struct {
	tallySpec
	counts  counter
	weights counter
	unique  bitset
}

type blockGen struct {
	blockSpec
	spam, revoked bitset
}

// A view is the generations that live, newest first. It never changes: a
// rotation makes a new one.
type view struct {
	tally []*tallyGen
	block []*blockGen
	// The starts below which own generations were given up for want of memory.
	tallyFrom, blockFrom uint64

	remote []*replica // of the origins that count
	merged []*merged  // what the cold arrays of replicas hold

	// What is looked up of merged; see refresh.
	mergedCounts []mergedCounts
	mergedLists  []*mergedList
}

func (v *view) tallyGen(start uint64) *tallyGen {
	i := slices.IndexFunc(v.tally, func(g *tallyGen) bool { return g.Start == start })
	if i < 0 {
		return nil
	}
	return v.tally[i]
}

func (v *view) blockGen(start uint64) *blockGen {
	i := slices.IndexFunc(v.block, func(g *blockGen) bool { return g.Start == start })
	if i < 0 {
		return nil
	}
	return v.block[i]
}

// apply returns the view after r. Opening a generation that lives, or dropping
// one that does not, changes nothing: replay may do both.
func (v *view) apply(r *rotation, exact bool) (*view, error) {
	next := v.clone()
	next.tally, next.block = nil, nil
	next.tallyFrom, next.blockFrom = max(v.tallyFrom, r.TallyFrom), max(v.blockFrom, r.BlockFrom)
	for _, g := range v.tally {
		if !slices.Contains(r.DropTally, g.Start) {
			next.tally = append(next.tally, g)
		}
	}
	for _, g := range v.block {
		if !slices.Contains(r.DropBlock, g.Start) {
			next.block = append(next.block, g)
		}
	}
	if s := r.OpenTally; s != nil && next.tallyGen(s.Start) == nil {
		g, err := newTallyGen(*s, exact)
		if err != nil {
			return nil, err
		}
		next.tally = append(next.tally, g)
	}
	if s := r.OpenBlock; s != nil && next.blockGen(s.Start) == nil {
		g, err := newBlockGen(*s, exact)
		if err != nil {
			return nil, err
		}
		next.block = append(next.block, g)
	}
	next.sort()
	return next, nil
}

func (v *view) sort() {
	slices.SortFunc(v.tally, func(a, b *tallyGen) int { return compareNewest(a.Start, b.Start) })
	slices.SortFunc(v.block, func(a, b *blockGen) int { return compareNewest(a.Start, b.Start) })
}

func compareNewest(a, b uint64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

func newTallyGen(s tallySpec, exact bool) (*tallyGen, error) {
	if exact {
		return &tallyGen{tallySpec: s, counts: newExactCounter(), weights: newExactCounter(), unique: newExactBits()}, nil
	}
	counts, err := filter.NewCounting(s.Counts)
	if err != nil {
		return nil, fmt.Errorf("engine: tally generation %d: %w", s.Start, err)
	}
	weights, err := filter.NewCounting(s.Weights)
	if err != nil {
		return nil, fmt.Errorf("engine: tally generation %d: %w", s.Start, err)
	}
	unique, err := filter.NewBits(s.Unique)
	if err != nil {
		return nil, fmt.Errorf("engine: tally generation %d: %w", s.Start, err)
	}
	counts.SetGeneration(s.Start)
	weights.SetGeneration(s.Start)
	unique.SetGeneration(s.Start)
	return &tallyGen{tallySpec: s, counts: counts, weights: weights, unique: unique}, nil
}

func newBlockGen(s blockSpec, exact bool) (*blockGen, error) {
	if exact {
		return &blockGen{blockSpec: s, spam: newExactBits(), revoked: newExactBits()}, nil
	}
	spam, err := filter.NewBits(s.Spam)
	if err != nil {
		return nil, fmt.Errorf("engine: blocklist generation %d: %w", s.Start, err)
	}
	revoked, err := filter.NewBits(s.Revoked)
	if err != nil {
		return nil, fmt.Errorf("engine: blocklist generation %d: %w", s.Start, err)
	}
	spam.SetGeneration(s.Start)
	revoked.SetGeneration(s.Start)
	return &blockGen{blockSpec: s, spam: spam, revoked: revoked}, nil
}

// early is how far past its capacity a generation may fill before the next one
// opens ahead of the clock.
const early = 1.25

// ahead returns how far, in seconds, the starts of generations that fill faster
// than seconds pass may run ahead of the clock, being whole seconds themselves.
// Peers take none that is further ahead than its length.
func ahead(b BookOptions) uint64 { return min(60, uint64(b.Generation/time.Second)/2) }

// plan returns the rotation that is due at now, or nil. Generations open at
// multiples of their length, so that the nodes of a network agree on them, or
// earlier when the open one has filled; they are dropped when they are older
// than the book keeps. While the clock is behind the open one by more than
// [ahead], because it was wrong once, they open and are dropped by their number
// and their age.
func (e *Engine) plan(v *view, now time.Time) (*rotation, error) {
	var r rotation
	due := false
	t, b := e.opts.Tally, e.opts.Block
	start, grown, ok := e.opens(now, t, headTally(v), &e.behindTally)
	keepTally, keepBlock := len(v.tally), len(v.block)
	if ok {
		if start > uint64(now.Unix())+ahead(t) {
			keepTally = t.Keep - 1
		}
		spec, err := e.specTally(start, v, grown)
		if err != nil {
			return nil, err
		}
		r.OpenTally, due = &spec, true
	}
	if start, grown, ok = e.opens(now, b, headBlock(v), &e.behindBlock); ok {
		if start > uint64(now.Unix())+ahead(b) {
			keepBlock = b.Keep - 1
		}
		spec, err := e.specBlock(start, v, grown)
		if err != nil {
			return nil, err
		}
		r.OpenBlock, due = &spec, true
	}
	var tally, block []aged // what has to make room for one that opens
	for i, g := range v.tally {
		if i >= keepTally || expired(now, t, g.Start) {
			r.DropTally, due = append(r.DropTally, g.Start), true
		} else if r.OpenTally != nil {
			tally = append(tally, aged{g.Start, g.bytes()})
		}
	}
	for i, g := range v.block {
		if i >= keepBlock || expired(now, b, g.Start) {
			r.DropBlock, due = append(r.DropBlock, g.Start), true
		} else if r.OpenBlock != nil {
			block = append(block, aged{g.Start, g.bytes()})
		}
	}
	if r.OpenTally != nil {
		if over := beyond(tally, r.OpenTally.bytes(), t.Memory); len(over) > 0 {
			r.DropTally, r.TallyFrom = append(r.DropTally, over...), slices.Max(over)+1
		}
	}
	if r.OpenBlock != nil {
		if over := beyond(block, r.OpenBlock.bytes(), b.Memory); len(over) > 0 {
			r.DropBlock, r.BlockFrom = append(r.DropBlock, over...), slices.Max(over)+1
		}
	}
	if !due {
		return nil, nil
	}
	return &r, nil
}

// head is what plan needs to know of a book's open generation.
type head struct {
	exists bool
	start  uint64
	used   float64 // keys as a share of capacity, of its fullest array
}

func headTally(v *view) head {
	if len(v.tally) == 0 {
		return head{}
	}
	g := v.tally[0]
	return head{true, g.Start, max(share(g.counts.Keys(), g.Capacity), share(g.unique.Keys(), g.Votes), share(g.weights.Keys(), g.Votes))}
}

func headBlock(v *view) head {
	if len(v.block) == 0 {
		return head{}
	}
	g := v.block[0]
	return head{true, g.Start, max(share(g.spam.Keys(), g.Capacity), share(4*g.revoked.Keys(), g.Capacity))}
}

func share(keys, capacity uint64) float64 { return float64(keys) / float64(max(capacity, 1)) }

// opens says whether a generation is due, its start, and by how much the use of
// the book's last one is to be multiplied to make up for a whole slice of time.
// behind is since when the clock has been behind the last one's start.
func (e *Engine) opens(now time.Time, b BookOptions, h head, behind *time.Time) (start uint64, grown float64, ok bool) {
	slice, second := uint64(now.Truncate(b.Generation).Unix()), uint64(now.Unix())
	if h.exists && second+ahead(b) < h.start {
		return h.start + 1, 1, e.opensBehind(now, b, h, behind)
	}
	*behind = time.Time{}
	if !h.exists || h.start < slice {
		return slice, 1, true
	}
	start = max(second, h.start+1)
	if h.used <= early || start > second+ahead(b) {
		return 0, 0, false
	}
	passed := float64(start-h.start) / b.Generation.Seconds()
	return start, 1 / max(passed, 0.1), true
}

// opensBehind is opens for a clock that is behind the open generation. Starts only
// grow, and nobody knows how long the clock will take to catch up: when the
// generation has been open for its length, or is full, the next one begins one
// second after it. A clock that is soon put right opens nothing.
func (e *Engine) opensBehind(now time.Time, b BookOptions, h head, behind *time.Time) bool {
	if behind.IsZero() || now.Before(*behind) {
		*behind = now
		if lag := time.Unix(int64(h.start), 0).Sub(now); lag > b.Generation {
			e.opts.Log.Warn("the clock is behind the open generation: it is wrong, or was; until it has caught up peers take no counts of this node", "behind", lag.Round(time.Second))
		}
	}
	if h.used <= early && now.Sub(*behind) < b.Generation {
		return false
	}
	*behind = now
	return true
}

func expired(now time.Time, b BookOptions, start uint64) bool {
	return int64(start) < oldest(now, b).Unix()
}

// oldest returns the start of the oldest generation that a book keeps.
func oldest(now time.Time, b BookOptions) time.Time {
	return now.Truncate(b.Generation).Add(-time.Duration(b.Keep-1) * b.Generation)
}
