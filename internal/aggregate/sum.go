package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

const (
	maxSlots   = 60       // arrays of one kind; receivers keep 64 generations of a peer
	maxAdds    = 1 << 20  // that wait to be published; receivers ask for images of any beyond
	maxBacklog = 64 << 20 // bytes of rounds that arrive while a sum is made
)

// own is the origin of the node's own arrays.
const own = ""

// A source is an array of a member.
type source struct {
	origin string
	array  engine.Array
	start  uint64
}

// A place is a generation of a sum: the nth of the generations that take the members' counts of
// their generations with one start.
type place struct {
	lists bool
	from  uint64 // start of the members' generations
	n     int
}

// A slot is one array of a sum.
type slot struct {
	place
	array engine.Array
	start uint64 // its published start
	cells array
	extra int64 // keys beyond cells.Keys that would fill it equally
}

// array is *arrays.Counting or *arrays.Bits.
type array interface {
	Geometry() filter.Geometry
	Version() uint64
	Keys() uint64
	Stats() arrays.Stats
	SetGeneration(uint64)
	Image(page int) *arrays.Image
	LoadAt(index uint64, m *arrays.Image) error
	ApplyRound(index uint64, r *arrays.Round, replayed bool) error
}

func (s *slot) load() uint64 { return uint64(max(0, s.extra+int64(s.cells.Keys()))) }

// A Sum holds the counts of its members as the arrays of one origin. It implements the engine of a
// mesh that publishes. Its methods may be called concurrently.
type Sum struct {
	engine  *engine.Engine
	members []string // origins, without the node itself

	mu      sync.Mutex
	lives   map[string]uint64 // incarnations of the members
	have    map[source]uint64 // versions that are in the sum
	behind  map[source]uint64 // versions of incomplete arrays at the last audit
	listed  map[source]int    // n of the place of a member's lists; the source has no array set
	starts  map[place]uint64
	slots   []*slot
	full    string // why an array found no place
	making  bool
	backlog []fed
	waiting int // bytes of backlog
	parts   []engine.Part
	adds    int
}

type fed struct {
	origin string
	part   engine.Part
}

// newSum returns an empty sum. It keeps incoming rounds until it is made.
func newSum(e *engine.Engine, members []string) *Sum {
	return &Sum{
		engine: e, members: slices.Sorted(slices.Values(members)), making: true,
		lives: make(map[string]uint64), have: make(map[source]uint64), listed: make(map[source]int),
		starts: make(map[place]uint64),
	}
}

