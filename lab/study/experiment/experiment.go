// Package experiment simulates Experiments 1 to 8 of Yan & Cho and variations of them, and compares
// the results with the printed tables.
//
// It also runs the work of the study: a [Config] names what is wanted, a [Unit] is a piece of work
// whose result is kept in a file. See package study.
package experiment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// NumKeys is the number of different elements in every experiment of the paper.
const NumKeys = 10_000

// CellLimit is the value at which a cell saturates: the paper gave its cells 6 bits.
const CellLimit = 63

// An order is the sequence in which an experiment inserts its elements.
type order int

const (
	rounds   order = iota // x1..xn, 20 times over
	blocks                // each element c times in a row
	shuffled              // Fisher-Yates over all insertions
)

// An Experiment is one of the paper's eight.
type Experiment struct {
	Number int
	order  order
	// counts draws how often one element is inserted; nil for 20 times.
	counts func(*rand.Rand) int
	most   int // largest count that counts may return
	// zeros and total are what the paper's own draw had, recovered from its
	// tables (docs/study.md); 0 for unknown.
	zeros, Total int
	Sizes        []int // m, in thousands of cells
}

// weighted reports whether the experiment weighs an error by the element's
// count and divides by the number of insertions (Experiments 4 to 8).
func (e *Experiment) weighted() bool { return e.counts != nil }

// IntuitiveOf returns the experiment whose tables print the intuitive extension
// for e, which does not depend on the order of insertions.
func (e *Experiment) IntuitiveOf() int {
	switch e.Number {
	case 2, 3:
		return 1
	case 5:
		return 4
	}
	return e.Number
}

func uniform(most int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return r.IntN(most + 1) }
}

// poisson draws by multiplication of uniform numbers (Knuth), for small lambda.
func poisson(lambda float64) func(*rand.Rand) int {
	stop := math.Exp(-lambda)
	return func(r *rand.Rand) int {
		n := 0
		for p := r.Float64(); p > stop; p *= r.Float64() {
			n++
		}
		return min(n, CellLimit-1)
	}
}

// Experiments returns the paper's eight (section V.A).
func Experiments() []Experiment {
	small := []int{80, 160, 320}
	return []Experiment{
		{Number: 1, order: rounds, most: 20, Sizes: small},
		{Number: 2, order: blocks, most: 20, Sizes: small},
		{Number: 3, order: shuffled, most: 20, Sizes: small},
		{Number: 4, order: shuffled, counts: uniform(20), most: 20, zeros: 537, Total: 99_909, Sizes: small},
		{Number: 5, order: blocks, counts: uniform(20), most: 20, zeros: 537, Total: 99_909, Sizes: small},
		{Number: 6, order: shuffled, counts: poisson(10), most: CellLimit - 1, Total: 99_563, Sizes: small},
		{Number: 7, order: shuffled, counts: poisson(20), most: CellLimit - 1, Total: 200_000, Sizes: small},
		{Number: 8, order: shuffled, counts: uniform(40), most: 40, zeros: 253, Total: 198_053,
			Sizes: []int{80, 160, 240, 320, 640}},
	}
}

// HashCounts returns the numbers of hash functions of every experiment.
func HashCounts() []int { return []int{4, 6, 8} }

// A Draw is the source of the numbers of insertions of Experiments 4 to 8.
type Draw string

// The draws.
const (
	// DrawPrinted is one draw for all rounds, with as many insertions, and as many
	// elements that are never inserted, as the paper's own draw had, where its printed
	// tables give these numbers away.
	DrawPrinted Draw = "printed"
	// DrawFixed is one draw for all rounds.
	DrawFixed Draw = "fixed"
	// DrawFresh is a draw for each round.
	DrawFresh Draw = "fresh"
)

func (d Draw) validate() error {
	if d != DrawPrinted && d != DrawFixed && d != DrawFresh {
		return fmt.Errorf("study: draw %q, want %q, %q or %q", d, DrawPrinted, DrawFixed, DrawFresh)
	}
	return nil
}

// Stream returns a random generator for one purpose. Streams of different
// purposes are independent.
func Stream(seed uint64, purpose string, numbers ...int) *rand.Rand {
	in := binary.LittleEndian.AppendUint64(nil, seed)
	for _, n := range numbers {
		in = binary.LittleEndian.AppendUint64(in, uint64(n))
	}
	sum := sha256.Sum256(append(in, purpose...))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])))
}

// drawCounts returns how often each element is inserted in a round.
func (e *Experiment) drawCounts(seed uint64, d Draw, round int) []uint8 {
	counts := make([]uint8, NumKeys)
	if e.counts == nil {
		for i := range counts {
			counts[i] = 20
		}
		return counts
	}
	// Experiment 5 inserts the unshuffled sequence of Experiment 4.
	number := e.IntuitiveOf()
	if d != DrawFresh {
		round = 0
	}
	r := Stream(seed, "counts", number, round)
	for i := range counts {
		counts[i] = uint8(e.counts(r))
	}
	if d == DrawPrinted {
		e.condition(counts, r)
	}
	return counts
}

// condition changes counts at random until as many are zero as in the paper, and they add
// up to the paper's total.
func (e *Experiment) condition(counts []uint8, r *rand.Rand) {
	zeros, total := 0, 0
	for _, c := range counts {
		if c == 0 {
			zeros++
		}
		total += int(c)
	}
	for e.zeros != 0 && zeros != e.zeros {
		c := &counts[r.IntN(NumKeys)]
		switch {
		case zeros < e.zeros && *c != 0:
			total -= int(*c)
			*c = 0
			zeros++
		case zeros > e.zeros && *c == 0:
			*c = uint8(1 + r.IntN(e.most))
			total += int(*c)
			zeros--
		}
	}
	for e.Total != 0 && total != e.Total {
		c := &counts[r.IntN(NumKeys)]
		switch {
		case *c == 0:
		case total < e.Total && int(*c) < e.most:
			*c++
			total++
		case total > e.Total && *c > 1:
			*c--
			total--
		}
	}
}
