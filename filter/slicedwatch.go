package filter

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Watched tells when an array of a [Sliced] has counted some kinds of one key once more, see
// [Sliced.Watch], and keeps what the arrays count of them. Any number of goroutines may use it
// at once.
type Watched struct {
	in      *watches
	keys    []Key
	cells   []cells
	line    uint64
	words   int                            // of a row
	columns atomic.Pointer[watchedColumns] // nil: what arrays count is not kept
	used    atomic.Bool                    // lately
	grown   atomic.Uint64                  // how often a count grew, and forgotten
}

// watchedColumns is what arrays count.
type watchedColumns struct {
	n     []atomic.Uint32 // by column, then by kind
	known []atomic.Uint64 // a bit for each column, by word
}

const (
	maxWatched = 8192 // how many keys a Sliced watches at a time: those of some 300 messages
	maxWide    = 1024 // of how many it keeps what the arrays count

	watchSlots = 4096
	forgotten  = 1 << 63 // nothing more is told to a Watched
)

// watches are the keys that a Sliced watches.
type watches struct {
	at      [watchSlots]atomic.Pointer[[]*Watched] // by line; a list never changes
	mu      sync.Mutex                             // of who changes them
	n, wide int
	bytes   atomic.Uint64 // of what is watched
	adds    atomic.Uint64
}

// Watch watches a key, of which keys are kinds ([Key.With]), in all arrays of s: from then on all
// adds to its line are told to what it returns. It watches a number of keys, and of those that
// were not asked for lately forgets some. It returns nil if s is of bit arrays.
func (s *Sliced) Watch(keys []Key) *Watched {
	if s.watches == nil || len(keys) == 0 {
		return nil
	}
	at := line(keys[0].Hi, s.geo.Lines)
	if w := s.watches.find(at, keys); w != nil {
		w.use()
		return w
	}
	w := &Watched{in: s.watches, keys: slices.Clone(keys), line: at, words: s.words}
	for _, k := range keys {
		w.cells = append(w.cells, pick(k.Lo, s.keep, s.fill))
	}
	// Lines that have many would slow down what is added there.
	return s.watches.add(w, int(min(maxWatched, 8*s.geo.Lines)))
}

// use notes that somebody asks for w.
func (w *Watched) use() {
	if !w.used.Load() {
		w.used.Store(true)
	}
}

// find returns what watches the keys, nil if there is nothing.
func (a *watches) find(line uint64, keys []Key) *Watched {
	if all := a.at[line%watchSlots].Load(); all != nil {
		for _, w := range *all {
			if slices.Equal(w.keys, keys) {
				return w
			}
		}
	}
	return nil
}

// add takes w, unless its keys are watched already, and returns what watches them. There are at
// most so many.
func (a *watches) add(w *Watched, most int) *Watched {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.find(w.line, w.keys); other != nil {
		return other
	}
	if a.n >= most {
		a.keep(func(w *Watched) bool { return w.used.Swap(false) })
	}
	if a.n >= most {
		a.keep(func(*Watched) bool { return false })
	}
	p := &a.at[w.line%watchSlots]
	var all []*Watched
	if old := p.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = append(all, w)
	p.Store(&all)
	a.n++
	a.bytes.Add(w.bytes())
	return w
}

// keep forgets those for which keep returns false, for the holder of a.mu.
func (a *watches) keep(keep func(*Watched) bool) {
	for i := range a.at {
		old := a.at[i].Load()
		if old == nil {
			continue
		}
		var all []*Watched
		for _, w := range *old {
			if keep(w) {
				all = append(all, w)
				continue
			}
			w.grown.Or(forgotten)
			a.narrow(w)
			a.n--
			a.bytes.Add(-w.bytes())
		}
		if all == nil {
			a.at[i].Store(nil)
		} else {
			a.at[i].Store(&all)
		}
	}
}

// forget forgets all: counts may have shrunk.
func (a *watches) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n > 0 {
		a.keep(func(*Watched) bool { return false })
	}
}

