package mesh

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
)

// adds returns rounds with n adds and with keys keys.
func adds(t *testing.T, n, keys int) (counts, lists *arrays.Round) {
	t.Helper()
	c, err := arrays.NewCounting(filter.Geometry{Kind: filter.Cells, Lines: filter.PageLines, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	b, err := arrays.NewBits(filter.Geometry{Kind: filter.Bitmap, Lines: filter.PageLines, K: 8})
	if err != nil {
		t.Fatal(err)
	}
	counts, lists = c.NewRound(), b.NewRound()
	counts.Record([]filter.Key{{Hi: 1, Lo: 1}}, []uint32{uint32(n)}, []uint32{0})
	for i := range keys {
		lists.RecordBits([]filter.Key{{Hi: uint64(i) << 40, Lo: uint64(i)}}, []bool{false})
	}
	counts.Close()
	lists.Close()
	return counts, lists
}

// TestGrowth checks that an hour's allowance may arrive at once, that the used part is restored by
// the minute, and that a silence of an hour or more adds its own allowance.
func TestGrowth(t *testing.T) {
	o := &member.Options{MaxAdds: 100, MaxListings: 10, StreamAge: 72 * time.Hour}
	begun := time.Unix(1_800_000_000, 0)
	type step struct {
		minute  float64
		silence time.Duration // credited before
		adds    int
		keys    int
		ok      bool
	}
	for name, steps := range map[string][]step{
		"an hour's worth":          {{0, 0, 6000, 600, true}, {0, 0, 1, 0, false}},
		"one more listing":         {{0, 0, 0, 601, false}},
		"one more add":             {{0, 0, 6001, 0, false}},
		"it comes back":            {{0, 0, 6000, 600, true}, {10, 0, 1000, 100, true}, {10, 0, 1, 0, false}},
		"listings come back":       {{0, 0, 0, 600, true}, {10, 0, 0, 100, true}, {10, 0, 0, 1, false}},
		"no more than all of it":   {{0, 0, 3000, 0, true}, {1000, 0, 6000, 0, true}, {1000, 0, 1, 0, false}},
		"a clock that goes back":   {{10, 0, 6000, 0, true}, {0, 0, 1, 0, false}},
		"a short silence":          {{0, 59 * time.Minute, 6001, 0, false}},
		"two hours of silence":     {{0, 2 * time.Hour, 6000 + 12000, 600 + 1200, true}, {0, 0, 1, 0, false}},
		"listings after a silence": {{0, 2 * time.Hour, 0, 600 + 1200, true}, {0, 0, 0, 1, false}},
		"the credit stays":         {{0, 2 * time.Hour, 0, 0, true}, {50, 0, 6000 + 12000, 0, true}, {50, 0, 1, 0, false}},
		"for an hour":              {{0, 2 * time.Hour, 0, 0, true}, {61, 0, 6000, 0, true}, {61, 0, 1, 0, false}},
		"a silence of a year":      {{0, 365 * 24 * time.Hour, 6000 + 72*6000, 0, true}, {0, 0, 1, 0, false}},
	} {
		g := &member.Growth{At: begun}
		for i, s := range steps {
			now := begun.Add(time.Duration(s.minute * float64(time.Minute)))
			if s.silence > 0 {
				g.Credit(o, now, s.silence)
			}
			counts, lists := adds(t, s.adds, s.keys)
			why := g.Charge(o, now, engine.ArrayCounts, counts)
			if extra := g.Charge(o, now, engine.ArraySpam, lists); why == "" {
				why = extra
			}
			if (why == "") != s.ok {
				t.Errorf("%s, step %d: %q", name, i+1, why)
			}
		}
	}
}

// TestExcess checks the text about a peer above its rate.
func TestExcess(t *testing.T) {
	o := &member.Options{MaxAdds: 100, MaxListings: 10}
	for want, g := range map[string]member.Growth{
		"": {Adds: 6000, Listings: 600}, "5 adds above its rate, limit 100 a minute": {Adds: 6005, Listings: 600},
		"7 listings above its rate, limit 10 a minute": {Adds: 6000, Listings: 607},
	} {
		if got := g.Excess(o); got != want {
			t.Errorf("%+v: %q, want %q", g, got, want)
		}
	}
}
