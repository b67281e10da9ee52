package arrays

import (
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// A plane is the logical content of one page of cells at one moment: the nibbles, and the values of
// the nibbles that are 15, in the order of the cells.
type plane struct {
	lines []words
	high  []uint32
}

const (
	nibbleLow = 0x1111111111111111 // lowest bit of each nibble
	nibbleTop = 0x8888888888888888 // highest bit of each nibble
)

// escapes returns the lowest bit of every nibble of w that is 15.
func escapes(w uint64) uint64 {
	w &= w >> 1
	return w & (w >> 2) & nibbleLow
}

// occupied returns the lowest bit of every nibble of w that is not 0.
func occupied(w uint64) uint64 {
	w |= w >> 1
	return (w | w>>2) & nibbleLow
}

// ranks gives the position of heavy cells in the order of all heavy cells of a page. It holds the
// number of heavy cells in the lines before, in the words before within the line (a byte for each
// word), and in the word before the cell.
type ranks struct {
	line [PageLines]int32
	word [PageLines]uint64
}

// of sets r to the ranks of lines and returns the number of heavy cells in them.
func (r *ranks) of(lines []words) int {
	n := int32(0)
	for i := range lines {
		r.line[i] = n
		inLine, ahead := uint64(0), uint64(0)
		for j, w := range lines[i] {
			ahead |= inLine << (8 * j)
			inLine += uint64(bits.OnesCount64(escapes(w)))
		}
		r.word[i] = ahead
		n += int32(inLine)
	}
	return int(n)
}

// fill returns out with room for count values, and with the values of t's heavy cells at their
// ranks among the escapes of lines. The lines may have more escapes than t has heavy cells. It may
// reuse the memory of out.
func (t *table) fill(out []uint32, count int, r *ranks, lines []words) []uint32 {
	out = slices.Grow(out[:0], count)[:count]
	if t == nil {
		return out
	}
	for _, e := range t.slots {
		if e <= removedSlot {
			continue
		}
		v, set := unpack(e)
		i := e >> 54
		for !set.empty() {
			var cell uint64
			cell, set = set.pop()
			before := escapes(lines[i][cell>>4&7]) & (1<<(cell<<2&60) - 1)
			out[int(r.line[i])+int(r.word[i]>>(cell>>1&56)&255)+bits.OnesCount64(before)] = v
		}
	}
	return out
}

// values returns the values of all count heavy cells in the order of the cells, which is the order
// of the escapes in lines.
func (t *table) values(lines []words, count int) []uint32 {
	if count == 0 {
		return nil
	}
	var r ranks
	r.of(lines)
	return t.fill(nil, count, &r, lines)
}

// table builds an overflow table for pl, with one entry for up to six cells of a line that have the
// same value. It also holds the entries in stale.
func (pl plane) table(stale []uint64) *table {
	entries := stale
	next := 0
	var values [lineCells]uint32
	var sets [lineCells]mask
	for i := range pl.lines {
		n := 0
		for j, w := range pl.lines[i] {
			for e := escapes(w); e != 0; e &= e - 1 {
				v := pl.high[next]
				next++
				g := slices.Index(values[:n], v)
				if g < 0 {
					g = n
					values[g], sets[g] = v, mask{}
					n++
				}
				sets[g] = sets[g].with(uint64(j*16 + bits.TrailingZeros64(e)/4))
			}
		}
		for g := range n {
			for set := sets[g]; !set.empty(); {
				take := set.first(refsFor(values[g]))
				entries = append(entries, entry(uint64(i), values[g], take))
				set = set.without(take)
			}
		}
	}
	if len(entries) == 0 {
		return nil
	}
	t := newTable(len(entries)*8/7 + 2)
	for _, e := range entries {
		t.insert(e)
	}
	return t
}

// cellValue returns the value of the nibble of w at shift, and high without its first value if that
// value was used.
func cellValue(w uint64, shift int, high []uint32) (uint32, []uint32) {
	if v := uint32(w >> shift & 15); v < escape {
		return v, high
	}
	return high[0], high[1:]
}

// addNibbles returns the sums of the nibbles of x and y, at most 15 each.
func addNibbles(x, y uint64) uint64 {
	z := x&^nibbleTop + y&^nibbleTop
	z ^= (x ^ y) & nibbleTop
	c := (x&y | (x|y)&^z) & nibbleTop
	return z | c | (c - c>>3)
}

// slots returns the cells of pl that are not 0.
func (pl plane) slots() (s codec.Slots) {
	high := pl.high
	for i := range pl.lines {
		for j, w := range pl.lines[i] {
			for e := occupied(w); e != 0; e &= e - 1 {
				shift := bits.TrailingZeros64(e)
				var v uint32
				v, high = cellValue(w, shift, high)
				s.At = append(s.At, uint32(i*lineCells+j*16+shift/4))
				s.Values = append(s.Values, v)
			}
		}
	}
	return s
}

// equal reports whether all cells of two planes of equal size are equal.
func (pl plane) equal(o plane) bool {
	return slices.Equal(pl.lines, o.lines) && slices.Equal(pl.high, o.high)
}
