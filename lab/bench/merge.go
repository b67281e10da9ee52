package main

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A mergeResult is the processor time of an operation on a whole array.
type mergeResult struct {
	What  string
	Bytes int64
	Took  timing // nanoseconds
}

// speed returns bytes per second.
func (r *mergeResult) speed() float64 { return float64(r.Bytes) / r.Took.Median * 1e9 }

// measureMerge measures merging beside copying the same number of bytes.
func measureMerge(n int) ([]mergeResult, error) {
	in, counts := items(n, 1), skew(n)
	c, err := newCounting(n)
	if err != nil {
		return nil, err
	}
	insertAll(c, in, counts, maxBatch)
	g := c.c.Geometry()
	size := int64(g.Bytes())
	var out []mergeResult
	add := func(what string, prepare, f func() error) error {
		var all []float64
		for i := range rounds + 1 {
			if err := prepare(); err != nil {
				return err
			}
			start := cpu()
			if err := f(); err != nil {
				return err
			}
			if i > 0 { // the first one takes the memory
				all = append(all, float64(cpu()-start))
			}
		}
		out = append(out, mergeResult{what, size, timingOf(all)})
		return nil
	}
	none := func() error { return nil }
	from, to := make([]byte, size), make([]byte, size)
	if err := add("copy (memmove)", func() error { copy(from, to); return nil },
		func() error { copy(to, from); return nil }); err != nil {
		return nil, err
	}
	bits := filter.Geometry{Kind: filter.Bitmap, Lines: g.Lines, K: 8}
	src, err := arrays.NewBits(bits)
	if err != nil {
		return nil, err
	}
	keys := keysOf(in)
	src.SetBatch(0, keys, nil)
	var dst *arrays.Bits
	touch := func() (err error) {
		if dst, err = arrays.NewBits(bits); err != nil {
			return err
		}
		dst.SetBatch(0, keys[:n/2], nil) // takes the memory, half of the bits
		return nil
	}
	if err := add("Bits.Merge (OR), half of the keys new", touch, func() error { return dst.Merge(src) }); err != nil {
		return nil, err
	}
	if err := add("Bits.Merge (OR), nothing new", none, func() error { return dst.Merge(src) }); err != nil {
		return nil, err
	}
	var sum *arrays.Counting
	first := func() (err error) {
		if sum, err = arrays.NewCounting(g); err != nil {
			return err
		}
		return sum.Merge(c.c)
	}
	err = add("Counting.Merge (saturating add, exact overflow)", first, func() error { return sum.Merge(c.c) })
	if err != nil {
		return nil, err
	}
	light, err := newCounting(n)
	if err != nil {
		return nil, err
	}
	ones := make([]uint32, n)
	for i := range ones {
		ones[i] = 1
	}
	insertAll(light, in, ones, maxBatch)
	first = func() (err error) {
		if sum, err = arrays.NewCounting(g); err != nil {
			return err
		}
		return sum.Merge(light.c)
	}
	if err := add("Counting.Merge, no count above 14", first, func() error { return sum.Merge(light.c) }); err != nil {
		return nil, err
	}
	return out, nil
}
