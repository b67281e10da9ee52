package verdict

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestWalk compares walks over all lists of three generations with their rule:
// the newest generation that lists decides, unless it or a newer one revokes.
func TestWalk(t *testing.T) {
	for code := range 64 {
		var gens [3][2]bool // spam, revoked; newest first
		for i := range gens {
			gens[i] = [2]bool{code>>(2*i)&1 != 0, code>>(2*i+1)&1 != 0}
		}
		state := Nothing
		for _, g := range gens {
			if !state.Decided() {
				state = state.Next(g[0], g[1])
			}
		}
		want := Nothing
		lists := slices.IndexFunc(gens[:], func(g [2]bool) bool { return g[0] })
		revokes := slices.IndexFunc(gens[:], func(g [2]bool) bool { return g[1] })
		switch {
		case lists >= 0 && (revokes < 0 || revokes > lists):
			want = Listed
		case lists >= 0:
			want = ListedRevoked
		case revokes >= 0:
			want = Revoked
		}
		if state != want {
			t.Errorf("walk over %v ends in state %d, want %d", gens, state, want)
		}
		if decided := lists >= 0; state.Decided() != decided {
			t.Errorf("walk over %v: decided is %v, want %v", gens, state.Decided(), decided)
		}
	}
}

func TestPeers(t *testing.T) {
	tests := []struct {
		state State
		union bool
		want  Peers
	}{
		{Nothing, false, Peers{}},
		{Listed, false, Peers{Spam: 0.5}},
		{Revoked, false, Peers{Revoked: 0.5}},
		{ListedRevoked, false, Peers{Revoked: 0.5, Hidden: 0.5}},
		{Nothing, true, Peers{}},
		{Listed, true, Peers{Spam: 0.5}},
		{Revoked, true, Peers{Revoked: 0.5}},
		{ListedRevoked, true, Peers{Spam: 0.5, Revoked: 0.5}}, // two of them, for all one knows
	}
	for _, tt := range tests {
		var got Peers
		got.Add(tt.state, 0.5, tt.union)
		if got != tt.want {
			t.Errorf("a peer in state %d, union %v, says %+v, want %+v", tt.state, tt.union, got, tt.want)
		}
		got.Add(tt.state, 0.25, tt.union)
		if want := (Peers{tt.want.Spam * 1.5, tt.want.Revoked * 1.5, tt.want.Hidden * 1.5}); got != want {
			t.Errorf("two peers in state %d, union %v, say %+v, want %+v", tt.state, tt.union, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	const spam, revoked, open = bulkhead.JudgedSpam, bulkhead.Revoked, bulkhead.Unjudged
	tests := []struct {
		peers Peers
		want  [4]bulkhead.Judgement // of own Nothing, Revoked, Listed, ListedRevoked
	}{
		{Peers{}, [4]bulkhead.Judgement{open, open, spam, revoked}},
		{Peers{Spam: 0.9}, [4]bulkhead.Judgement{open, open, spam, revoked}},
		{Peers{Spam: 1}, [4]bulkhead.Judgement{spam, revoked, spam, revoked}},
		{Peers{Spam: 0.7 + 0.2 + 0.1}, [4]bulkhead.Judgement{spam, revoked, spam, revoked}},
		{Peers{Revoked: 1}, [4]bulkhead.Judgement{open, open, spam, revoked}},
		{Peers{Spam: 1, Revoked: 0.1}, [4]bulkhead.Judgement{revoked, revoked, spam, revoked}},
		{Peers{Spam: 1.5, Revoked: 0.5}, [4]bulkhead.Judgement{spam, revoked, spam, revoked}},
		{Peers{Spam: 1.5, Revoked: 0.6}, [4]bulkhead.Judgement{revoked, revoked, spam, revoked}},
	}
	for _, tt := range tests {
		for own, want := range tt.want {
			if got := Judge(State(own), tt.peers, 1); got != want {
				t.Errorf("own state %d and %+v: judged %v, want %v", own, tt.peers, got, want)
			}
		}
	}
}

func ExampleJudge() {
	var own State
	own = own.Next(false, true) // this week: revoked
	own = own.Next(true, false) // last week: listed
	fmt.Println(Judge(own, Peers{}, 1) == bulkhead.Revoked)
	// Output: true
}