// make copies the members' arrays, and then takes the rounds that have arrived since.
func (s *Sum) make(ctx context.Context) error {
	for _, origin := range append([]string{own}, s.members...) {
		s.mu.Lock()
		s.lives[origin] = s.life(origin)
		s.mu.Unlock()
		for _, a := range s.arrays(origin) {
			if a.Partial != 0 || a.Version == 0 {
				continue
			}
			version, cells, err := s.copyArray(ctx, origin, a)
			if errors.Is(err, engine.ErrGap) || errors.Is(err, bulkhead.ErrMalformed) {
				continue // it has expired, or comes anew: the next audit sees it
			}
			if err != nil {
				return err
			}
			s.mu.Lock()
			err = s.merge(source{origin, a.Array, a.Start}, version, cells)
			s.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting > maxBacklog {
		return errors.New("aggregate: more was counted while the sum was made than is kept")
	}
	s.making = false
	for i := range s.backlog {
		s.add(s.backlog[i].origin, &s.backlog[i].part)
	}
	s.backlog = nil
	s.parts, s.adds = nil, 0 // images of all arrays are sent first
	return nil
}

func (s *Sum) life(origin string) uint64 {
	if origin == own {
		return 0
	}
	return s.engine.Incarnation(origin)
}

func (s *Sum) arrays(origin string) []engine.ArrayState {
	if origin == own {
		return s.engine.Own()
	}
	return s.engine.Replica(origin)
}

// copyArray returns a copy of an array of a member.
func (s *Sum) copyArray(ctx context.Context, origin string,
	a engine.ArrayState) (version uint64, cells array, err error) {
	var images []*arrays.Image
	if origin == own {
		var parts []engine.Part
		version, parts, err = s.engine.Images(ctx, a.Array, a.Start)
		for i := 0; i < len(parts) && err == nil; i++ {
			var m *arrays.Image
			m, err = arrays.ParseImage(parts[i].Image, parts[i].Geometry)
			images = append(images, m)
		}
	} else {
		version, images, err = s.engine.CopyReplica(ctx, origin, a.Array, a.Start)
	}
	if err != nil {
		return 0, nil, err
	}
	if cells, err = blank(a.Array, a.Geometry); err != nil {
		return 0, nil, err
	}
	cells.SetGeneration(a.Start)
	for _, m := range images {
		if err := cells.LoadAt(0, m); err != nil {
			return 0, nil, err
		}
	}
	return version, cells, nil
}

func blank(a engine.Array, g filter.Geometry) (array, error) {
	if a == engine.ArrayCounts {
		return arrays.NewSparseCounting(g)
	}
	return arrays.NewSparseBits(g)
}

// merge adds an array of a member to the sum. The caller holds the lock.
func (s *Sum) merge(x source, version uint64, cells array) error {
	t, err := s.place(x, cells.Geometry(), cells.Keys())
	if t == nil || err != nil {
		return err
	}
	switch c := t.cells.(type) {
	case *arrays.Counting:
		err = c.Merge(cells.(*arrays.Counting))
	case *arrays.Bits:
		err = c.Merge(cells.(*arrays.Bits))
	}
	t.extra = int64(t.cells.Stats().Effective) - int64(t.cells.Keys())
	s.have[x] = version
	return err
}

// place returns the array that takes keys further keys of a member's array. It returns nil and sets
// s.full if there is none. The caller holds the lock.
func (s *Sum) place(x source, g filter.Geometry, keys uint64) (*slot, error) {
	lists := x.array != engine.ArrayCounts
	limit := s.engine.FullKeys(g)
	var least *slot
	last := -1
	for _, t := range s.slots {
		if t.lists == lists && t.from == x.start {
			last = max(last, t.n)
		}
		if t.array == x.array && t.from == x.start && t.cells.Geometry() == g && (least == nil || t.load() < least.load()) {
			least = t
		}
	}
	if lists {
		member := source{origin: x.origin, start: x.start}
		if n, ok := s.listed[member]; ok {
			return s.slot(place{true, x.start, n}, x.array, g)
		}
		n := 0
		for ; n <= last; n++ {
			if t := s.find(place{true, x.start, n}, x.array); t == nil || t.cells.Geometry() == g && t.load()+keys <= limit {
				break
			}
		}
		s.listed[member] = n
		return s.slot(place{true, x.start, n}, x.array, g)
	}
	if least != nil && (least.load()+keys <= limit || s.count(x.array) >= maxSlots) {
		return least, nil
	}
	return s.slot(place{false, x.start, last + 1}, x.array, g)
}

func (s *Sum) find(at place, a engine.Array) *slot {
	for _, t := range s.slots {
		if t.place == at && t.array == a {
			return t
		}
	}
	return nil
}

// count returns the number of arrays of a kind.
func (s *Sum) count(a engine.Array) (n int) {
	for _, t := range s.slots {
		if t.array == a {
			n++
		}
	}
	return n
}

// slot returns the array of a place, and makes it if needed. Lists of one member with two shapes
// cannot share a generation: the second shape gets the next one.
func (s *Sum) slot(at place, a engine.Array, g filter.Geometry) (*slot, error) {
	for {
		t := s.find(at, a)
		if t == nil {
			break
		}
		if t.cells.Geometry() == g {
			return t, nil
		}
		at.n++
	}
	if s.count(a) >= maxSlots {
		s.full = fmt.Sprintf(
			"%s of generation %d: the sum has %d arrays of that kind already; "+
				"give the members equal sizes, or make two groups of them",
			a, at.from, maxSlots)
		return nil, nil
	}
	cells, err := blank(a, g)
	if err != nil {
		return nil, err
	}
	t := &slot{place: at, array: a, start: s.start(at), cells: cells}
	cells.SetGeneration(t.start)
	s.slots = append(s.slots, t)
	return t, nil
}

// start returns the start under which the arrays of a place are published.
func (s *Sum) start(at place) uint64 {
	start, ok := s.starts[at]
	if ok {
		return start
	}
	taken := make(map[uint64]bool)
	for p, x := range s.starts {
		if p.lists == at.lists {
			taken[x] = true
		}
	}
	for start = at.from; taken[start]; start++ {
	}
	s.starts[at] = start
	return start
}

// feed takes a round of an origin, if it is a member.
func (s *Sum) feed(origin string, p *engine.Part) {
	if len(p.Round) == 0 {
		return // images: the next audit notices the change
	}
	if _, member := slices.BinarySearch(s.members, origin); origin != own && !member {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.making {
		s.add(origin, p)
		return
	}
	if s.waiting += len(p.Round); s.waiting <= maxBacklog {
		kept := *p
		kept.Round = bytes.Clone(p.Round)
		s.backlog = append(s.backlog, fed{origin, kept})
	}
}

// add applies a round that continues the sum's version of an array. The audit finds any other gap.
// The caller holds the lock.
func (s *Sum) add(origin string, p *engine.Part) {
	x := source{origin, p.Array, p.Start}
	if s.have[x] != p.From {
		return
	}
	first, err := arrays.ParseRoundBody(p.Round, p.Geometry, p.Start, p.From)
	if err != nil {
		return // not of this engine
	}
	t, err := s.place(x, p.Geometry, uint64(first.Len()))
	if t == nil || err != nil {
		return
	}
	from := t.cells.Version()
	r, err := arrays.ParseRoundBody(p.Round, p.Geometry, t.start, from)
	if err != nil || t.cells.ApplyRound(0, r, false) != nil {
		return
	}
	s.have[x] = p.To
	if s.adds += r.Len(); s.adds <= maxAdds {
		s.parts = append(s.parts, engine.Part{Array: p.Array, Start: t.start, Geometry: p.Geometry,
			Round: bytes.Clone(p.Round), From: from, To: r.To})
	}
}

// audit compares the sum with the members' arrays. It returns why another sum has to be made, or
// "". The latest counts may still be on their way here, so a gap counts only if it was there at the
// last audit as well.
func (s *Sum) audit() string {
	s.mu.Lock()
	held := maps.Clone(s.have) // the engine's arrays are read later, and are no older
	s.mu.Unlock()
	behind := make(map[source]uint64)
	seen := make(map[source]bool)
	why := ""
	for _, origin := range append([]string{own}, s.members...) {
		arrays, life := s.arrays(origin), s.life(origin)
		s.mu.Lock()
		if s.lives[origin] != life {
			why = "a member has begun anew"
		}
		for _, a := range arrays {
			x := source{origin, a.Array, a.Start}
			seen[x] = true
			have := held[x]
			switch before, was := s.behind[x]; {
			case a.Partial != 0 || a.Version == have:
			case a.Version < have:
				why = "a member has gone back"
			case was && before == have:
				why = "the sum lacks what a member has counted"
			default:
				behind[x] = have
			}
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = behind
	for x := range held {
		switch {
		case !s.engine.Keeps(x.array, x.start):
			delete(s.have, x)
		case !seen[x]:
			why = "a member's generation was dropped"
		}
	}
	for _, t := range s.slots {
		if t.lists && t.load() > 2*s.engine.FullKeys(t.cells.Geometry()) && s.count(t.array) < maxSlots {
			why = "a list of several members is full"
		}
	}
	return why
}

// expire drops the arrays that no member keeps. The caller holds the lock.
func (s *Sum) expire() {
	s.slots = slices.DeleteFunc(s.slots, func(t *slot) bool {
		gone := !s.engine.Keeps(t.array, t.from)
		if gone {
			delete(s.starts, t.place)
		}
		return gone
	})
	for x := range s.listed {
		if !s.engine.Keeps(engine.ArraySpam, x.start) {
			delete(s.listed, x)
		}
	}
}

// state returns the present state of the arrays. The caller holds the lock.
func (s *Sum) state() (out []engine.ArrayState) {
	s.expire()
	for _, t := range s.slots {
		g, keys := t.cells.Geometry(), t.load()
		out = append(out, engine.ArrayState{Array: t.array, Start: t.start, Geometry: g, Version: t.cells.Version(),
			Keys: keys, Bytes: g.Bytes(), Ghost: g.GhostError(keys)})
	}
	return out
}
