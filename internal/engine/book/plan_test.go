package book

import (
	"math"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// TestPlanIsWhatOpens checks that a plan has the arrays of the generation that a book opens
// after one of that use.
func TestPlanIsWhatOpens(t *testing.T) {
	tally := Options{Generation: time.Hour, Keep: 3, Capacity: 1000, Error: 1e-3}
	block := Options{Generation: time.Hour, Keep: 4, Capacity: 500, Error: 1e-4}
	for _, used := range []uint64{0, 100, 999, 5000, 40_000} {
		p, err := PlanTally(tally, used, used/4, 250, 20)
		if err != nil {
			t.Fatal(err)
		}
		k := NewTally(tally, 250, 0, false, nil)
		g := &Tally{Counts: newExactCounter(), Unique: newExactBits()}
		countUp(g.Counts, used)
		mark(g.Unique, used/4)
		s, err := k.spec(3600, g.uses())
		if err != nil || s.bytes() != p.Array || s.Capacity != p.Capacity || p.All != 4*p.Array {
			t.Errorf("tally of %d: plan %+v, opened %d bytes for %d, %v", used, p, s.bytes(), s.Capacity, err)
		}
		if p.Wrong > tally.Error || p.Unseen > 0.5 || p.Bulk > p.Unseen {
			t.Errorf("tally of %d: %+v", used, p)
		}
		b, err := PlanBlocklist(block, used, used, used/5, [2]uint64{500, 100})
		if err != nil {
			t.Fatal(err)
		}
		kb := NewBlocklist(block, 500, 100, 0, false, nil)
		gb := &Block{Spam: newExactBits(), Revoked: newExactBits(), Weights: newExactCounter(), Votes: newExactBits(),
			Names: newExactCounter()}
		mark(gb.Spam, used)
		mark(gb.Votes, used)
		countUp(gb.Names, used/5)
		sb, err := kb.spec(3600, gb.uses())
		if err != nil || sb.bytes() != b.Array || sb.Capacity != b.Capacity {
			t.Errorf("blocklist of %d: plan %+v, opened %d bytes for %d, %v", used, b, sb.bytes(), sb.Capacity, err)
		}
		if b.Unseen > block.Error || b.Hidden > block.Error {
			t.Errorf("blocklist of %d: %+v, wanted %g", used, b, block.Error)
		}
	}
	tally.Memory = 1 << 16
	bound, err := PlanTally(tally, 40_000, 1, 250, 20)
	if err != nil || bound.All > 1<<16 || bound.Capacity >= 40_000 || bound.Wrong < tally.Error {
		t.Errorf("with little memory: %+v, %v, want fewer bytes and more errors", bound, err)
	}
}

// TestPlanHidden compares the probability of a plan that a listing is hidden by chance with a
// measurement: keys that were never revoked, in a revocation filter as full as planned.
func TestPlanHidden(t *testing.T) {
	o := Options{Generation: time.Hour, Keep: 1, Capacity: 40_000, Error: 1e-2}
	const used = 50_000
	p, err := PlanBlocklist(o, used, 1, 1, [2]uint64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewBlocklist(o, 1, 1, 0, false, nil).steady(keys{used, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := arrays.NewBits(s.RevokedGeometry)
	if err != nil {
		t.Fatal(err)
	}
	secret := filter.Secret{9}
	key := func(i uint64) filter.Key {
		return secret.Key([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
	}
	for i := range uint64(used / fewRevoked) {
		revoked.Set(key(i))
	}
	hidden, asked := 0, 400_000
	for i := range asked {
		if revoked.Has(key(1<<30 + uint64(i))) {
			hidden++
		}
	}
	want := p.Hidden * float64(asked)
	if math.Abs(float64(hidden)-want) > 0.1*want+5*math.Sqrt(want) || want < 100 {
		t.Errorf("%d of %d are hidden, planned %.1f", hidden, asked, want)
	}
}

func countUp(c Counter, n uint64) {
	for i := range n {
		c.AddBatch(1, []filter.Key{{Hi: i, Lo: 1}}, []uint32{1}, nil)
	}
}

func mark(b Bitset, n uint64) {
	for i := range n {
		b.SetBatch(1, []filter.Key{{Hi: i, Lo: 1}}, nil)
	}
}
