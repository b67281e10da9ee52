package filter

// Picks is keys to be looked up in several counting arrays, and what arrays derive from
// them: all that have the same K, as those of one book mostly have, derive the same. The
// zero value has no keys. One goroutine uses it at a time.
type Picks struct {
	keys  []Key
	k     uint8 // of the arrays; 0: not yet derived
	cells []cells
}

// Of makes p that of the keys, which must not change as long as it is.
func (p *Picks) Of(keys []Key) { p.keys, p.k = keys, 0 }

// of returns the cells in arrays like c.
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

// CountPicked is [Counting.CountBatch] of the keys of p. It waits for each cache miss unless
// Prefetch was called before, best with other work in between.
func (c *Counting) CountPicked(p *Picks, out []uint32) {
	keys, lines := p.keys, c.geo.Lines
	out = out[:len(keys)]
	for i, x := range p.of(c) {
		out[i] = c.count(line(keys[i].Hi, lines), x)
	}
}

// Prefetch starts to load what a look-up of keys reads, and does not wait for it: it changes
// nothing but the time that takes. Whoever asks several arrays calls it for the next ones
// before reading the first, so that their cache misses overlap. Kinds of one key, one after
// the other, cost no more than the key.
func (a *array) Prefetch(keys []Key) {
	if a.resident() {
		return
	}
	var lines [batch]uint64
	n, last := 0, ^uint64(0)
	for i := range keys {
		at := line(keys[i].Hi, a.geo.Lines)
		if at == last {
			continue
		}
		lines[n], last = at, at
		if n++; n == batch {
			a.fetch(lines[:n])
			n = 0
		}
	}
	if n > 0 {
		a.fetch(lines[:n])
	}
}
