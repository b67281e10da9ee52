package arrays

import (
	"math"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// TestMergeTrial checks what must hold for every network: methods that are safe
// never count too low, and H1 on a merged array does.
func TestMergeTrial(t *testing.T) {
	for _, net := range [][2]int{{2, 4}, {8, 4}} {
		row := MergeRow{Servers: net[0], Syncs: net[1]}
		newMergeTrial(1, net[0], net[1], 0).run(&row, 1)
		if row.SumUnder != 0 {
			t.Errorf("%v: a safe method counts %g of the elements too low", net, row.SumUnder)
		}
		if row.MergedUnder < 0.01 || row.MergedWorst < 1 {
			t.Errorf("%v: H1 on the merged array counts only %g too low", net, row.MergedUnder)
		}
		if row.SumOfMin > row.OwnAndOthers || row.OwnAndOthers > row.MinOfSum || row.MinOfSum > row.IntuitiveOver {
			t.Errorf("%v: sum of minima %g, own + others %g, minimum of the sum %g, intuitive %g: out of order",
				net, row.SumOfMin, row.OwnAndOthers, row.MinOfSum, row.IntuitiveOver)
		}
	}
}

func TestDeletionTrial(t *testing.T) {
	row := deletionRow{Share: 0.1}
	row.add(experiment.Stream(1, "deletion test"), 1.0/MergeKeys)
	if row.Intuitive != 0 {
		t.Errorf("the intuitive extension counts %g too low", row.Intuitive)
	}
	if !(row.AllCells > row.MinimaOnly && row.MinimaOnly > row.OneCell && row.OneCell > 0.01) {
		t.Errorf("refined: %g, %g, %g, want falling and above 0.01", row.AllCells, row.MinimaOnly, row.OneCell)
	}
	if row.Revocation > 0.001 || row.Revocation8 < row.Revocation {
		t.Errorf("revocation filters: %g, %g", row.Revocation, row.Revocation8)
	}
}

// TestReplayDCC checks the shares and counts of a stream small enough to work out by hand.
func TestReplayDCC(t *testing.T) {
	// Two signatures, and enough cells that they share none.
	rows := []dccRow{{Threshold: 2}, {Threshold: 5}}
	replayDCC([]int32{0, 1, 0, 0, 0}, 2, 1<<20, 3, experiment.Stream(1, "dcc test"), rows, 1, 100)
	if rows[0].Asked != 3 || rows[1].Asked != 5 || rows[0].WrongR+rows[0].WrongI+rows[1].WrongR+rows[1].WrongI != 0 {
		t.Errorf("%+v, want 3 and 5 look-ups, all right", rows)
	}
	if want := math.Pow(3.0/(1<<20), 3); math.Abs(rows[0].UnseenR-want) > 1e-9*want || rows[1].UnseenR != 0 {
		t.Errorf("unseen at 2: %g, want %g; at 5: %g, want 0", rows[0].UnseenR, want, rows[1].UnseenR)
	}
}

func TestEscapeBits(t *testing.T) {
	// 1 cell in 1000 above 15, of one byte: 24 bits at 7/8 load.
	got := escapeBits(map[uint32]int{0: 800, 3: 199, 200: 1}, 4, 1000)
	if want := 4 + 24*8.0/7/1000; math.Abs(got-want) > 1e-9 {
		t.Errorf("%g bits a cell, want %g", got, want)
	}
}

// TestCellArray compares the arrays of the merge study with the filter type.
func TestCellArray(t *testing.T) {
	r := experiment.Stream(1, "cell array")
	family, err := paper.Keyed(filter.Secret{1}, 300, MergeK)
	if err != nil {
		t.Fatal(err)
	}
	f, err := paper.NewRefined(family, paper.FixedCells(16))
	if err != nil {
		t.Fatal(err)
	}
	a := make(experiment.CellArray, 300)
	for range 2000 {
		x := numbered(r.IntN(60))
		n := uint32(1 + r.IntN(3))
		var ps []uint32
		for _, p := range family.Append(nil, x) {
			ps = append(ps, uint32(p))
		}
		if got, want := a.Count(ps), f.Insert(x, n); got != want {
			t.Fatalf("count %d, want %d", got, want)
		}
		a.Raise(ps, n)
	}
}

// TestSumsHaveOneOrder: equal counts give equal numbers to the last bit.
func TestSumsHaveOneOrder(t *testing.T) {
	family, err := paper.Keyed(filter.Secret{1}, 5000, 3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := paper.NewRefined(family, paper.FixedCells(16))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		f.Insert(numbered(i), uint32(i*i))
	}
	values, entropy := histogram(f)
	bits := escapeBits(values, 3, 5000)
	for range 100 {
		if _, again := histogram(f); again != entropy {
			t.Fatalf("entropy %v, then %v", entropy, again)
		}
		if again := escapeBits(values, 3, 5000); again != bits {
			t.Fatalf("%v bits, then %v", bits, again)
		}
	}
}
