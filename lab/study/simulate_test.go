package study

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/paper"
)

// TestSimulatorAgainstFilters runs rounds through the filter package's types,
// insertion by insertion, and compares every cell.
func TestSimulatorAgainstFilters(t *testing.T) {
	s := newSimulator(5)
	for _, e := range experiments() {
		k := hashCounts()[e.number%3]
		const m, seed = 80_000, 5
		counts := e.drawCounts(seed, DrawFixed, 0)
		s.run(&e, seed, DrawFixed, m, k, 3, counts)

		r := stream(seed, "round", m, k, 3)
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
			for _, i := range s.sequence {
				left[i]--
				insert(int(i))
			}
			for i, n := range left {
				if n != 0 {
					t.Fatalf("experiment %d: the sequence lacks element %d %d times", e.number, i, n)
				}
			}
		}
		for i := range m {
			if got, want := uint32(s.refined[i]), refined.Cell(uint64(i)); got != want {
				t.Fatalf("experiment %d: refined cell %d is %d, want %d", e.number, i, got, want)
			}
			if got, want := uint32(s.intuitive[i]), min(intuitive.Cell(uint64(i)), cellLimit); got != want {
				t.Fatalf("experiment %d: intuitive cell %d is %d, want %d", e.number, i, got, want)
			}
		}
	}
}

func TestDrawPrinted(t *testing.T) {
	for _, e := range experiments() {
		counts := e.drawCounts(1, DrawPrinted, 9)
		zeros, total, most := 0, 0, uint8(0)
		for _, c := range counts {
			if c == 0 {
				zeros++
			}
			total += int(c)
			most = max(most, c)
		}
		if e.zeros != 0 && zeros != e.zeros || e.total != 0 && total != e.total || int(most) > e.most {
			t.Errorf("experiment %d: %d zeros, total %d, most %d, want %d, %d, at most %d",
				e.number, zeros, total, most, e.zeros, e.total, e.most)
		}
		again := e.drawCounts(1, DrawPrinted, 10)
		if e.weighted() && string(again) != string(counts) {
			t.Errorf("experiment %d: the fixed draw differs between rounds", e.number)
		}
	}
	es := experiments()
	if string(es[3].drawCounts(1, DrawFresh, 4)) != string(es[4].drawCounts(1, DrawFresh, 4)) {
		t.Error("experiments 4 and 5 insert different sequences")
	}
}

func BenchmarkRound(b *testing.B) {
	s := newSimulator(5)
	for _, e := range experiments() {
		for _, k := range hashCounts() {
			counts := e.drawCounts(1, DrawFixed, 0)
			b.Run(fmt.Sprintf("experiment%d/k%d", e.number, k), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					s.run(&e, 1, DrawFixed, 160_000, k, i, counts)
				}
			})
		}
	}
}
