package wire

import (
	"math"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestLongLineage checks that the newest of many processes are kept one by one, and the others are
// joined with the base of the first.
func TestLongLineage(t *testing.T) {
	var l Lineage
	for i := range uint64(3 * MaxEpochs) {
		l = l.With(Epoch{Boot: 10 + i, Base: 100 * i})
		if want := min(int(i)+1, MaxEpochs); len(l) != want || l[0].Base != 0 || l[len(l)-1] != (Epoch{10 + i, 100 * i}) {
			t.Fatalf("%d epochs after %d processes: %v", len(l), i+1, l)
		}
		if !slices.IsSortedFunc(l, func(a, b Epoch) int { return int(a.Boot) - int(b.Boot) }) {
			t.Fatalf("%v is not in order", l)
		}
	}
	last := uint64(10 + 3*MaxEpochs - 1)
	for boot, want := range map[uint64]uint64{last: math.MaxUint64, last + 5: math.MaxUint64,
		last - 1: l[len(l)-1].Base, last - 2: l[len(l)-2].Base, 0: 0} {
		if got := l.upTo(boot); got != want {
			t.Errorf("of process %d all up to %d is part of it, want %d", boot, got, want)
		}
	}
	// A process found less than the processes before it: their adds are gone.
	if got := l.With(Epoch{last + 1, 50}); len(got) != 2 || got[0].Base != 0 || got[1] != (Epoch{last + 1, 50}) {
		t.Errorf("set back to 50: %v", got)
	}
	if got := l.With(Epoch{last + 1, 0}); len(got) != 1 || got.upTo(last) != 0 {
		t.Errorf("set back to nothing: %v", got)
	}
	var none Lineage
	if !none.Contains(engine.ArrayState{Version: 7, Boot: 3}, 3) ||
		none.Contains(engine.ArrayState{Version: 7, Boot: 4}, 3) {
		t.Error("of a process that was never set back all is part, and nothing of a later one")
	}
	set := Lineage{{1, 0}, {5, 20}}
	for _, tt := range []struct {
		version, partial, boot uint64
		want                   bool
	}{{20, 0, 1, true}, {21, 0, 1, false}, {10, 21, 1, false}, {10, 20, 1, true}, {99, 0, 5, true}, {1, 0, 7, false}} {
		if got := set.Contains(engine.ArrayState{Version: tt.version, Partial: tt.partial, Boot: tt.boot},
			6); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestRestored checks that an array was restored if the first process of its lineage found any count in it.
func TestRestored(t *testing.T) {
	for _, tt := range []struct {
		l    Lineage
		want bool
	}{{nil, true}, {Lineage{{1, 0}}, false}, {Lineage{{1, 1}}, true}, {Lineage{{1, 0}, {2, 5}}, false}} {
		if got := tt.l.Restored(); got != tt.want {
			t.Errorf("%v is restored: %v", tt.l, got)
		}
	}
}
