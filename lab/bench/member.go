package main

import (
	"math"

	"github.com/FastFilter/xorfilter"
	"github.com/bits-and-blooms/bloom/v3"
	"github.com/dgraph-io/ristretto/v2/z"
	"github.com/greatroar/blobloom"
	"github.com/jcalabro/gloom"
	parquet "github.com/parquet-go/parquet-go/bloom"
	cuckoo "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// Every membership filter gets the same memory: bitsPerKey bits a key.
const (
	bitsPerKey = 16
	memberK    = 8
)

func memberSubjects() []subject {
	return []subject{
		{name: "bulkhead Bits", huge: true, build: func(n int) (structure, error) { return newBits(n) }},
		{name: "bulkhead Bits, SipHash", note: "from 16 bytes, keyed hash included",
			build: func(n int) (structure, error) {
				f, err := newBits(n)
				return &sipBits{f}, err
			}},
		{name: "parquet-go split block", huge: true, note: "assembly; InsertBulk", build: func(n int) (structure, error) {
			return &parquetBits{f: make(parquet.SplitBlockFilter, parquet.NumSplitBlocksOf(int64(n), bitsPerKey))}, nil
		}},
		{name: "greatroar/blobloom", huge: true, note: "takes a 64-bit hash", build: func(n int) (structure, error) {
			return &blobBits{blobloom.New(uint64(n)*bitsPerKey, memberK)}, nil
		}},
		{name: "jcalabro/gloom", build: func(n int) (structure, error) {
			return &gloomBits{gloom.NewWithParams(uint64(n)*bitsPerKey/512+1, memberK)}, nil
		}},
		{name: "bits-and-blooms/bloom", build: func(n int) (structure, error) {
			return &classicBits{bloom.New(uint(n)*bitsPerKey, memberK)}, nil
		}},
		{name: "dgraph-io/ristretto", note: "its bloom filter z.Bloom; takes a 64-bit hash",
			build: func(n int) (structure, error) {
				return &ristrettoBits{z.NewBloomFilter(float64(n)*bitsPerKey, memberK)}, nil
			}},
		{name: "FastFilter binary fuse", note: "16-bit fingerprints; static, made anew for each set",
			build: func(n int) (structure, error) { return &fuseBits{hashes: make([]uint64, 0, n)}, nil }},
		{name: "seiflotfy/cuckoofilter", note: "16-bit fingerprints", solo: true, build: func(n int) (structure, error) {
			return &cuckooBits{cuckoo.NewFilter(uint(n))}, nil
		}},
		{name: "tylertreat/BoomFilters", solo: true, note: "not for two goroutines", build: func(n int) (structure, error) {
			// It takes a rate: the one that gives it 16 bits a key.
			return &boomBits{boom.NewBloomFilter(uint(n), math.Pow(2, -bitsPerKey*math.Ln2))}, nil
		}},
		{name: "map[[16]byte]struct{}", note: "exact",
			build: func(int) (structure, error) { return &mapBits{m: map[item]struct{}{}}, nil }},
	}
}

type bitsFilter struct{ f *arrays.Bits }

func newBits(n int) (*bitsFilter, error) {
	lines := (uint64(n)*bitsPerKey + 511) / 512
	if lines > filter.PageLines {
		lines = (lines + filter.PageLines - 1) / filter.PageLines * filter.PageLines
	}
	f, err := arrays.NewBits(filter.Geometry{Kind: filter.Bitmap, Lines: lines, K: memberK})
	return &bitsFilter{f}, err
}

func (b *bitsFilter) insert(x []item, _ []uint32) { b.set(keysOf(x)) }

func (b *bitsFilter) look(x []item, out []uint32) { b.has(keysOf(x), out) }

func (b *bitsFilter) set(keys []filter.Key) {
	if len(keys) == 1 {
		b.f.Set(keys[0])
		return
	}
	b.f.SetBatch(0, keys, nil)
}

func (b *bitsFilter) has(keys []filter.Key, out []uint32) {
	if len(keys) == 1 {
		out[0] = number(b.f.Has(keys[0]))
		return
	}
	if len(keys) <= 32 {
		hasInto(b.f, keys, new([32]bool)[:len(keys)], out) // clearing 256 bytes would take longer than three look-ups
		return
	}
	hasInto(b.f, keys, new([maxBatch]bool)[:len(keys)], out)
}

func hasInto(f *arrays.Bits, keys []filter.Key, has []bool, out []uint32) {
	f.HasBatch(keys, has)
	for i := range keys {
		out[i] = number(has[i])
	}
}

// sipBits hashes as the product does.
type sipBits struct{ *bitsFilter }

func (b *sipBits) insert(x []item, _ []uint32) {
	var keys [maxBatch]filter.Key
	b.set(sipKeys(&keys, x))
}

func (b *sipBits) look(x []item, out []uint32) {
	var keys [maxBatch]filter.Key
	b.has(sipKeys(&keys, x), out)
}

func sipKeys(keys *[maxBatch]filter.Key, x []item) []filter.Key {
	for i := range x {
		keys[i] = filter.Secret{1}.KeyOf("", x[i][:])
	}
	return keys[:len(x)]
}

func number(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

type parquetBits struct {
	f  parquet.SplitBlockFilter
	in [maxBatch]uint64
}

func (b *parquetBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.in[i] = x[i].hash()
	}
	b.f.InsertBulk(b.in[:len(x)])
}

func (b *parquetBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Check(x[i].hash()))
	}
}

type blobBits struct{ f *blobloom.Filter }

func (b *blobBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Add(x[i].hash())
	}
}

func (b *blobBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Has(x[i].hash()))
	}
}

type gloomBits struct{ f *gloom.Filter }

func (b *gloomBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Add(x[i][:])
	}
}

func (b *gloomBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Test(x[i][:]))
	}
}

type classicBits struct{ f *bloom.BloomFilter }

func (b *classicBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Add(x[i][:])
	}
}

func (b *classicBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Test(x[i][:]))
	}
}

type boomBits struct{ f *boom.BloomFilter }

func (b *boomBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Add(x[i][:])
	}
}

func (b *boomBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Test(x[i][:]))
	}
}

type ristrettoBits struct{ f *z.Bloom }

func (b *ristrettoBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Add(x[i].hash())
	}
}

func (b *ristrettoBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Has(x[i].hash()))
	}
}

// fuseBits collects the hashes and makes the filter of all of them at the end of the inserts.
type fuseBits struct {
	hashes []uint64
	f      *xorfilter.BinaryFuse[uint16]
}

func (b *fuseBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.hashes = append(b.hashes, x[i].hash())
	}
}

func (b *fuseBits) finish() (err error) {
	b.f, err = xorfilter.NewBinaryFuse[uint16](b.hashes)
	b.hashes = nil
	return err
}

func (b *fuseBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Contains(x[i].hash()))
	}
}

type cuckooBits struct{ f *cuckoo.Filter }

func (b *cuckooBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.f.Insert(x[i][:])
	}
}

func (b *cuckooBits) look(x []item, out []uint32) {
	for i := range x {
		out[i] = number(b.f.Lookup(x[i][:]))
	}
}

type mapBits struct{ m map[item]struct{} }

func (b *mapBits) insert(x []item, _ []uint32) {
	for i := range x {
		b.m[x[i]] = struct{}{}
	}
}

func (b *mapBits) look(x []item, out []uint32) {
	for i := range x {
		_, ok := b.m[x[i]]
		out[i] = number(ok)
	}
}
