//go:build unix

package filter

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

var structuresOf = flag.Int("structures", 0,
	"entries of the lists that TestListStructures measures; 0: it checks errors only")

// processorTime returns the processor time that this process has used, including garbage
// collection.
func processorTime(t *testing.T) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// A structure is one of the kinds of filter that a list can have.
type structure struct {
	name  string
	build func(t *testing.T, of texts) (contains func([]byte) bool, bytes uint64)
}

func structures() []structure {
	return []structure{
		{"two-part", func(t *testing.T, of texts) (func([]byte) bool, uint64) {
			two := testTwoPart(t, of.n(), 1e-6, EigenHash)
			for i := range of.n() {
				two.Add(of.at(i))
			}
			return two.Contains, two.Shape().Bytes()
		}},
		{"bits", func(t *testing.T, of texts) (func([]byte) bool, uint64) {
			g, err := SizeFor(Target{Kind: Bitmap, Signatures: of.n(), Error: Ghost, Rate: 1e-6})
			if err != nil {
				t.Fatal(err)
			}
			lines, err := NewBits(g)
			if err != nil {
				t.Fatal(err)
			}
			secret := Secret{5}
			for i := range of.n() {
				lines.Set(secret.Key(of.at(i)))
			}
			return func(x []byte) bool { return lines.Has(secret.Key(x)) }, g.Bytes()
		}},
		{"fuse", func(t *testing.T, of texts) (func([]byte) bool, uint64) {
			b, err := NewFuseBuilder(1e-6, Secret{4})
			if err != nil {
				t.Fatal(err)
			}
			for i := range of.n() {
				if err := b.Add(of.at(i)); err != nil {
					t.Fatal(err)
				}
			}
			fuse, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return fuse.Contains, fuse.Bytes()
		}},
	}
}

// texts holds items in one contiguous block, so that the garbage collector has nothing to scan in
// it.
type texts struct {
	bytes []byte
	ends  []uint32
}

func (x *texts) n() uint64 { return uint64(len(x.ends) - 1) }

func (x *texts) at(i uint64) []byte { return x.bytes[x.ends[i]:x.ends[i+1]] }

func textsOf(n int, number func(int) int) (x texts) {
	x.ends = append(x.ends, 0)
	for i := range n {
		x.bytes = append(x.bytes, item(number(i))...)
		x.ends = append(x.ends, uint32(len(x.bytes)))
	}
	return x
}

// TestListStructures builds the structures of a list in turns and queries each for present and
// absent entries: every entry is found, and hardly any absent one. With -structures N it reports
// the processor time of each structure relative to the two-part filter in the same round, so that
// the load of the machine cancels out.
func TestListStructures(t *testing.T) {
	n, rounds := *structuresOf, 15
	if n == 0 {
		n, rounds = 2000, 1
	}
	all := structures()
	hits, misses := textsOf(n, func(i int) int { return i * 7919 % n }), textsOf(n, func(i int) int { return i + 1<<26 })
	var cost [3][3][]float64 // by structure, then build, hits and misses: nanoseconds per entry
	bytes := make([]uint64, len(all))
	for range rounds {
		for i, s := range all {
			runtime.GC()
			from := processorTime(t)
			var contains func([]byte) bool
			contains, bytes[i] = s.build(t, hits)
			at := []time.Duration{from, processorTime(t), 0, 0}
			found := [2]int{}
			for k, of := range []texts{hits, misses} {
				for i := range of.n() {
					if contains(of.at(i)) {
						found[k]++
					}
				}
				at[k+2] = processorTime(t)
			}
			for k := range 3 {
				cost[i][k] = append(cost[i][k], float64(at[k+1]-at[k])/float64(n))
			}
			if found[0] != n || found[1] > 20+n/10_000 {
				t.Fatalf("%s has %d of its %d entries, and %d others", s.name, found[0], n, found[1])
			}
		}
	}
	for i, s := range all {
		text := fmt.Sprintf("%-8s %5.1f bits an entry", s.name, 8*float64(bytes[i])/float64(n))
		for k, what := range []string{"build", "hit", "miss"} {
			ratio := make([]float64, rounds)
			for r := range ratio {
				ratio[r] = cost[i][k][r] / cost[0][k][r]
			}
			slices.Sort(ratio)
			slices.Sort(cost[i][k])
			text += fmt.Sprintf("; %s %4.0f ns, %.2f times (%.2f to %.2f)", what, cost[i][k][rounds/2], ratio[rounds/2],
				ratio[rounds/5], ratio[rounds-1-rounds/5])
		}
		t.Log(text)
	}
}