// widen makes w keep what arrays count, and returns where: nil if w is forgotten. It makes others
// cease to that were not asked for lately, if these are many.
func (a *watches) widen(w *Watched) *watchedColumns {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.grown.Load()&forgotten != 0 {
		return nil
	}
	if all := w.columns.Load(); all != nil {
		return all
	}
	for _, spare := range []bool{true, false} {
		if a.wide < maxWide {
			break
		}
		for i := range a.at {
			if some := a.at[i].Load(); some != nil {
				for _, w := range *some {
					if !spare || !w.used.Swap(false) {
						a.narrow(w)
					}
				}
			}
		}
	}
	all := &watchedColumns{n: make([]atomic.Uint32, w.words*64*len(w.keys)), known: make([]atomic.Uint64, w.words)}
	w.columns.Store(all)
	a.wide++
	a.bytes.Add(all.bytes())
	return all
}

// narrow ends what widen began, for the holder of a.mu.
func (a *watches) narrow(w *Watched) {
	if all := w.columns.Swap(nil); all != nil {
		a.wide--
		a.bytes.Add(-all.bytes())
	}
}

// bytes returns the memory of w without its columns.
func (w *Watched) bytes() uint64 { return uint64(unsafe.Sizeof(*w)) + 24*uint64(len(w.keys)) }

func (c *watchedColumns) bytes() uint64 { return 4*uint64(len(c.n)) + 8*uint64(len(c.known)) }

// Counts sets out to what the array in a column counts of each kind. It reads the array once.
// out must be as long as the keys.
func (w *Watched) Counts(column int, array interface{ CountBatch([]Key, []uint32) }, out []uint32) {
	out = out[:len(w.keys)]
	all := w.columns.Load()
	if all == nil {
		all = w.in.widen(w)
	}
	if all == nil {
		array.CountBatch(w.keys, out)
		return
	}
	n := all.n[column*len(w.keys):][:len(w.keys)]
	if p, bit := &all.known[column/64], uint64(1)<<(column%64); p.Load()&bit == 0 {
		array.CountBatch(w.keys, out)
		for i := range n {
			raiseTo(&n[i], out[i])
		}
		p.Or(bit)
	}
	for i := range n {
		out[i] = n[i].Load()
	}
}

// take takes the counts of an array in a column, which may have grown. was is what the line was
// before, nil if no cell of it changed but heavy ones.
func (w *Watched) take(c *Counting, column int, was *words) {
	l, grown := c.at(w.line), false
	for _, x := range w.cells {
		now := lightest(l, x, c.k)
		grown = grown || now == escape || was != nil && lightest(was, x, c.k) != now
	}
	if !grown {
		return
	}
	if all := w.columns.Load(); all != nil {
		n := all.n[column*len(w.keys):][:len(w.keys)]
		for i, x := range w.cells {
			raiseTo(&n[i], c.count(w.line, x))
		}
	}
	w.grown.Add(1)
}

// Grown returns a number that is another one after an array has counted one of the keys once
// more. What was made of the counts after the number was read is [Watched.Valid] with it.
func (w *Watched) Grown() uint64 { return w.grown.Load() }

// Valid reports whether no array has counted one of the keys since Grown returned a number. It is
// false from when w is forgotten.
func (w *Watched) Valid(grown uint64) bool {
	if now := w.grown.Load(); now != grown || now&forgotten != 0 {
		return false
	}
	w.use()
	return true
}

// raiseTo makes *n at least value: counts only grow, and several goroutines may tell of them.
func raiseTo(n *atomic.Uint32, value uint32) {
	for old := n.Load(); old < value; old = n.Load() {
		if n.CompareAndSwap(old, value) {
			return
		}
	}
}

// tell tells whoever watches line at, which was another one, of an add to it, for the holder of
// c.mu.
func (c *Counting) tell(at uint64, was *words) {
	for _, col := range c.writes {
		// Whoever watches from now on sees the line as it is.
		col.In.watches.adds.Add(1)
		all := col.In.watches.at[at%watchSlots].Load()
		if all == nil {
			continue
		}
		for _, w := range *all {
			if w.line == at {
				w.take(c, col.N, was)
			}
		}
	}
}

// shrunk makes all who watch forget what they know, for the holder of c.mu.
func (c *Counting) shrunk() {
	for _, col := range c.writes {
		col.In.watches.forget()
	}
}
