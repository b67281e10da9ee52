package lesson

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// TestFloodOfLessons has a peer repeat complete lessons of a single token after it has taught many. Each would cost
// a copy of all that it taught, so no more are taken than it is asked for.
func TestFloodOfLessons(t *testing.T) {
	c := newTestClass(1<<20, "liar", "honest")
	if err := c.Take("honest", made(9, 5, 1, 3, 500)); err != nil {
		t.Fatal(err)
	}
	if err := c.Take("liar", made(3, 5, 1, 1, 5000)); err != nil {
		t.Fatal(err)
	}
	before := held(c, "honest")
	taken := 0
	for i := range 1000 {
		l := made(3, 5, 1, uint64(i), 1)
		l.Since = 1
		switch err := c.Take("liar", l); {
		case err == nil:
			taken++
		case !errors.Is(err, bulkhead.ErrOverLimit):
			t.Fatal(err)
		}
	}
	if taken > maxOwed {
		t.Errorf("%d of 1000 lessons were taken without a question, at most %d may be", taken, maxOwed)
	}
	c.Study("liar")
	if err := c.Take("liar", made(4, 5, 1, 1, 10)); err != nil {
		t.Errorf("an answer to a question: %v", err)
	}
	for i := range 100 { // a table that is new each time does not renew the allowance
		if err := c.Take("liar", made(uint64(100+i), 5, 1, 1, 10)); err == nil && i > maxOwed {
			t.Fatalf("table %d is taken", i)
		}
	}
	if got := held(c, "honest"); !reflect.DeepEqual(got, before) {
		t.Error("the honest peer's counts have changed")
	}
}

// TestPartsThatNeverEnd has a peer begin lessons of thousands of parts and never complete one. It holds no more
// memory than its share, and nothing of them counts.
func TestPartsThatNeverEnd(t *testing.T) {
	const bytes = 2 * 10_000 * entryBytes
	c := newTestClass(bytes, "liar", "honest")
	var last error
	for part := range uint32(200) {
		l := &Lesson{Table: 3, Live: []Mark{{Start: 5, KeyID: 7, Round: 1}}, Part: part, Parts: maxParts}
		for i := range uint64(1000) {
			l.Entries = append(l.Entries, Entry{Token: learn.Token(uint64(part)<<32 + i), Reported: 1 << 31})
		}
		if err := c.Take("liar", l); err != nil {
			last = err
		}
	}
	if !errors.Is(last, bulkhead.ErrOverLimit) {
		t.Errorf("200,000 tokens, and the share is 10,000: %v", last)
	}
	if n := c.origins["liar"].entries(); n > 10_000 {
		t.Errorf("holds %d tokens", n)
	}
	if n := len(held(c, "liar")[5]); n > 0 {
		t.Errorf("%d tokens of a lesson count that is not complete", n)
	}
}

// TestAnyLesson takes lessons whose numbers are arbitrary. The peers that they are not of are left as they
// were, and the memory keeps its bound.
func TestAnyLesson(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const share = 3000
	c := newTestClass(2*share*entryBytes, "liar", "honest")
	if err := c.Take("honest", made(9, 5, 1, 3, 500)); err != nil {
		t.Fatal(err)
	}
	before := held(c, "honest")
	small := func() uint32 { return uint32(rng.Uint64() >> (32 + rng.IntN(32))) }
	refused := 0
	for range 600 {
		l := &Lesson{Table: uint64(rng.IntN(12) / 11), Of: rng.IntN(5), Since: small() & 3, Part: uint32(rng.IntN(6) / 4),
			Parts: uint32(1 + rng.IntN(6)/4)}
		for range 12 {
			l.Live = append(l.Live, Mark{Start: uint64(rng.IntN(6)), KeyID: uint64(rng.IntN(8) / 7), Round: small(),
				All: Entry{Reported: small(), Withdrawn: small(), Delivered: small()}})
		}
		for range rng.IntN(1500) {
			l.Entries = append(l.Entries, Entry{learn.Token(rng.Uint64N(20_000)), small(), small(), small()})
		}
		parsed, err := Parse(sorted(l).Append(nil))
		if err != nil {
			continue
		}
		c.Study("liar")
		if err := c.Take("liar", parsed); err != nil {
			refused++
		}
		c.Combine()
		if n := c.origins["liar"].entries(); n > share || len(c.origins["liar"].gens) > MaxGenerations {
			t.Fatalf("%d tokens in %d generations", n, len(c.origins["liar"].gens))
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	if got := held(c, "honest"); !reflect.DeepEqual(got, before) {
		t.Error("the honest peer's counts have changed")
	}
}

// TestLiesInTurns has an origin condemn the node's wanted mail for a share of the time, and take it back each time. It
// stays left out through its honest times, and another one that errs once in a thousand never is.
func TestLiesInTurns(t *testing.T) {
	for _, x := range []struct {
		lies, of int // tries
		out      bool
	}{{50, 100, true}, {10, 100, true}, {3, 100, true}, {1, 1000, false}} {
		c := newTestClass(1<<20, "peer")
		var wanted []learn.Token
		for k := range 40 {
			wanted = append(wanted, learn.Token(k+1))
		}
		round := uint32(0)
		teach := func(reported, withdrawn uint32) {
			t.Helper()
			round++
			l := &Lesson{Table: 9, Live: []Mark{{Start: 5, KeyID: 7, Round: round, All: Entry{Reported: 100 + reported,
				Withdrawn: withdrawn, Delivered: 1000}}}, Since: round - 1, Parts: 1}
			for _, k := range wanted {
				l.Entries = append(l.Entries, Entry{Token: k, Reported: reported, Withdrawn: withdrawn, Delivered: 5})
			}
			c.Study("peer")
			if err := c.Take("peer", l); err != nil {
				t.Fatal(err)
			}
		}
		for turn := range uint32(4000 / x.of) {
			teach(100*(turn+1), 100*turn)
			for range x.lies {
				c.Try(wanted, 7, 0.5)
			}
			teach(100*(turn+1), 100*(turn+1))
			for range x.of - x.lies {
				c.Try(wanted, 7, 0.5)
			}
			s := c.State()[0]
			if x.out && s.Hits == 0 || int(turn+1)*x.of > 500 && s.Condemns != x.out {
				t.Fatalf("lies %d of %d times, turn %d: %+v", x.lies, x.of, turn, s)
			}
		}
	}
}

// sorted puts the parts of a lesson in the order that [Parse] asks for.
func sorted(l *Lesson) *Lesson {
	slices.SortFunc(l.Live, func(a, b Mark) int { return cmp.Compare(b.Start, a.Start) })
	l.Live = slices.CompactFunc(l.Live, func(a, b Mark) bool { return a.Start == b.Start })
	l.Live = l.Live[:min(len(l.Live), MaxGenerations)]
	slices.SortFunc(l.Entries, func(a, b Entry) int { return cmp.Compare(a.Token, b.Token) })
	l.Entries = slices.CompactFunc(l.Entries, func(a, b Entry) bool { return a.Token == b.Token })
	return l
}
