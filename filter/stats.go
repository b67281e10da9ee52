package filter

import (
	"math/bits"
	"sync/atomic"
)

// Stats is the state of an array at one moment.
type Stats struct {
	// Keys is the number of adds that found their key absent; see Keys.
	Keys uint64
	// Fill is the share of cells or bits that are not zero, 0 to 1. For arrays above 64 MiB it is
	// measured on 1,024 evenly spread pages.
	Fill float64
	// Overflow is the number of cells of 15 or more, whose values are in overflow tables; 0 in bit
	// arrays.
	Overflow int
	// Bytes is the total memory of the array: lines, page states and overflow tables.
	Bytes uint64
	// Effective is the number of keys that produce the present fill. Unlike Keys it also holds
	// after merges.
	Effective float64
	// Ghost is the probability that a key that was never added is seen, at the present fill.
	Ghost float64
	// CountWrong is the expected share of keys whose count is too high, for counts of the default
	// tail; 0 in bit arrays.
	CountWrong float64
	// BulkWrong is the probability that a key that was never added has a count of DefaultThreshold
	// or more, for counts of the default tail; 0 in bit arrays.
	BulkWrong float64
}

// Stats returns the state of c. It reads up to 64 MiB of the array, without a lock, in some ten
// milliseconds.
func (c *Counting) Stats() Stats {
	s := c.stats(occupied, lineCells)
	c.mu.Lock()
	for p := range c.pages {
		s.Overflow += c.pages[p].Overflow
	}
	c.mu.Unlock()
	n := uint64(s.Effective + 0.5)
	s.CountWrong = c.geo.CountError(n)
	s.BulkWrong = c.geo.BulkError(n, DefaultThreshold, DefaultTail)
	return s
}

// Stats returns the state of b, as [Counting.Stats] does.
func (b *Bits) Stats() Stats {
	return b.stats(func(w uint64) uint64 { return w }, lineBits)
}

// statsPages is the number of pages that Stats reads.
const statsPages = 1024

func (a *array) stats(mark func(uint64) uint64, perLine int) Stats {
	ones, lines := 0, 0
	step := max(1, len(a.pages)/statsPages)
	for p := 0; p < len(a.pages); p += step {
		page := a.pageWords(p)
		for i := range page {
			for j := range page[i] {
				ones += bits.OnesCount64(mark(atomic.LoadUint64(&page[i][j])))
			}
		}
		lines += len(page)
	}
	s := Stats{
		Keys:  a.keys.Load(),
		Fill:  float64(ones) / float64(lines*perLine),
		Bytes: a.Resident(),
	}
	s.Effective = a.geo.keysAt(s.Fill)
	s.Ghost = a.geo.ghost(s.Effective / float64(a.geo.Lines))
	return s
}

// shownLines is the number of lines that Shown reads.
const shownLines = 1 << 16

// Shown returns the probability that a key that was never added is seen. Unlike Stats.Ghost it is
// measured line by line, so that it also holds for keys chosen by an attacker. It reads up to
// 65,536 evenly spread lines, the first of which is from modulo their distance, without a lock and
// in a few milliseconds at most.
func (c *Counting) Shown(from uint64) float64 {
	var chance [lineCells + 1]float64
	all := float64(choose(lineCells, int(c.k)))
	for n := range chance {
		chance[n] = float64(choose(n, int(c.k))) / all
	}
	return c.shown(from, func(l *words) float64 {
		n := 0
		for j := range l {
			n += bits.OnesCount64(occupied(atomic.LoadUint64(&l[j])))
		}
		return chance[n]
	})
}

// Shown returns the probability that a key that was never added is seen, as [Counting.Shown] does.
func (b *Bits) Shown(from uint64) float64 {
	return b.shown(from, func(l *words) float64 {
		p := 1.0
		for j := range l {
			w := atomic.LoadUint64(&l[j])
			if b.twice {
				p *= float64(bits.OnesCount32(uint32(w))) / 32 * float64(bits.OnesCount32(uint32(w>>32))) / 32
			} else {
				p *= float64(bits.OnesCount64(w)) / 64
			}
		}
		return p
	})
}

func (a *array) shown(from uint64, chance func(*words) float64) float64 {
	step := (a.geo.Lines + shownLines - 1) / shownLines
	sum, lines := 0.0, 0
	for at := from % step; at < a.geo.Lines; at += step {
		sum += chance(a.at(at))
		lines++
	}
	return sum / float64(lines)
}
