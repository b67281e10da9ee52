//go:build unix

package arrays

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// The benchmarks run at sizes that fit in the core's own cache, in the shared cache, and in
// neither: a single size would not show the effect of batches. All keys are queried in an order
// unrelated to memory. Each group ends with its baselines: one dependent access to an array of the
// same size, and a map of the same content.
//
//	go test ./filter -run '^$' -bench 'Speed/n=20000000' -count 5
var benchSizes = []int{1e4, 1e6, 2e7}

// benchKeys returns n keys, cheaply, spread as the keyed hash spreads them.
func benchKeys(n int, salt uint64) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{Hi: shape.Mix(uint64(i) + salt), Lo: shape.Mix(uint64(i) + salt + 1<<40)}
	}
	return keys
}

const benchBatch = 256

// cpu returns the processor time of this process in nanoseconds. On a busy machine it is more
// meaningful than the clock.
func cpu() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// each calls f with consecutive batches of b.N keys, drawn from keys in a cycle. wrap, unless nil,
// is called untimed before each new cycle.
func each(b *testing.B, keys []Key, wrap func(), f func([]Key)) {
	b.ReportAllocs()
	i := 0
	b.ResetTimer()
	spent := -cpu()
	for done := 0; done < b.N; {
		n := min(benchBatch, b.N-done, len(keys)-i)
		f(keys[i : i+n])
		done += n
		if i += n; i == len(keys) {
			i = 0
			if wrap != nil {
				b.StopTimer()
				spent += cpu()
				wrap()
				spent -= cpu()
				b.StartTimer()
			}
		}
	}
	spent += cpu()
	b.ReportMetric(float64(spent)/float64(b.N), "cpu-ns/op")
}

func BenchmarkCountingSpeed(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			g, err := shape.SizeFor(shape.Target{Kind: Cells, Signatures: uint64(n), Error: shape.CountWrong, Rate: 1e-3, K: 6})
			if err != nil {
				b.Fatal(err)
			}
			c := mustCounting(b, g)
			keys, unseen := benchKeys(n, 1), benchKeys(min(n, 1<<22), 1<<50)
			counts, _ := skew(rand.New(rand.NewPCG(1, 2)), 1<<16, shape.DefaultTail)
			ones := make([]uint32, benchBatch)
			for i := range ones {
				ones[i] = 1
			}
			for i := 0; i < n; i += benchBatch {
				m := min(benchBatch, n-i)
				c.AddBatch(0, keys[i:i+m], counts[i&(1<<16-benchBatch):][:m], nil)
			}
			rand.New(rand.NewPCG(3, 4)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			out := make([]uint32, benchBatch)
			batch := func(k []Key) { c.CountBatch(k, out[:len(k)]) }
			single := func(k []Key) {
				for i := range k {
					sink += uint64(c.Count(k[i]))
				}
			}
			b.Run("single-hit", func(b *testing.B) { each(b, keys, nil, single) })
			b.Run("single-miss", func(b *testing.B) { each(b, unseen, nil, single) })
			b.Run("dependent-hit", func(b *testing.B) {
				at := 0
				for range b.N {
					at = (at + 1 + int(c.Count(keys[at])>>24)) % n
				}
				sink += uint64(at)
			})
			b.Run("batch-hit", func(b *testing.B) { each(b, keys, nil, batch) })
			b.Run("batch-miss", func(b *testing.B) { each(b, unseen, nil, batch) })
			// Reports as they come: half of them are of keys with a count of 15 or more.
			reports := reportStream(keys)
			b.Run("reports-count-batch", func(b *testing.B) { each(b, reports, nil, batch) })
			restore := restorer(b, c)
			addSingle := func(k []Key) {
				for i := range k {
					c.Add(k[i], 1)
				}
			}
			addBatch := func(k []Key) { c.AddBatch(0, k, ones[:len(k)], nil) }
			b.Run("add-single", func(b *testing.B) { restore(); each(b, keys, restore, addSingle) })
			b.Run("add-batch", func(b *testing.B) { restore(); each(b, keys, restore, addBatch) })
			b.Run("reports-add-batch", func(b *testing.B) { restore(); each(b, reports, restore, addBatch) })
			restore()
			s := c.Stats()
			b.Run("memory", func(b *testing.B) {
				b.ReportMetric(float64(s.Bytes)/float64(n), "B/key")
				b.ReportMetric(0, "ns/op")
			})
			c = nil
			benchBaselines(b, g.Bytes(), keys, unseen)
		})
	}
}

func BenchmarkBitsSpeed(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			g, err := shape.SizeFor(shape.Target{Kind: Bitmap, Signatures: uint64(n), Rate: 1e-3, K: 8})
			if err != nil {
				b.Fatal(err)
			}
			f := mustBits(b, g)
			keys, unseen := benchKeys(n, 1), benchKeys(min(n, 1<<22), 1<<50)
			f.SetBatch(0, keys, nil)
			rand.New(rand.NewPCG(3, 4)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			out := make([]bool, benchBatch)
			batch := func(k []Key) { f.HasBatch(k, out[:len(k)]) }
			single := func(k []Key) {
				for i := range k {
					if f.Has(k[i]) {
						sink++
					}
				}
			}
			b.Run("single-hit", func(b *testing.B) { each(b, keys, nil, single) })
			b.Run("single-miss", func(b *testing.B) { each(b, unseen, nil, single) })
			b.Run("batch-hit", func(b *testing.B) { each(b, keys, nil, batch) })
			b.Run("batch-miss", func(b *testing.B) { each(b, unseen, nil, batch) })
			b.Run("set-batch-old", func(b *testing.B) {
				each(b, keys, nil, func(k []Key) { f.SetBatch(0, k, nil) })
			})
			b.Run("set-batch-new", func(b *testing.B) {
				empty := mustBits(b, g)
				each(b, keys, nil, func(k []Key) { empty.SetBatch(0, k, nil) })
			})
			b.Run("memory", func(b *testing.B) {
				b.ReportMetric(float64(f.Stats().Bytes)/float64(n), "B/key")
				b.ReportMetric(0, "ns/op")
			})
			f = nil
			benchBaselines(b, g.Bytes(), keys, unseen)
		})
	}
}

