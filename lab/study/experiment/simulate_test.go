package experiment

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead/lab/paper"
)

// TestSimulatorAgainstFilters runs rounds through the filter package's types,
// insertion by insertion, and compares every cell.
func TestSimulatorAgainstFilters(t *testing.T) {
	s := NewSimulator(5)
	for _, e := range Experiments() {
		k := HashCounts()[e.Number%3]
		const m, seed = 80_000, 5
		counts := e.drawCounts(seed, DrawFixed, 0)
		s.run(&e, seed, DrawFixed, m, k, 3, counts)

		r := Stream(seed, "round", m, k, 3)
		family, err := paper.Universal(m, k, r)
		if err != nil {
			t.Fatal(err)
		}
		refined, err := paper.NewRefined(family, paper.FixedCells(8))
		if err != nil {
			t.Fatal(err)
		}
		intuitive, err := paper.NewIntuitive(family, paper.FixedCells(16))
		if err != nil {
			t.Fatal(err)
		}
		insert := func(i int) {
			x := binary.BigEndian.AppendUint64(nil, s.keys[i])
			refined.Insert(x, 1)
			intuitive.Insert(x, 1)
		}
		switch e.order {
		case rounds:
			for range 20 {
				for i := range s.keys {
					insert(i)
				}
			}
		case blocks:
			for i, n := range counts {
				for range n {
					insert(i)
				}
			}
		case shuffled:
			left := append([]uint8(nil), counts...)
			for _, i := range s.Sequence {
				left[i]--
				insert(int(i))
			}
			for i, n := range left {
				if n != 0 {
					t.Fatalf("experiment %d: the sequence lacks element %d %d times", e.Number, i, n)
				}
			}
		}
		for i := range m {
			if got, want := uint32(s.refined[i]), refined.Cell(uint64(i)); got != want {
				t.Fatalf("experiment %d: refined cell %d is %d, want %d", e.Number, i, got, want)
			}
			if got, want := uint32(s.intuitive[i]), min(intuitive.Cell(uint64(i)), CellLimit); got != want {
				t.Fatalf("experiment %d: intuitive cell %d is %d, want %d", e.Number, i, got, want)
			}
		}
	}
}

func TestDrawPrinted(t *testing.T) {
	for _, e := range Experiments() {
		counts := e.drawCounts(1, DrawPrinted, 9)
		zeros, total, most := 0, 0, uint8(0)
		for _, c := range counts {
			if c == 0 {
				zeros++
			}
			total += int(c)
			most = max(most, c)
		}
		if e.zeros != 0 && zeros != e.zeros || e.Total != 0 && total != e.Total || int(most) > e.most {
			t.Errorf("experiment %d: %d zeros, total %d, most %d, want %d, %d, at most %d",
				e.Number, zeros, total, most, e.zeros, e.Total, e.most)
		}
		again := e.drawCounts(1, DrawPrinted, 10)
		if e.weighted() && string(again) != string(counts) {
			t.Errorf("experiment %d: the fixed draw differs between rounds", e.Number)
		}
	}
	es := Experiments()
	if string(es[3].drawCounts(1, DrawFresh, 4)) != string(es[4].drawCounts(1, DrawFresh, 4)) {
		t.Error("experiments 4 and 5 insert different sequences")
	}
}

func BenchmarkRound(b *testing.B) {
	s := NewSimulator(5)
	for _, e := range Experiments() {
		for _, k := range HashCounts() {
			counts := e.drawCounts(1, DrawFixed, 0)
			b.Run(fmt.Sprintf("experiment%d/k%d", e.Number, k), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					s.run(&e, 1, DrawFixed, 160_000, k, i, counts)
				}
			})
		}
	}
}

// TestGrowth: the last state of both curves is that of Experiments 1 and 3.
func TestGrowth(t *testing.T) {
	s := NewSimulator(1)
	g := &GrowthResult{}
	g.add(s, 1, 0)
	es := Experiments()
	for i, e := range []Experiment{es[0], es[2]} {
		want := s.run(&e, 1, DrawFixed, GrowthM, GrowthK, 0, nil).WrongR
		got := []float64{g.Sequential[19], g.Shuffled[19]}[i]
		if got != float64(want) {
			t.Errorf("experiment %d: %g wrong in the end, want %d", e.Number, got, want)
		}
	}
	if g.Sequential[2] != g.Sequential[19] {
		t.Errorf("experiment 1 gains errors after its second pass: %v", g.Sequential)
	}
}

func TestBetween(t *testing.T) {
	// Lines differ by 2, columns by anything, nothing else: all is explained.
	mean, variance := between([][]float64{{1, 5, 9}, {3, 7, 11}, {5, 9, 13}})
	if math.Abs(mean-7) > 1e-12 || math.Abs(variance-4) > 1e-12 {
		t.Errorf("mean %g, variance %g, want 7 and 4", mean, variance)
	}
	r := Stream(1, "between")
	noise := make([][]float64, 12)
	for i := range noise {
		for range 40 {
			noise[i] = append(noise[i], r.NormFloat64())
		}
	}
	if _, variance := between(noise); math.Abs(variance) > 0.03 {
		t.Errorf("variance %g of pure noise", variance)
	}
}
