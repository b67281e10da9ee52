package arrays

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

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
	s.BulkWrong = c.geo.BulkError(n, shape.DefaultThreshold, shape.DefaultTail)
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
		runtime.Gosched() // as in Tail
	}
	s := Stats{
		Keys:  a.keys.Load(),
		Fill:  float64(ones) / float64(lines*perLine),
		Bytes: a.Resident(),
	}
	s.Effective = a.geo.KeysAt(s.Fill)
	s.Ghost = a.geo.Ghost(s.Effective / float64(a.geo.Lines))
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
