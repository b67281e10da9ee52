package verdict

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestAccused: an outcome names the signature that peers list most, if many received it, or if it is
// a text of a sender of good standing, and if the node itself does not list it.
func TestAccused(t *testing.T) {
	listed := func(weight float64) Evidence { return Evidence{Peers: Peers{Spam: weight}} }
	received := func(e Evidence, old, new uint32) Evidence { e.Old, e.New = old, new; return e }
	own := received(listed(9), 50, 0)
	own.Own = Listed
	bank := from("bank.example", Evidence{}.delivered(200))
	for _, tt := range []struct {
		name      string
		promotion float64
		parts     []part
		accused   int
		peers     float64
		received  uint32
	}{
		{"nothing", 1, []part{body(bulkhead.Exact, Evidence{})}, -1, 0, 0},
		{"19 deliveries", 1, []part{body(bulkhead.Exact, received(listed(0.5), 10, 9))}, -1, 0, 0},
		{"20 deliveries", 1, []part{body(bulkhead.Exact, received(listed(0.5), 10, 10))}, 0, 0.5, 20},
		{"20 deliveries of a link", 1, []part{body(bulkhead.Exact, Evidence{}),
			link("a.example", received(listed(0.25), 0, 20))}, 1, 0.25, 20},
		{"much delivered, and listed by none", 1, []part{body(bulkhead.Exact, received(listed(0), 50, 0))}, -1, 0, 0},
		{"listed here", 1, []part{body(bulkhead.Exact, own)}, -1, 0, 0},
		{"in promotion weights", 0.5, []part{body(bulkhead.Exact, received(listed(0.25), 30, 0))}, 0, 0.5, 30},
		{"the most listed", 1, []part{body(bulkhead.Exact, received(listed(0.5), 20, 0)),
			link("a.example", received(listed(0.75), 21, 0)), link("b.example", received(listed(0.25), 22, 0))}, 1, 0.75, 21},
		{"the first of two alike", 1, []part{link("a.example", received(listed(0.5), 21, 0)),
			link("b.example", received(listed(0.5), 22, 0))}, 0, 0.5, 21},
		{"a new text of a known sender", 1, []part{body(bulkhead.Exact, listed(0.5)), bank}, 0, 0.5, 0},
		{"a new text of an unknown sender", 1, []part{body(bulkhead.Exact, listed(0.5)), from("new.example", Evidence{})}, -1,
			0, 0},
		{"a new link of a known sender", 1, []part{body(bulkhead.Exact, Evidence{}), link("a.example", listed(0.5)), bank},
			-1, 0, 0},
	} {
		_, out, _ := judgeBy(Policy{Promotion: tt.promotion, NearMatch: 2, Mature: true}, tt.parts, nil, "")
		if out.Accused != tt.accused || out.Peers != tt.peers || out.Received != tt.received {
			t.Errorf("%s: part %d with weight %v and %d deliveries, want %d, %v, %d", tt.name, out.Accused, out.Peers,
				out.Received, tt.accused, tt.peers, tt.received)
		}
	}
}

// TestContested: voters disagree from a quarter of the weight on the other side.
func TestContested(t *testing.T) {
	for _, tt := range []struct {
		spam, ham int64
		want      bool
	}{
		{0, 0, false}, {100, 0, false}, {0, 100, false}, {1, 1, true}, {400, 99, false}, {400, 100, true}, {99, 400, false},
		{100, 400, true},
	} {
		f := found(bulkhead.Exact, 1, bulkhead.Finding{})
		e := Evidence{Votes: trust.Balance{Spam: tt.spam, Ham: tt.ham}}
		if (Policy{Promotion: 1, NearMatch: 2}).Finding(&f, &e, Exact()); f.Contested != tt.want {
			t.Errorf("%d for spam, %d against: contested %v", tt.spam, tt.ham, f.Contested)
		}
	}
}
