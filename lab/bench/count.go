package main

import (
	"encoding/binary"
	"math"
	"unsafe"

	boom "github.com/tylertreat/BoomFilters"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

func countSubjects() []subject {
	return []subject{
		{name: "bulkhead Counting", huge: true, note: "sized for 1e-3 wrong counts", counts: true,
			build: func(n int) (structure, error) { return newCounting(n) }},
		{name: "fingerprint table", huge: true,
			note: "24-bit fingerprint, 8-bit count: stops at 255, hence its low counts; cannot be merged by cell", counts: true,
			build: func(n int) (structure, error) { return newFingerprints(n), nil }},
		{name: "BoomFilters count-min", note: "6 rows, 11 cells of 64 bits a key", counts: true, solo: true,
			build: func(n int) (structure, error) {
				return &boomSketch{boom.NewCountMinSketch(math.E/(float64(n)*11/6), 0.0026)}, nil
			}},
		{name: "BoomFilters counting Bloom", note: "4-bit, 11 cells a key; has no count query, look is membership",
			solo: true,
			build: func(n int) (structure, error) {
				return &boomCounting{boom.NewCountingBloomFilter(uint(n), 4, 0.005)}, nil
			}},
		{name: "map[[16]byte]uint32", note: "exact", counts: true,
			build: func(int) (structure, error) { return &map16{m: map[item]uint32{}}, nil }},
		{name: "map[[20]byte]uint32", note: "exact; with 20-byte digests", counts: true,
			build: func(int) (structure, error) { return &map20{m: map[[20]byte]uint32{}}, nil }},
	}
}

type counting struct{ c *arrays.Counting }

func newCounting(n int) (*counting, error) {
	g, err := filter.SizeFor(filter.Target{
		Kind: filter.Cells, Signatures: uint64(n), Error: filter.CountWrong, Rate: 1e-3, K: filter.DefaultCells,
	})
	if err != nil {
		return nil, err
	}
	c, err := arrays.NewCounting(g)
	return &counting{c}, err
}

// keysOf returns x as keys: the 16 bytes of an item are a key as it is in memory. The first 8 of
// them are the 64-bit hash that other filters ask for. So no row pays for a conversion.
func keysOf(x []item) []filter.Key {
	return unsafe.Slice((*filter.Key)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func (c *counting) insert(x []item, n []uint32) {
	keys := keysOf(x)
	if len(keys) == 1 {
		c.c.Add(keys[0], n[0])
		return
	}
	c.c.AddBatch(0, keys, n, nil)
}

func (c *counting) look(x []item, out []uint32) {
	keys := keysOf(x)
	if len(keys) == 1 {
		out[0] = c.c.Count(keys[0])
		return
	}
	c.c.CountBatch(keys, out)
}

// fingerprints is what a table of short fingerprints would cost for the same
// job: buckets of 16 slots in one cache line, two possible buckets a key.
type fingerprints struct {
	buckets [][16]uint32 // 24 bits of fingerprint, 8 of count; count 0: free
	lost    int          // inserts for which both buckets were full
}

func newFingerprints(n int) *fingerprints {
	const load = 0.85
	return &fingerprints{buckets: make([][16]uint32, int(float64(n)/16/load)+2)}
}

// places returns the buckets of x and its fingerprint in the upper 24 bits.
func (f *fingerprints) places(x *item) (a, b *[16]uint32, fp uint32) {
	lo, hi := binary.LittleEndian.Uint64(x[:8]), binary.LittleEndian.Uint64(x[8:])
	n := uint64(len(f.buckets))
	return &f.buckets[(lo>>32)*n>>32], &f.buckets[(lo&(1<<32-1))*n>>32], uint32(hi) &^ 255
}

// slot returns the slot of b that holds fp, or -1, and the number of free slots.
func slot(b *[16]uint32, fp uint32) (at, free int) {
	at = -1
	for i, s := range b {
		if s&255 == 0 {
			free++
		} else if s&^255 == fp {
			at = i
		}
	}
	return at, free
}

func (f *fingerprints) insert(x []item, n []uint32) {
	for i := range x {
		a, b, fp := f.places(&x[i])
		at, free := slot(a, fp)
		if at < 0 {
			other, room := slot(b, fp)
			if other >= 0 || room > free {
				a, at, free = b, other, room
			}
		}
		if at >= 0 {
			a[at] = fp | min(a[at]&255+n[i], 255)
			continue
		}
		if free == 0 {
			f.lost++
			continue
		}
		for j := range a {
			if a[j]&255 == 0 {
				a[j] = fp | min(n[i], 255)
				break
			}
		}
	}
}

func (f *fingerprints) look(x []item, out []uint32) {
	for i := range x {
		a, b, fp := f.places(&x[i])
		out[i] = 0
		if at, _ := slot(a, fp); at >= 0 {
			out[i] = a[at] & 255
		} else if at, _ := slot(b, fp); at >= 0 {
			out[i] = b[at] & 255
		}
	}
}

type boomSketch struct{ f *boom.CountMinSketch }

func (b *boomSketch) insert(x []item, n []uint32) {
	for i := range x {
		b.f.AddN(x[i][:], uint64(n[i]))
	}
}

func (b *boomSketch) look(x []item, out []uint32) {
	for i := range x {
		out[i] = uint32(b.f.Count(x[i][:]))
	}
}

type boomCounting struct{ f *boom.CountingBloomFilter }

func (b *boomCounting) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Add(x[i][:])
	}
}

func (b *boomCounting) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Test(x[i][:]))
	}
}

type map16 struct{ m map[item]uint32 }

func (b *map16) insert(x []item, n []uint32) {
	for i := range x {
		b.m[x[i]] += n[i]
	}
}

func (b *map16) look(x []item, out []uint32) {
	for i := range x {
		out[i] = b.m[x[i]]
	}
}

type map20 struct{ m map[[20]byte]uint32 }

// wide makes a digest of 20 bytes.
func wide(x *item) (w [20]byte) {
	copy(w[:], x[:])
	copy(w[16:], x[3:])
	return w
}

func (b *map20) insert(x []item, n []uint32) {
	for i := range x {
		b.m[wide(&x[i])] += n[i]
	}
}

func (b *map20) look(x []item, out []uint32) {
	for i := range x {
		out[i] = b.m[wide(&x[i])]
	}
}