// reportStream returns keys as often as they are reported, in random order: up to four million
// reports.
func reportStream(keys []Key) (reports []Key) {
	rng := rand.New(rand.NewPCG(7, 8))
	n := min(len(keys), 1<<20)
	_, adds := skew(rng, n, shape.DefaultTail)
	for _, i := range adds[:min(len(adds), 1<<22)] {
		reports = append(reports, keys[i])
	}
	return reports
}

// restorer returns a function that restores c to its present state, if that state is small enough
// for benchmarks to use its keys more than once.
func restorer(b *testing.B, c *Counting) func() {
	if c.Pages() > 256 {
		return func() {}
	}
	var images []*Image
	for p := range c.Pages() {
		images = append(images, c.Image(p))
	}
	return func() {
		for _, m := range images {
			if err := c.Load(m); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkMerge reports bytes of array per second, next to the machine's copy of the same bytes.
func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{1e5, 1e7} {
		counts, _ := skew(rand.New(rand.NewPCG(1, 2)), 1<<16, shape.DefaultTail)
		cg, err := shape.SizeFor(shape.Target{Kind: Cells, Signatures: uint64(n), Error: shape.CountWrong, Rate: 1e-3})
		if err != nil {
			b.Fatal(err)
		}
		c, d := mustCounting(b, cg), mustCounting(b, cg)
		bg := Geometry{Kind: Bitmap, Lines: cg.Lines, K: 8}
		e, f := mustBits(b, bg), mustBits(b, bg)
		keys := benchKeys(n, 1)
		for i := range keys {
			c.Add(keys[i], counts[i&(1<<16-1)])
		}
		e.SetBatch(0, keys, nil)
		size := int64(cg.Bytes())
		x, y := alignedLines(int(cg.Lines)), alignedLines(int(cg.Lines))
		name := func(what string) string { return fmt.Sprintf("%s/n=%d", what, n) }
		b.Run(name("copy"), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				copy(x, c.lines)
			}
		})
		b.Run(name("or"), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				b.StopTimer()
				clear(f.lines)
				b.StartTimer()
				if err := f.Merge(e); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name("add-nibbles"), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				sumLines(y, x, y)
			}
		})
		b.Run(name("saturating-merge"), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				b.StopTimer()
				d = mustCounting(b, cg)
				if err := d.Merge(c); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := d.Merge(c); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name("encode"), func(b *testing.B) {
			b.SetBytes(size)
			var buf []byte
			for b.Loop() {
				for p := range c.Pages() {
					buf = c.AppendPage(buf[:0], p)
				}
			}
		})
		b.Run(name("load"), func(b *testing.B) {
			b.SetBytes(size)
			var pages [][]byte
			for p := range c.Pages() {
				pages = append(pages, c.AppendPage(nil, p))
			}
			b.ResetTimer()
			for b.Loop() {
				for _, enc := range pages {
					if _, err := d.LoadPage(enc); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// benchBaselines measures one dependent access to an array of the given size,
// and a map with the content of keys.
func benchBaselines(b *testing.B, size uint64, keys, unseen []Key) {
	b.Run("baseline-dependent-access", func(b *testing.B) {
		next := randomCycle(int(size / LineBytes))
		at := uint32(0)
		b.ResetTimer()
		for range b.N {
			at = next[at][0]
		}
		sink += uint64(at)
	})
	var m map[[16]byte]uint32
	fill := func() {
		if m == nil {
			m = map[[16]byte]uint32{}
			for _, k := range mapKeys(keys) {
				m[k]++
			}
		}
	}
	lookup := func(k []Key) {
		for _, k := range mapKeys(k) {
			sink += uint64(m[k])
		}
	}
	b.Run("baseline-map-hit", func(b *testing.B) { fill(); each(b, keys, nil, lookup) })
	b.Run("baseline-map-miss", func(b *testing.B) { fill(); each(b, unseen, nil, lookup) })
	b.Run("baseline-map-dependent-hit", func(b *testing.B) {
		fill()
		in, at := mapKeys(keys), 0
		b.ResetTimer()
		for range b.N {
			at = (at + 1 + int(m[in[at]]>>24)) % len(in)
		}
		sink += uint64(at)
	})
	b.Run("baseline-map-add", func(b *testing.B) {
		fill()
		each(b, keys, nil, func(k []Key) {
			for _, k := range mapKeys(k) {
				m[k]++
			}
		})
	})
}

// mapKeys returns keys as they lie in memory: a key assembled from two words would stall each
// look-up until the previous one has ended.
func mapKeys(keys []Key) [][16]byte {
	return unsafe.Slice((*[16]byte)(unsafe.Pointer(unsafe.SliceData(keys))), len(keys))
}

// randomCycle returns n lines, each of which holds the number of the next one in a random order
// that visits all.
func randomCycle(n int) [][LineBytes / 4]uint32 {
	order := rand.New(rand.NewPCG(5, 6)).Perm(n)
	next := make([][LineBytes / 4]uint32, n)
	for i, at := range order {
		next[at][0] = uint32(order[(i+1)%n])
	}
	return next
}
