package filter

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Watched is what the arrays of a [Sliced] count of several kinds of one key, see
// [Sliced.Watch]. Any number of goroutines may use it at once.
type Watched struct {
	keys  []Key
	cells []cells
	line  uint64
	n     []atomic.Uint32 // by column, then by kind
	known []atomic.Uint64 // a bit for each column, by word
	used  atomic.Bool     // lately
	grown atomic.Uint64   // how often a count grew, after a number of its own
}

// watchNumber is the number of the latest Watched, times more than any grows.
var watchNumber atomic.Uint64

// maxWatched is how many keys a Sliced watches at a time: those of some 40 messages.
const maxWatched = 1024

// watches are the keys that a Sliced watches.
type watches struct {
	at    [exactMarks]atomic.Pointer[[]*Watched] // by line; a list never changes
	mu    sync.Mutex                             // of who changes them
	n     int
	bytes atomic.Uint64
}

// Watch returns the counts of a key, of which keys are kinds ([Key.With]), in all arrays of s:
// from then on all adds to its line are told to what it returns. It keeps a number of keys, and
// of those that were not asked for lately forgets some. It returns nil if s is not exact, or of
// bit arrays.
func (s *Sliced) Watch(keys []Key) *Watched {
	e := s.exact.Load()
	if e == nil || s.geo.Kind != Cells || len(keys) == 0 {
		return nil
	}
	at := line(keys[0].Hi, s.geo.Lines)
	if w := e.watches.find(at, keys); w != nil {
		if !w.used.Load() {
			w.used.Store(true)
		}
		return w
	}
	w := &Watched{
		keys:  slices.Clone(keys),
		line:  at,
		n:     make([]atomic.Uint32, s.words*64*len(keys)),
		known: make([]atomic.Uint64, s.words),
	}
	w.grown.Store(watchNumber.Add(1 << 32))
	for _, k := range keys {
		w.cells = append(w.cells, pick(k.Lo, s.keep, s.fill))
	}
	return e.watches.add(w)
}

// find returns what watches the keys, nil if there is nothing.
func (a *watches) find(line uint64, keys []Key) *Watched {
	if all := a.at[line%exactMarks].Load(); all != nil {
		for _, w := range *all {
			if slices.Equal(w.keys, keys) {
				return w
			}
		}
	}
	return nil
}

// add takes w, unless its keys are watched already, and returns what watches them.
func (a *watches) add(w *Watched) *Watched {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other := a.find(w.line, w.keys); other != nil {
		return other
	}
	if a.n == maxWatched {
		a.keep(func(w *Watched) bool { return w.used.Swap(false) })
	}
	if a.n == maxWatched {
		a.keep(func(*Watched) bool { return false })
	}
	p := &a.at[w.line%exactMarks]
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

// bytes returns the memory of w.
func (w *Watched) bytes() uint64 {
	return uint64(unsafe.Sizeof(*w)) + 4*uint64(len(w.n)) + 8*uint64(len(w.known)) + 24*uint64(len(w.keys))
}

// Counts sets out to what the array in a column counts of each kind. It reads the array once.
// out must be as long as the keys.
func (w *Watched) Counts(column int, array interface{ CountBatch([]Key, []uint32) }, out []uint32) {
	n := w.n[column*len(w.keys):][:len(w.keys)]
	out = out[:len(n)]
	if p, bit := &w.known[column/64], uint64(1)<<(column%64); p.Load()&bit == 0 {
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

// take takes the counts of an array in a column, which may have grown.
func (w *Watched) take(c *Counting, column int) {
	n := w.n[column*len(w.keys):][:len(w.keys)]
	grown := false
	for i, x := range w.cells {
		grown = raiseTo(&n[i], c.count(w.line, x)) || grown
	}
	if grown {
		w.grown.Add(1)
	}
}

// Grown returns a number that is another one after an array has counted one of the keys once
// more, and of every Watched: what was made of the counts after the number was read is valid as
// long as the key has it.
func (w *Watched) Grown() uint64 { return w.grown.Load() }

// raiseTo makes *n at least value, and reports whether it was less: counts only grow, and several
// goroutines may tell of them.
func raiseTo(n *atomic.Uint32, value uint32) bool {
	for old := n.Load(); old < value; old = n.Load() {
		if n.CompareAndSwap(old, value) {
			return true
		}
	}
	return false
}

// tell tells whoever watches line at of an add to it, for the holder of c.mu.
func (c *Counting) tell(at uint64) {
	for _, col := range c.writes {
		e := col.In.exact.Load()
		if e == nil {
			continue
		}
		all := e.watches.at[at%exactMarks].Load()
		if all == nil {
			continue
		}
		for _, w := range *all {
			if w.line == at {
				w.take(c, col.N)
			}
		}
	}
}

// shrunk makes all who watch forget what they know, for the holder of c.mu.
func (c *Counting) shrunk() {
	for _, col := range c.writes {
		if e := col.In.exact.Load(); e != nil {
			e.watches.forget()
		}
	}
}
