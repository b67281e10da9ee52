package arrays

import (
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// Many is the largest count. It stands for "Many or more".
const Many = codec.MaxValue

// A Counting counts how often each key was added. The count of a key is never too low. It is too
// high for the share of keys given by [Geometry.CountError], and an unseen key has a count with
// probability [Geometry.GhostError].
//
// It is the refined extension of the Bloom filter with split storage. H1: an add of n raises every
// cell of the key to at least the key's present count + n. H2: the k cells of a key are distinct. A
// cell is a nibble, 128 of them in a cache line, and all cells of a key are in one line. Nibble 15
// is an escape: the value, exact up to [Many], is then in the page's overflow table.
//
// Any number of goroutines may read counts while one writes: reads take no lock and never miss an
// add that has returned. A mutex orders writers, so concurrent adds are safe and never undercount;
// a single writer that adds in batches is fastest.
//
// Subtraction is impossible: in a refined filter it would undercount other keys. Arrays of several
// servers are combined by [Counting.Merge]; each server must add only to an array of its own.
//
// Source: Yan and Cho, "Enhancing Collaborative Spam Detection with Bloom Filters" (2006), sections
// 4 and 5.
type Counting struct {
	*array
	k          uint8
	keep, fill uint64
	floor      uint32 // 0: none
}

// NewCounting returns an empty array, or an error that wraps [ErrGeometry] if g is not valid or not
// of kind [Cells].
func NewCounting(g Geometry) (*Counting, error) { return newCounting(g, newArray) }

func newCounting(g Geometry, array func(Geometry) *array) (*Counting, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if g.Kind != Cells {
		return nil, fmt.Errorf("%w: %s array as counting array, want %s", ErrGeometry, g.Kind, Cells)
	}
	keep, fill := cellMasks(g.K)
	return &Counting{array: array(g), k: g.K, keep: keep, fill: fill}, nil
}

// Count returns how often k was added: never less, rarely more. It allocates nothing, takes no lock
// and reads one cache line, or three for a key that was added 15 times or more.
func (c *Counting) Count(k Key) uint32 {
	return c.count(line(k.Hi, c.geo.Lines), pick(k.Lo, c.keep, c.fill))
}

func (c *Counting) count(at uint64, x cells) uint32 {
	l := c.at(at)
	if v := lightest(l, x, c.k); v < escape {
		return uint32(v)
	}
	return c.countHeavy(at, x)
}

// countHeavy is count for a key whose nibbles were all observed at 15.
func (c *Counting) countHeavy(at uint64, x cells) uint32 {
	p := &c.pages[at/PageLines]
	for {
		// The table is loaded after the nibbles: it is at least as new.
		if v, ok := p.table.Load().least(at%PageLines, x, c.k); ok {
			return v
		}
		if v := lightest(c.at(at), x, c.k); v < escape {
			return uint32(v)
		}
	}
}

// CountBatch sets out[i] to the count of keys[i]. It overlaps the cache misses of the keys, which
// in arrays larger than the caches is several times faster than single calls. out must be as long
// as keys.
func (c *Counting) CountBatch(keys []Key, out []uint32) {
	out = out[:len(keys)]
	var now, next [batch]uint64
	c.prefetch(keys, &now)
	for len(keys) > 0 {
		n := min(len(keys), batch)
		c.prefetch(keys[n:], &next)
		for i := range n {
			out[i] = c.count(now[i], pick(keys[i].Lo, c.keep, c.fill))
		}
		keys, out, now = keys[n:], out[n:], next
	}
}

// Add counts k n more times and returns the count before. Counts stop at [Many]. An add of 0
// changes nothing. The page keeps its journal index; see [Counting.AddBatch].
func (c *Counting) Add(k Key, n uint32) (before uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.add(line(k.Hi, c.geo.Lines), pick(k.Lo, c.keep, c.fill), n)
	c.flushKeys()
	return before
}

// AddBatch counts keys[i] n[i] more times, for all i in order. Unless before is nil, it sets
// before[i] to the count before. n must be as long as keys, and so must before unless it is nil.
//
// index, unless 0, is the journal index of the entry that is being applied. Pages that have seen
// that entry, or a later one, when the call starts are left alone, so an entry that is applied
// again after a crash is counted once. (On these pages, before is the present count, which includes
// the entry.)
func (c *Counting) AddBatch(index uint64, keys []Key, n []uint32, before []uint32) {
	n = n[:len(keys)]
	if before != nil {
		before = before[:len(keys)]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	var now, next [batch]uint64
	var xs [batch]cells
	var due [batch]bool
	c.prefetch(keys, &now)
	for done := 0; done < len(keys); done += batch {
		size := min(len(keys)-done, batch)
		c.prefetch(keys[done+size:], &next)
		for i, at := range now[:size] { // all before any is used, since each may be a cache miss
			due[i] = c.due(&c.pages[at/PageLines], index, c.calls)
		}
		c.pickBatch(keys[done:done+size], n[done:], &now, &xs)
		for i := range size {
			at, x := now[i], xs[i]
			var b uint32
			if due[i] {
				b = c.add(at, x, n[done+i])
			} else {
				b = c.count(at, x)
			}
			if before != nil {
				before[done+i] = b
			}
		}
		now = next
	}
	c.flushKeys()
}

// pickBatch sets x to the cells of up to batch keys on the lines at. It prefetches the overflow
// slots of keys whose first cell is heavy, or will be when the key is added n times. A slot is a
// cache miss of its own, so these misses overlap as well.
func (c *Counting) pickBatch(keys []Key, n []uint32, at *[batch]uint64, x *[batch]cells) {
	var slots [batch]uint64
	heavy := 0
	for i := range keys {
		x[i] = pick(keys[i].Lo, c.keep, c.fill)
		if n[i] < escape && nibble(c.at(at[i]), uint64(x[i])) != escape {
			continue
		}
		if t := c.pages[at[i]/PageLines].table.Load(); t != nil {
			slots[heavy] = t.address(at[i] % PageLines)
			heavy++
		}
	}
	if heavy > 0 {
		prefetchLines(nil, &slots[0], heavy)
	}
}

// add is Add for the holder of c.mu.
func (c *Counting) add(at uint64, x cells, n uint32) (before uint32) {
	l := c.at(at)
	p := &c.pages[at/PageLines]
	n = min(n, Many)
	if least := lightest(l, x, c.k); least < escape {
		before = uint32(least)
		if n == 0 {
			return before
		}
		if before == 0 {
			p.Keys++
			c.fresh++
		}
		if before+n < escape {
			p.Version++
			if c.floor > 0 {
				c.show(p, before, before+n)
			}
			c.raiseLight(at, x, uint64(before+n))
			return before
		}
	} else {
		var done bool
		if before, done = p.table.Load().addExact(at%PageLines, x, c.k, n); done {
			if n > 0 && before < Many {
				p.Version++
				if c.floor > 0 {
					p.Shown++ // it is a heavy key
				}
				c.notify(at, nil)
			}
			return before
		}
		before = c.countHeavy(at, x)
		if n == 0 || before == Many {
			return before
		}
	}
	p.Version++
	if c.floor > 0 {
		c.show(p, before, before+n)
	}
	was := load(l)
	c.raiseHeavy(p, at, x, min(before+n, Many))
	c.slice(at, &was)
	return before
}

// raiseLight raises the cells of x to at least value, 1 to 14.
func (c *Counting) raiseLight(at uint64, x cells, value uint64) {
	l := c.own(at)
	if len(c.writes) == 0 {
		raiseLine(l, x, c.k, value)
		return
	}
	was := load(l)
	raiseLine(l, x, c.k, value)
	c.slice(at, &was)
}

// raiseHeavy raises the cells of x to at least value, 15 to Many. The table is changed first: a
// reader that sees an escape nibble then finds the value.
func (c *Counting) raiseHeavy(p *page, at uint64, x cells, value uint32) {
	l := c.own(at)
	set := x.set(c.k)
	light := set
	for y, k := uint64(x), c.k; k > 0; k-- {
		if nibble(l, y) == escape {
			light = light.without(mask{}.with(y & 127))
		}
		y >>= 8
	}
	c.setHeavy(p, &raise{line: at % PageLines, value: value, set: set, key: x, k: c.k}, light)
	raiseLine(l, x, c.k, escape)
}

// setHeavy carries out r in the table of p. r.set may hold cells that need no raise; light is the
// subset of cells that are not in the table yet.
func (c *Counting) setHeavy(p *page, r *raise, light mask) {
	old := p.table.Load()
	t := old.reserve(maxCells)
	var room [maxCells]found
	hits := t.lookup(room[:0], r.line, r.set.without(light))
	lower := hits[:0]
	for _, h := range hits {
		if h.value >= r.value {
			r.set = r.set.without(h.set)
		} else {
			lower = append(lower, h)
		}
	}
	t.raise(r, lower)
	p.Overflow += light.len()
	if t != old {
		c.overflow.Add(t.bytes() - old.bytes())
		p.table.Store(t)
	}
}
