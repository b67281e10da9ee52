package arrays

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Watched detects when an array of a [Sliced] has counted some kinds of one key again, see
// [Sliced.Watch], and keeps the arrays' counts of them. Any number of goroutines may use it at the
// same time.
type Watched struct {
	in      *watches
	keys    []Key
	cells   []cells
	line    uint64
	words   int                            // words in a row
	columns atomic.Pointer[watchedColumns] // nil: the arrays' counts are not kept
	used    atomic.Bool                    // recently
	grown   atomic.Uint64                  // how often a count grew, and forgotten
}

// watchedColumns holds the arrays' counts.
type watchedColumns struct {
	n     []atomic.Uint32 // by column, then by kind
	known []atomic.Uint64 // a bit for each column, by word
}

const (
	maxWatched = 8192 // how many keys a Sliced watches at a time: the keys of some 300 messages
	maxWide    = 1024 // for how many of them it keeps the arrays' counts

	watchSlots = 4096
	forgotten  = 1 << 63 // a flag: the Watched receives no further updates
)

// watches holds the keys that a Sliced watches.
type watches struct {
	at      [watchSlots]atomic.Pointer[[]*Watched] // by line; a list never changes
	mu      sync.Mutex                             // held by goroutines that change them
	n, wide int
	bytes   atomic.Uint64 // memory of the watched keys
	adds    atomic.Uint64
}

// Watch watches a key, given by its kinds keys ([Key.With]), in all arrays of s. From then on the
// result is notified of all adds to the key's line. The number of watched keys is limited: keys
// that were not asked for recently may be forgotten. Watch returns nil if s holds bit arrays.
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
	// Many watched keys on one line would slow down adds to it.
	return s.watches.add(w, int(min(maxWatched, 8*s.geo.Lines)))
}

// use records that w is in use.
func (w *Watched) use() {
	if !w.used.Load() {
		w.used.Store(true)
	}
}

// find returns the Watched of the keys, nil if there is none.
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

// add stores w, unless its keys are watched already, and returns the Watched of the keys. The list
// never holds more than most.
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

// keep drops the entries for which keep returns false, for the holder of a.mu.
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

// forget drops all entries: counts may have shrunk.
func (a *watches) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n > 0 {
		a.keep(func(*Watched) bool { return false })
	}
}

// widen makes w keep the arrays' counts, and returns their place, nil if w is forgotten. If too
// many keys do so, widen ends it for some that were not asked for recently.
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
			if list := a.at[i].Load(); list != nil {
				for _, w := range *list {
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

// narrow reverses widen, for the holder of a.mu.
func (a *watches) narrow(w *Watched) {
	if all := w.columns.Swap(nil); all != nil {
		a.wide--
		a.bytes.Add(-all.bytes())
	}
}

// bytes returns the memory size of w without its columns.
func (w *Watched) bytes() uint64 { return uint64(unsafe.Sizeof(*w)) + 24*uint64(len(w.keys)) }

func (c *watchedColumns) bytes() uint64 { return 4*uint64(len(c.n)) + 8*uint64(len(c.known)) }

// Counts sets out to the counts of each kind by the array in a column. It reads the array once. out
// must be as long as the keys.
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

// take updates the counts of an array in a column, which may have grown. was is the former content
// of the line, nil if only heavy cells changed.
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

// Grown returns a number that changes whenever an array has counted one of the keys again.
// [Watched.Valid] with that number reports whether results computed from later reads are still
// valid.
func (w *Watched) Grown() uint64 { return w.grown.Load() }

// Valid reports whether no array has counted one of the keys since Grown returned the number. It is
// false once w is forgotten.
func (w *Watched) Valid(grown uint64) bool {
	if now := w.grown.Load(); now != grown || now&forgotten != 0 {
		return false
	}
	w.use()
	return true
}

// raiseTo makes *n at least value: counts only grow, and several goroutines may report them.
func raiseTo(n *atomic.Uint32, value uint32) {
	for old := n.Load(); old < value; old = n.Load() {
		if n.CompareAndSwap(old, value) {
			return
		}
	}
}

// notify notifies the watchers of line at of an add to it, for the holder of c.mu. was is the former
// content of the line.
func (c *Counting) notify(at uint64, was *words) {
	for _, col := range c.writes {
		// A watcher that begins after this point reads the line in its new state.
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

// shrunk makes all watchers of the columns discard their counts, for the holder of c.mu.
func (c *Counting) shrunk() {
	for _, col := range c.writes {
		col.In.watches.forget()
	}
}
