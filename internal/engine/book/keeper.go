package book

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// A Keeper opens and drops the generations of one book. Make one by [NewTally] or
// [NewBlocklist]. Only one goroutine uses it.
type Keeper[S spec, G generation] struct {
	opts  Options
	name  string // of the book
	log   *slog.Logger
	first keys // the numbers of keys that the first generation is sized for
	least keys // the smallest numbers that a later one is sized for
	// shape returns the arrays of a generation sized for capacity.
	shape func(start uint64, capacity keys, size sizer) (S, error)
	make  func(S) (G, error)
	// at returns s with another start. begin gives an empty generation the start of s.
	at    func(s S, start uint64) S
	begin func(g G, s S)
	// age returns g with another time from which it ages.
	age func(g G, from uint64) G

	sizes  sizes
	now    bool      // the first generation begins now
	fresh  bool      // the next generation is due at once
	behind time.Time // the time since which the clock has been behind the open generation

	floor  uint32        // of generations that open; 0: none
	key    atomic.Uint64 // ID of the secret with which arrays are made
	ready  *ready[S, G]  // nil: none was made ahead of time
	making bool          // a generation is being made
	made   chan *ready[S, G]
}

// SetKey makes the arrays of later generations take keys of the secret with the given ID. The next
// generation is due at once, unless the open one has that secret.
func (k *Keeper[S, G]) SetKey(id uint64) {
	k.key.Store(id)
	if k.ready != nil && k.ready.spec.keyID() != id {
		k.ready = nil
	}
}

// BeginNow makes the first generation begin at once, and not with its slice of time. A generation of
// that slice may come back from peers.
func (k *Keeper[S, G]) BeginNow() { k.now = true }

// Fresh makes the next generation due at once.
func (k *Keeper[S, G]) Fresh() { k.fresh = true }

// Make returns a generation with empty arrays.
func (k *Keeper[S, G]) Make(s S) (G, error) { return k.make(s) }

// Apply returns the book after c. Opening a generation that is already live, or dropping one that
// is not, changes nothing: replay of a journal may do both.
func (k *Keeper[S, G]) Apply(b Book[G], c Change[S]) (Book[G], error) {
	next := Book[G]{From: max(b.From, c.From)}
	open := c.Open != nil
	for _, g := range b.Live {
		if slices.Contains(c.Drop, g.begin()) {
			continue
		}
		if c.Aged > 0 && g.begin() >= c.Since {
			g = k.age(g, c.Aged)
		}
		next.Live = append(next.Live, g)
		open = open && g.begin() != (*c.Open).begin()
	}
	if !open {
		return next, nil
	}
	g, ok := k.take(*c.Open)
	if !ok {
		var err error
		if g, err = k.make(*c.Open); err != nil {
			return b, err
		}
		if len(b.Live) == 0 {
			g.touch() // a node opens it as it starts, when no vote waits
		}
	}
	return next.With(g), nil
}

// Early is how full a generation may become, as a multiple of its capacity, before the next
// one opens ahead of the clock.
const Early = 1.25

// Plan returns the change that is due at now. Generations open at multiples of their length, so
// that the nodes of a network agree on them, or earlier when the open one is full. They are dropped
// when they are older than the book keeps. A clock that is clearly behind the open generation was
// or is wrong. Generations then open one length apart, and are also dropped when there are more
// than the book keeps.
//
// While ageing is held, no generation is dropped because of its age or because of the number of
// generations.
func (k *Keeper[S, G]) Plan(b Book[G], now time.Time, held bool) (c Change[S], err error) {
	k.collect()
	keep := len(b.Live)
	if start, use, ok := k.opens(now, b); ok {
		if start > uint64(now.Unix())+k.opts.ahead() {
			keep = k.opts.Keep - 1
		}
		var s S
		if len(b.Live) == 0 {
			s, err = k.shape(start, k.first, k.sizes.size)
		} else {
			s, err = k.spec(start, use)
		}
		if err != nil {
			return c, err
		}
		c.Open, k.fresh = &s, false
	}
	var live []G // generations that may have to make room for the new one
	for i, g := range b.Live {
		if !held && (i >= keep || k.opts.Expired(now, g.ages())) {
			c.Drop = append(c.Drop, g.begin())
		} else if c.Open != nil {
			live = append(live, g)
		}
	}
	if c.Open != nil {
		if over := beyond(live, (*c.Open).bytes(), k.opts.Memory); len(over) > 0 {
			c.Drop, c.From = append(c.Drop, over...), slices.Max(over)+1
		}
	}
	return c, nil
}

// opens reports whether a generation is due. It returns its start, and the keys that it is to be sized for. After
// a full one, these are the keys of the full one.
func (k *Keeper[S, G]) opens(now time.Time, b Book[G]) (start uint64, use keys, ok bool) {
	slice, second := uint64(now.Truncate(k.opts.Generation).Unix()), uint64(now.Unix())
	if len(b.Live) == 0 {
		k.behind = time.Time{}
		if k.now {
			slice = second
		}
		return slice, use, true
	}
	last := b.Live[0]
	if k.fresh || last.keyID() != k.key.Load() || last.floor() != k.floor {
		start = max(second, last.begin()+1)
		if next := slice + uint64(k.opts.Generation/time.Second); start < next && next <= second+k.opts.ahead() {
			start = next // so that no further one opens a moment later
		}
		return start, k.expected(b, start), true
	}
	if second+k.opts.ahead() < last.begin() {
		return last.begin() + 1, last.uses(), k.opensBehind(now, last)
	}
	k.behind = time.Time{}
	if last.begin() < slice {
		return slice, k.expected(b, slice), true
	}
	start = max(second, last.begin()+1)
	if last.Fill() <= Early || start > second+k.opts.ahead() {
		return 0, use, false
	}
	return start, filled(last), true
}

// filled returns the keys that a generation has when it is full and the next one opens.
func filled[G generation](g G) (use keys) {
	fill := g.Fill()
	for i, n := range g.uses() {
		use[i] = uint64(float64(n) * Early / fill)
	}
	return use
}

// opensBehind is opens for a clock that is behind the open generation. Starts must grow, and the
// time when the clock catches up is unknown. So when the generation has been open for its length,
// or is full, the next one gets a start one second later. A clock that is soon corrected opens
// nothing.
func (k *Keeper[S, G]) opensBehind(now time.Time, last G) bool {
	if k.behind.IsZero() || now.Before(k.behind) {
		k.behind = now
		if lag := time.Unix(int64(last.begin()), 0).Sub(now); lag > k.opts.Generation {
			k.log.Warn("the clock is behind the open generation", "book", k.name,
				"behind", lag.Round(time.Second),
				"consequence", "peers accept no counts of this node until the clock has caught up",
				"hint", "the clock is wrong, or was; check it")
		}
	}
	if last.Fill() <= Early && now.Sub(k.behind) < k.opts.Generation {
		return false
	}
	k.behind = now
	return true
}

// GivenUp returns the number of generations that a change gives up for lack of memory. It logs a
// warning if memory is short.
func (k *Keeper[S, G]) GivenUp(c Change[S], now time.Time) (n uint64) {
	if c.From == 0 {
		return 0
	}
	for _, start := range c.Drop {
		if !k.opts.Expired(now, start) {
			n++
		}
	}
	k.log.Warn("memory limit reached", "book", k.name, "generations", n, "memory_bytes", k.opts.Memory,
		"consequence", "the oldest generations are dropped early")
	return n
}
