package replica

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestContinues checks that a round is accepted if the origin's lineage shows that it was recorded
// on the replica's content. It waits while that is unknown, and it shows that the origin has gone
// back if it was not.
func TestContinues(t *testing.T) {
	rig := newRig(t, meshtest.NewBroker(rand.New(rand.NewPCG(1, 1))), nil)
	x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
	straight, setBack := wire.Lineage{{Boot: 10, Base: 0}, {Boot: 20, Base: 50}}, wire.Lineage{{Boot: 10, Base: 0},
		{Boot: 20, Base: 30}}
	for _, tt := range []struct {
		name              string
		version, boot     uint64 // of the replica
		round             uint64 // boot of the origin that recorded the round
		statement         wire.Lineage
		head              wire.Lineage // of a head of process 20
		next              uint64
		taken, waits, bad bool
	}{
		{"an empty replica", 0, 0, 20, nil, nil, 0, true, false, false},
		{"of the process that led to it", 40, 20, 20, nil, nil, 0, true, false, false},
		{"of an earlier process", 40, 20, 10, straight, straight, 0, false, false, false},
		{"of a later one, which says nothing", 40, 10, 20, nil, nil, 0, false, true, false},
		{"and that it found it so", 40, 10, 20, straight, nil, 0, true, false, false},
		{"and that it found less", 40, 10, 20, setBack, nil, 0, false, false, true},
		{"as much as it found", 30, 10, 20, setBack, nil, 0, true, false, false},
		{"a head says it", 40, 10, 20, nil, straight, 0, true, false, false},
		{"a head says less", 40, 10, 20, nil, setBack, 0, false, false, true},
		{"the round's own word stands before the head's", 40, 10, 20, straight, setBack, 0, true, false, false},
		{"a head of another life", 40, 10, 20, nil, straight, 99, false, true, false},
		{"a head of an earlier process than the round's", 40, 10, 25, nil, straight, 0, false, true, false},
	} {
		p, _ := rig.Find(rig.Peer.Hint())
		tr := newOrigin(rig.receiver)
		tr.peer = p
		if tt.head != nil {
			tr.heads[x] = wire.ArrayHead{Ref: x, Boot: 20, Lineage: tt.head}
		}
		tr.next = tt.next
		r := &wire.Round{Ref: x, From: tt.version, To: tt.version + 1, Boot: tt.round, Lineage: tt.statement}
		before := rig.Entry().Refusals.Count[member.ReasonSuspect]
		d := tr.continues(engine.ArrayState{Array: x.Array, Start: x.Start, Version: tt.version, Boot: tt.boot}, r)
		taken := d == roundDue
		refused := rig.Entry().Refusals.Count[member.ReasonSuspect] > before
		if waits := len(tr.pending[x]) == 1; waits != (d == roundHeld) || taken != tt.taken || waits != tt.waits ||
			tr.suspect != tt.bad ||
			refused != tt.bad || tr.doubted.IsZero() == tt.bad {
			t.Errorf("%s: taken %v, waits %v, suspect %v, refused %v", tt.name, taken, waits, tr.suspect, refused)
		}
	}
}

// TestHold checks that rounds wait in the order of their versions, each once, in bounded memory.
func TestHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tr := &queue{pending: make(map[wire.Ref][]wire.Round)}
	x := wire.Ref{Array: engine.ArraySpam, Start: 7}
	var want [][2]uint64
	for range 400 {
		from := rng.Uint64N(40)
		r := wire.Round{Ref: x, From: from, To: from + 1 + rng.Uint64N(5), Data: make([]byte, 10)}
		tr.add(&r)
		if k := [2]uint64{r.From, r.To}; !slices.Contains(want, k) {
			want = append(want, k)
		}
	}
	slices.SortFunc(want, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
	var got [][2]uint64
	for _, r := range tr.pending[x] {
		got = append(got, [2]uint64{r.From, r.To})
	}
	if !slices.Equal(got, want) || tr.waiting != len(want)*(wire.RoundCost+10) {
		t.Errorf("%d bytes of %v wait, want %d of %v", tr.waiting, got, len(want)*(wire.RoundCost+10), want)
	}
	tr = &queue{pending: make(map[wire.Ref][]wire.Round)}
	for from := range uint64(3) {
		tr.add(&wire.Round{Ref: x, From: from, To: from + 1, Data: make([]byte, maxPending/2-wire.RoundCost)})
	}
	tr.add(&wire.Round{Ref: x, From: 9, To: 10})
	if len(tr.pending[x]) != 2 || tr.waiting != maxPending {
		t.Errorf("%d rounds of %d bytes wait, want the two that fit", len(tr.pending[x]), tr.waiting)
	}
}
