package arrays

import (
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// Picks holds keys to be looked up in several counting arrays, and the cells that arrays derive
// from them. All arrays with the same K, as in most books, derive the same cells. The zero value
// has no keys. Only one goroutine may use it at a time.
type Picks struct {
	keys  []Key
	k     uint8 // K of the arrays; 0: not yet derived
	cells []cells
}

// Of sets the keys of p. The keys must not change while p is in use.
func (p *Picks) Of(keys []Key) { p.keys, p.k = keys, 0 }

// of returns the cells of the keys in arrays like c.
func (p *Picks) of(c *Counting) []cells {
	if p.k == c.k {
		return p.cells
	}
	p.k, p.cells = c.k, p.cells[:0]
	for i := range p.keys {
		p.cells = append(p.cells, pick(p.keys[i].Lo, c.keep, c.fill))
	}
	return p.cells
}

// CountEach sets out[j*n+i] to the count of the i'th of the n keys of p in arrays[j], as
// [Counting.CountBatch] does. It takes less time than separate calls, since it overlaps the cache
// misses of one array with the work on those before. out must have room for all counts.
func (p *Picks) CountEach(arrays []*Counting, out []uint32) {
	var f flight
	n := len(p.keys)
	for _, c := range arrays {
		xs, base := p.of(c), unsafe.SliceData(c.lines)
		for from := 0; from < n; {
			for f.loads(len(arrays)) {
				f.load(arrays[f.array].array, p.keys)
			}
			at := f.land()
			to := out[from:][:len(at)]
			for i, x := range xs[from:][:len(at)] {
				if c.dir != nil {
					to[i] = c.count(at[i], x)
					continue
				}
				v := uint32(0)
				if l := lineAt(base, at[i]); min(nibble(l, uint64(x)),
					nibble(l, uint64(x)>>8)) > 0 { // the usual result for one in six keys that were never added
					v = c.count(at[i], x)
				}
				to[i] = v
			}
			from += len(at)
		}
		out = out[n:]
	}
}

// HasEach sets out[j*len(keys)+i] to whether sets[j] has keys[i], as [Bits.HasBatch] does. It works
// like [Picks.CountEach].
func HasEach(sets []*Bits, keys []Key, out []bool) {
	var f flight
	var his [flightKeys * 2]uint64 // what hasTwice mixes, for the first keys
	n := len(keys)
	for i := range keys[:min(n, len(his))] {
		his[i] = shape.Mix(keys[i].Lo + shape.Weyl)
	}
	for _, b := range sets {
		base := unsafe.SliceData(b.lines)
		for from := 0; from < n; {
			for f.loads(len(sets)) {
				f.load(sets[f.array].array, keys)
			}
			at := f.land()
			part, to := keys[from:][:len(at)], out[from:][:len(at)]
			if b.dir == nil && b.twice && from+len(at) <= len(his) {
				for i, hi := range his[from:][:len(at)] {
					l, lo := lineAt(base, at[i]), part[i].Lo
					to[i] = hasBoth(l, 0, lo, hi)&hasBoth(l, 1, lo, hi)&1 != 0 && hasRest(l, lo, hi)
				}
			} else {
				for i := range part {
					to[i] = b.has(at[i], part[i].Lo)
				}
			}
			from += len(at)
		}
		out = out[n:]
	}
}

// A flight is the progress of looking up keys in several arrays, in steps of several lines each.
// The lines of the next steps are prefetched before each step.
type flight struct {
	array, key   int // the first array and key not being loaded
	step, loaded int // the next step, and the first step whose lines are not being loaded
	steps        [flightSteps]struct {
		at   [flightKeys]uint64 // by key
		keys int
	}
}

const (
	flightSteps = 8
	flightLines = 8  // maximum lines in a step
	flightKeys  = 24 // maximum keys in a step; kinds of one key are on one line
)

// loads reports whether further lines are to be loaded, given the number of arrays.
func (f *flight) loads(arrays int) bool {
	return f.array < arrays && f.loaded < f.step+flightSteps
}

// load starts loading the lines of one step.
func (f *flight) load(a *array, keys []Key) {
	s := &f.steps[f.loaded%flightSteps]
	var lines [flightLines]uint64
	n, total := 0, a.geo.Lines
	part := keys[f.key:]
	part = part[:min(len(part), flightKeys)]
	for i := range part {
		if i == 0 || part[i].Hi != part[i-1].Hi {
			if n == flightLines {
				part = part[:i]
				break
			}
			lines[n] = line(part[i].Hi, total)
			n++
		}
		s.at[i] = lines[n-1]
	}
	if !a.resident() {
		a.fetch(lines[:n])
	}
	s.keys = len(part)
	f.loaded++
	if f.key += len(part); f.key == len(keys) {
		f.array, f.key = f.array+1, 0
	}
}

// land returns the lines of the keys of the next step.
func (f *flight) land() []uint64 {
	s := &f.steps[f.step%flightSteps]
	f.step++
	return s.at[:s.keys]
}

// PrefetchEach starts loading what a look-up of keys[i] in arrays[i] reads, for each i, and does not wait for it. The
// arrays must have the same geometry. With many arrays hardly anything is in a cache, so their misses overlap.
func PrefetchEach(arrays []*Counting, keys []Key) {
	var lines [batch]uint64
	for len(arrays) > 0 {
		n := min(len(arrays), batch)
		for i, a := range arrays[:n] {
			lines[i] = uint64(uintptr(unsafe.Pointer(a.at(line(keys[i].Hi, a.geo.Lines))))) / LineBytes
		}
		prefetchLines(nil, &lines[0], n)
		arrays, keys = arrays[n:], keys[n:]
	}
}
