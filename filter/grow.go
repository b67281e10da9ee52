package filter

import "slices"

// sparseShare is the part of a page's cells up to which a delta is applied cell
// by cell. Above, it is cheaper to write the page and its table anew.
const sparseShare = 64

// grow adds the increases s to the cells of page p, for the holder of c.mu, and
// returns the number of heavy cells there are then. Sums above Many saturate; if
// strict they are refused instead: exact is false and nothing has changed.
func (c *Counting) grow(p int, s slotList, strict bool) (overflow int, exact bool) {
	if len(s.at) > c.geo.slots()/sparseShare {
		pl, exact := c.planeView(p).raisedBy(s)
		if strict && !exact {
			return 0, false
		}
		c.store(p, pl, true)
		return len(pl.high), true
	}
	if strict {
		for i, at := range s.at {
			if c.cell(p, uint64(at))+s.values[i] > Many {
				return 0, false
			}
		}
	}
	for i := 0; i < len(s.at); {
		line := s.at[i] / lineCells
		j := i + 1
		for j < len(s.at) && s.at[j]/lineCells == line {
			j++
		}
		c.growLine(p, uint64(line), s.at[i:j], s.values[i:j])
		i = j
	}
	return c.pages[p].Overflow, true
}

// cell returns the value of a cell, counted from the first one of page p.
func (c *Counting) cell(p int, at uint64) uint32 {
	line, cell := at/lineCells, at%lineCells
	if v := nibble(&c.pageWords(p)[line], cell); v < escape {
		return uint32(v)
	}
	v, _ := c.pages[p].table.Load().least(line, cells(cell), 1)
	return v
}

// growLine adds the increases of cells of one line. Cells that come to one value
// of 15 or more share entries of the table, as those of one key do.
func (c *Counting) growLine(p int, line uint64, at, increase []uint32) {
	l := &c.pageWords(p)[line]
	w := load(l)
	var values []uint32
	var sets []mask
	for i, a := range at {
		cell := uint64(a % lineCells)
		v := min(c.cell(p, uint64(a))+increase[i], Many)
		w.raise(cells(cell), 1, uint64(min(v, escape)))
		if v < escape {
			continue
		}
		g := slices.Index(values, v)
		if g < 0 {
			g = len(values)
			values, sets = append(values, v), append(sets, mask{})
		}
		sets[g] = sets[g].with(cell)
	}
	for g, set := range sets {
		for !set.empty() {
			take := set.first(narrowRefs)
			c.setHeavy(&c.pages[p], &raise{line: line, value: values[g], set: take}, lightOf(l, take))
			set = set.without(take)
		}
	}
	publish(l, &w)
}

// lightOf returns those cells of the set that are not heavy in l.
func lightOf(l *words, set mask) (light mask) {
	for !set.empty() {
		var cell uint64
		if cell, set = set.pop(); nibble(l, cell) != escape {
			light = light.with(cell)
		}
	}
	return light
}
