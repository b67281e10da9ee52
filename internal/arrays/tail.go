package arrays

import (
	"runtime"
	"sync/atomic"
)

// tailPages is the number of pages that Tail reads.
const tailPages = 32

// Tail returns, for each of the given counts, which must ascend from 1, the probability that a key
// that was never added has that count or more. It is measured on the array in its present state, on
// up to 32 evenly spread pages. It takes no lock and some ten milliseconds.
//
// In a line with c cells at or above the count, k distinct cells drawn at random are all among them
// with probability C(c,k)/C(128,k); Tail returns the mean over lines. Unlike the formulas it
// reflects the real distribution of counts.
func (c *Counting) Tail(counts []uint32) []float64 {
	sums := make([]float64, len(counts))
	chance := c.chances()
	step := max(1, len(c.pages)/tailPages)
	lines := 0
	for p := 0; p < len(c.pages); p += step {
		heavy := c.heavyAtLeast(p, counts)
		page := c.pageWords(p)
		for l := range page { // by index: a copy would not be atomic
			at := lightAtLeast(&page[l])
			for i, n := range counts {
				if n <= escape {
					sums[i] += chance[at[n]]
				} else {
					sums[i] += chance[min(int(heavy[l*len(counts)+i]), lineCells)]
				}
			}
			lines++
		}
		runtime.Gosched() // a report may be due, and all pages take 5 ms
	}
	for i := range sums {
		sums[i] /= float64(lines)
	}
	return sums
}

// chances returns, for every number of cells of a line, the probability that all k cells of a
// random key are among them.
func (c *Counting) chances() [lineCells + 1]float64 {
	var chance [lineCells + 1]float64
	for n := int(c.k); n <= lineCells; n++ {
		p := 1.0
		for i := range int(c.k) {
			p *= float64(n-i) / float64(lineCells-i)
		}
		chance[n] = p
	}
	return chance
}

// lightAtLeast returns how many nibbles of the line are at or above each value.
func lightAtLeast(l *words) (at [escape + 1]int) {
	for i := range l {
		for w := atomic.LoadUint64(&l[i]); w != 0; w >>= 4 {
			at[w&15]++
		}
	}
	at[0] = 0 // cells at zero do not matter
	for n := escape - 1; n > 0; n-- {
		at[n] += at[n+1]
	}
	return at
}

// heavyAtLeast returns, for each line of the page, how many of its heavy cells are at or above each
// of the counts.
func (c *Counting) heavyAtLeast(page int, counts []uint32) []uint16 {
	out := make([]uint16, c.geo.LinesInPage()*len(counts))
	t := c.pages[page].table.Load()
	if t == nil {
		return out
	}
	for s := range t.slots {
		e := atomic.LoadUint64(&t.slots[s])
		if e <= removedSlot {
			continue
		}
		value, set := unpack(e)
		for i, n := range counts {
			if value >= n {
				out[int(e>>54)*len(counts)+i] += uint16(set.len())
			}
		}
	}
	return out
}
