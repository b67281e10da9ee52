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
	Votes    uint64          `json:"votes"`    // votes of people, likewise
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
	tally  []*tallyGen
	block  []*blockGen
	remote []*replica // of the origins that count
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
	next := &view{remote: v.remote}
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

// headroom is how much larger than the last generation's use the next one is.
const headroom = 1.5

// plan returns the rotation that is due at now, or nil. Generations open at
// multiples of their length, so that the nodes of a network agree on them, or
// earlier when the open one has filled; they are dropped when they are older
// than the book keeps.
func (e *Engine) plan(v *view, now time.Time) (*rotation, error) {
	var r rotation
	due := false
	t, b := e.opts.Tally, e.opts.Block
	if start, grown, ok := opens(now, t, headTally(v)); ok {
		spec, err := e.specTally(start, v, grown)
		if err != nil {
			return nil, err
		}
		r.OpenTally, due = &spec, true
	}
	if start, grown, ok := opens(now, b, headBlock(v)); ok {
		spec, err := e.specBlock(start, v, grown)
		if err != nil {
			return nil, err
		}
		r.OpenBlock, due = &spec, true
	}
	for _, g := range v.tally {
		if expired(now, t, g.Start) {
			r.DropTally, due = append(r.DropTally, g.Start), true
		}
	}
	for _, g := range v.block {
		if expired(now, b, g.Start) {
			r.DropBlock, due = append(r.DropBlock, g.Start), true
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
func opens(now time.Time, b BookOptions, h head) (start uint64, grown float64, ok bool) {
	slice := uint64(now.Truncate(b.Generation).Unix())
	if !h.exists || h.start < slice {
		return slice, 1, true
	}
	// A clock that went back opens nothing: generations only move forward.
	second := uint64(now.Unix())
	if h.used <= early || second <= h.start {
		return 0, 0, false
	}
	passed := float64(second-h.start+1) / b.Generation.Seconds()
	return second, 1 / max(passed, 0.1), true
}

func expired(now time.Time, b BookOptions, start uint64) bool {
	return int64(start) < oldest(now, b).Unix()
}

// oldest returns the start of the oldest generation that a book keeps.
func oldest(now time.Time, b BookOptions) time.Time {
	return now.Truncate(b.Generation).Add(-time.Duration(b.Keep-1) * b.Generation)
}

// capacityAfter returns what the next generation is sized for.
func capacityAfter(keys uint64, grown float64, least uint64) uint64 {
	return max(least, uint64(headroom*grown*float64(keys)))
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

func (e *Engine) specTally(start uint64, v *view, grown float64) (tallySpec, error) {
	t := e.opts.Tally
	capacity, votes := t.Capacity, e.opts.Votes
	if len(v.tally) > 0 {
		last := v.tally[0]
		capacity = capacityAfter(last.counts.Keys(), grown, capacity)
		votes = capacityAfter(max(last.unique.Keys(), last.weights.Keys()), grown, votes)
	}
	id := e.opts.Secret.ID()
	counts, err := e.size(filter.Target{Kind: filter.Cells, Signatures: capacity, Error: filter.CountWrong, Rate: t.Error, KeyID: id})
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
	id := e.opts.Secret.ID()
	// The error of a judgement is the sum over the generations that live.
	each := b.Error / float64(b.Keep)
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
