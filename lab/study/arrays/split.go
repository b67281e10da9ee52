package arrays

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A SplitRow is one way to store the cells of a refined filter that holds a set
// of counts.
type SplitRow struct {
	Counts  string  `json:"counts"` // where the counts are from
	Layout  string  `json:"layout"`
	Bits    float64 `json:"bits"`    // memory for each cell, tables included
	Wrong   float64 `json:"wrong"`   // share of elements counted wrong
	Capped  float64 `json:"capped"`  // of them, those the layout cannot hold
	Entropy float64 `json:"entropy"` // of a cell, in bits: no code takes less
}

// A SplitResult compares the ways to store the cells of a refined filter.
type SplitResult struct {
	Rounds int        `json:"rounds"`
	Rows   []SplitRow `json:"rows"`
}

// The filters have 11 cells an element and k = 6, and a table for each 65,536 cells.
const SplitCells, SplitK = 11, 6

// SplitUnit returns the work of comparing the ways to store cells.
func SplitUnit(c *experiment.Config, corpus func(context.Context) (*corpusResult, error)) (*experiment.Unit,
	*SplitResult) {
	r := &SplitResult{}
	n := max(2000, min(100_000, 100*c.Rounds))
	wanted := 1
	if c.Corpus != "" {
		wanted = 2
	}
	return &experiment.Unit{
		Name: "split", Cost: 1.3e-4 * float64(n), Result: r,
		Have: func() bool { return r.Rounds >= wanted*c.Rounds },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = SplitResult{Rounds: wanted * c.Rounds}
			for i, tail := range []float64{0.8, 1.0, 1.2, 1.6, 2.0} {
				rnd := experiment.Stream(c.Seed, "split", i)
				counts := make([]uint32, n)
				for j := range counts {
					counts[j] = uint32(paretoCount(rnd, tail, 100_000))
				}
				if err := r.measure(ctx, c, "P(C >= c) = c^-"+strconv.FormatFloat(tail, 'f', 1, 64), counts); err != nil {
					return err
				}
				tick(float64(i+1) / 7)
			}
			if c.Corpus == "" {
				return nil
			}
			mail, err := corpus(ctx)
			if err != nil {
				return err
			}
			for _, scheme := range mail.schemes() {
				if err := r.measure(ctx, c, "real mail, "+scheme, mail.counts(scheme)); err != nil {
					return err
				}
			}
			return nil
		},
	}, r
}

func (r *SplitResult) measure(ctx context.Context, c *experiment.Config, name string, counts []uint32) error {
	m := uint64(SplitCells * len(counts))
	chunks := int((m + 1<<16 - 1) >> 16)
	layouts := []paper.CellLayout{paper.FixedCells(4), paper.FixedCells(5), paper.FixedCells(8), paper.FixedCells(16)}
	for s := 1; s <= 8; s++ {
		layouts = append(layouts, paper.SplitCells(s, chunks))
	}
	entropy := 0.0
	var values map[uint32]int
	for i := len(layouts) - 1; i >= 0; i-- { // the exact layouts first
		if err := ctx.Err(); err != nil {
			return err
		}
		l := layouts[i]
		f, err := fillRefined(c.Seed, l, m, counts)
		if err != nil {
			return err
		}
		if values == nil {
			values, entropy = histogram(f)
		}
		row := SplitRow{Counts: name, Layout: l.String(), Entropy: entropy, Bits: 8 * float64(f.Bytes()) / float64(m)}
		if l.Width == 0 {
			row.Layout = strconv.Itoa(l.Base) + "+1 bits"
		}
		for j, want := range counts {
			got := f.Count(numbered(j))
			if got != want {
				row.Wrong += 1 / float64(len(counts))
			}
			if want > l.Max() {
				row.Capped += 1 / float64(len(counts))
			}
		}
		r.Rows = append(r.Rows, row)
	}
	for base := 2; base <= 6; base++ {
		r.Rows = append(r.Rows, SplitRow{Counts: name, Layout: strconv.Itoa(base) + " bits, escape",
			Bits: escapeBits(values, base, m), Entropy: entropy})
	}
	return nil
}

func numbered(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) }

// fillRefined inserts the counts in random order.
func fillRefined(seed uint64, l paper.CellLayout, m uint64, counts []uint32) (*paper.Refined, error) {
	family, err := paper.Keyed(experiment.SecretOf(seed, 7), m, SplitK)
	if err != nil {
		return nil, err
	}
	f, err := paper.NewRefined(family, l)
	if err != nil {
		return nil, err
	}
	for _, i := range experiment.Stream(seed, "split order", len(counts)).Perm(len(counts)) {
		f.Insert(numbered(i), counts[i])
	}
	return f, nil
}

// histogram returns how often each cell value occurs, and the entropy of a cell.
func histogram(f *paper.Refined) (map[uint32]int, float64) {
	family := f.Family()
	values := map[uint32]int{}
	for i := range family.M() {
		values[f.Cell(i)]++
	}
	var h float64
	for _, v := range slices.Sorted(maps.Keys(values)) { // one order, one sum
		p := float64(values[v]) / float64(family.M())
		h -= p * math.Log2(p)
	}
	return values, h
}

// escapeBits returns the bits for each cell of the other form of split storage: cells of
// base bits without a flag, whose largest value says that the whole count is in the
// chunk's table, with a 16-bit offset, at 7/8 load.
func escapeBits(values map[uint32]int, base int, m uint64) float64 {
	escape := uint32(1)<<base - 1
	var tables float64
	for _, v := range slices.Sorted(maps.Keys(values)) { // one order, one sum
		if v >= escape {
			width := (bits.Len32(v) + 7) / 8 * 8
			tables += float64(values[v]) * float64(16+width) * 8 / 7
		}
	}
	lanes := 64 / base
	return 64/float64(lanes) + tables/float64(m)
}

// Best returns the row of least memory among those that select wants.
func (r *SplitResult) Best(counts string, want func(SplitRow) bool) (best SplitRow, ok bool) {
	for _, row := range r.Rows {
		if row.Counts == counts && want(row) && (!ok || row.Bits < best.Bits) {
			best, ok = row, true
		}
	}
	return best, ok
}

// Names returns where the counts are from, in order.
func (r *SplitResult) Names() (names []string) {
	for _, row := range r.Rows {
		if !slices.Contains(names, row.Counts) {
			names = append(names, row.Counts)
		}
	}
	return names
}
