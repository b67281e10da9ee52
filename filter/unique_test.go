package filter

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

func testRate(t testing.TB, c UniqueRateConfig) (*UniqueRate, []byte) {
	t.Helper()
	if c.Period == 0 {
		c.Period = time.Hour
	}
	c.Secret = Secret{1, 2, 3}
	u, err := NewUniqueRate(c)
	if err != nil {
		t.Fatal(err)
	}
	return u, make([]byte, u.StateBytes())
}

var rateStart = time.Unix(1_700_000_000, 0)

func item(i int) []byte { return fmt.Appendf(nil, "user%d@example.com", i) }

func measure(t testing.TB, u *UniqueRate, s *[]byte, at time.Time, x []byte) RateMeasurement {
	t.Helper()
	m, err := u.Measure(s, at, x, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestUniqueRateStateIsSmall checks that a key takes the memory that its items need, and never more
// than the filter for the limit.
func TestUniqueRateStateIsSmall(t *testing.T) {
	for _, limit := range []float64{1, 10, 11, 20, 100, 12345, 0} {
		u, s := testRate(t, UniqueRateConfig{Limit: limit, Mode: Strict})
		whole := max(2*int(limit), fewBytes)
		if limit == 0 {
			whole = 2 * MeasuredItems
		}
		if len(s) != RateHeader+20 || u.MaxStateBytes() != RateHeader+whole {
			t.Errorf("limit %g: %d bytes at first, %d at most, want a head and 20, or 16 bits x limit", limit, len(s),
				u.MaxStateBytes())
		}
		for i := range min(u.MaxStateBytes(), 20_000) {
			measure(t, u, &s, rateStart, item(i))
			if len(s) > u.MaxStateBytes() || i >= few && len(s) > RateHeader+listHead+10*(i+1)+printBytes || i < few &&
				len(s) > RateHeader+fewBytes {
				t.Fatalf("limit %g: %d items in %d bytes", limit, i+1, len(s))
			}
			if float64(i) > limit && limit > 0 && len(s) != u.MaxStateBytes() {
				t.Fatalf("limit %g: %d items are no filter", limit, i+1)
			}
		}
		measure(t, u, &s, rateStart.Add(time.Hour), item(0))
		if len(s) != RateHeader+20 {
			t.Errorf("limit %g: %d bytes after the items are forgotten", limit, len(s))
		}
	}
}

// TestUniqueRateGrows checks that no item is forgotten or mistaken for another as the list grows
// and becomes a filter, while limits change.
func TestUniqueRateGrows(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 1000, Mode: Strict})
	limits := []*UniqueRate{u}
	for _, limit := range []float64{0, 3, 1e6} {
		other, err := u.WithLimit(limit)
		if err != nil || other.ID() != u.ID() {
			t.Fatal(limit, err)
		}
		limits = append(limits, other)
	}
	random := rand.New(rand.NewPCG(1, 9))
	for key := range 30 {
		s = make([]byte, u.StateBytes())
		known := map[int]bool{}
		at := limits[random.IntN(len(limits))]
		for range 600 {
			if random.IntN(50) == 0 {
				at = limits[random.IntN(len(limits))]
			}
			i := key<<20 + random.IntN(500)
			wasFilter := rateState(s).bloom()
			m := measure(t, at, &s, rateStart, item(i))
			if m.New == known[i] && (known[i] || !wasFilter) {
				t.Fatalf("item %d of %d: %+v, known %v", i, len(known), m, known[i])
			}
			known[i] = true
			if err := rateState(s).validItems(); err != nil {
				t.Fatal(err)
			}
			if n, err := at.Items(s); err != nil || !rateState(s).bloom() && int(n) != len(known) {
				t.Fatalf("%g items, want %d, %v", n, len(known), err)
			}
		}
	}
}

func TestUniqueRateCountsDifferentItems(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 10})
	for i := range 10 {
		for range 5 {
			if m := measure(t, u, &s, rateStart, item(i)); m.Over || m.Rate != float64(i+1) {
				t.Fatalf("item %d: %+v, want rate %d", i, m, i+1)
			}
		}
	}
	if m := measure(t, u, &s, rateStart, item(10)); !m.Over || !m.New || m.Counted || m.Rate != 11 {
		t.Errorf("11th item under leaky: %+v, want over at 11, not counted", m)
	}
	if m := measure(t, u, &s, rateStart, item(3)); m.Over || m.New || m.Rate != 10 {
		t.Errorf("known item under leaky: %+v, want within the limit", m)
	}
}

func TestUniqueRateStrict(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 10, Mode: Strict})
	for i := range 15 {
		measure(t, u, &s, rateStart, item(i))
	}
	if m := measure(t, u, &s, rateStart, item(3)); !m.Over || m.New || m.Rate != 15 {
		t.Errorf("known item of a sender over the limit: %+v, want over at 15", m)
	}
	// The sender gets through again once the rate has decayed: ln(15/10) periods.
	soon := rateStart.Add(time.Duration(math.Log(1.5) * float64(time.Hour)))
	if m := measure(t, u, &s, soon.Add(-time.Second), item(3)); !m.Over {
		t.Errorf("a second too early: %+v, want over", m)
	}
	if m := measure(t, u, &s, soon.Add(time.Second), item(3)); m.Over {
		t.Errorf("a second later: %+v, want within the limit", m)
	}
}

func TestUniqueRateSteadyStream(t *testing.T) {
	// A stream of r per period is measured as r (smoothing is unbiased).
	for _, r := range []float64{1, 3, 50} {
		u, s := testRate(t, UniqueRateConfig{Limit: 1000, Plain: true})
		now := rateStart
		var m RateMeasurement
		for range int(20*r) + 40 {
			now = now.Add(time.Duration(float64(time.Hour) / r))
			m = measure(t, u, &s, now, nil)
		}
		if math.Abs(m.Rate-r) > 0.01*r {
			t.Errorf("steady %g a period measured as %g", r, m.Rate)
		}
	}
}

func TestUniqueRateFilterLivesOnePeriod(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 10})
	measure(t, u, &s, rateStart, item(1))
	if m := measure(t, u, &s, rateStart.Add(time.Hour-1), item(1)); m.New {
		t.Errorf("at the end of the period: %+v, want a known item", m)
	}
	m := measure(t, u, &s, rateStart.Add(time.Hour), item(1))
	// The repeated item a nanosecond before was the key's last event.
	if want := math.Exp(-1) + 1; !m.New || math.Abs(m.Rate-want) > 1e-9 {
		t.Errorf("after the period: %+v, want a new item and rate %g", m, want)
	}
	if n, _ := u.Items(s); math.Abs(n-1) > 0.1 {
		t.Errorf("new filter holds about %g items, want 1", n)
	}
}

// TestUniqueRateOverFull checks the argument for the small filter: once a sender at e times its
// limit stops, its filter is gone before its rate is back at the limit.
func TestUniqueRateOverFull(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 100, Mode: Strict})
	for i := range 400 {
		measure(t, u, &s, rateStart, item(i))
	}
	if rate, _ := u.Rate(s, rateStart); rate < math.E*100 {
		t.Fatalf("rate %g, want more than e x limit", rate)
	}
	for step := range 100 {
		now := rateStart.Add(time.Duration(step) * time.Hour / 50)
		rate, err := u.Rate(s, now)
		if err != nil {
			t.Fatal(err)
		}
		if rate <= 100 && now.Sub(rateStart) < time.Hour {
			t.Fatalf("after %v the rate is %g and the filter still lives", now.Sub(rateStart), rate)
		}
	}
}

func TestUniqueRateClockBackwards(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 10})
	measure(t, u, &s, rateStart, item(1))
	m := measure(t, u, &s, rateStart.Add(-time.Hour), item(2))
	if m.Rate != 2 || !m.Counted {
		t.Errorf("clock one hour back: %+v, want rate 2", m)
	}
}

// TestUniqueRateClockWasAhead writes states while the clock is a year ahead, and then corrects it:
// a sender over its limit must not be blocked for that year.
func TestUniqueRateClockWasAhead(t *testing.T) {
	for _, c := range []UniqueRateConfig{{Limit: 10}, {Limit: 10, Plain: true}, {Limit: 10, Mode: Strict}} {
		u, s := testRate(t, c)
		ahead := rateStart.Add(365 * 24 * time.Hour)
		for i := range 12 {
			measure(t, u, &s, ahead, item(i))
		}
		peeked, err := u.Peek(s, rateStart, item(20), 1)
		if m := measure(t, u, &s, rateStart, item(20)); !m.Over || err != nil || m != peeked {
			t.Errorf("%+v: at once: %+v, peeked %+v, %v; want over", c, m, peeked, err)
		}
		later := rateStart.Add(3 * time.Hour)
		peeked, err = u.Peek(s, later, item(0), 1)
		if m := measure(t, u, &s, later, item(0)); m.Over || !m.New || m.Rate > 3 || err != nil || m != peeked {
			t.Errorf("%+v: three periods later: %+v, peeked %+v, %v; want a new item within the limit", c, m, peeked, err)
		}
		if err := u.Validate(s); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestUniqueRateSettle(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 100})
	for i := range 50 {
		measure(t, u, &s, rateStart, item(i))
	}
	for _, tt := range []struct {
		before time.Duration
		want   bool
	}{{1 - time.Hour, false}, {0, false}, {time.Hour, false}, {2 * time.Hour, true}, {2 * time.Hour, false},
		{time.Hour, true}, {time.Hour, false}} {
		now := rateStart.Add(-tt.before)
		// In the last two cases, the items are a period old.
		if moved, err := u.Settle(&s, now); moved != tt.want || err != nil {
			t.Errorf("%v before: %v, %v, want %v", tt.before, moved, err, tt.want)
		}
	}
	if rate, err := u.Rate(s, rateStart.Add(-time.Hour)); err != nil || math.Abs(rate-50*math.Exp(-1)) > 1e-9 {
		t.Errorf("a period after it was settled: rate %g, %v, want 50/e", rate, err)
	}
	half := s[1:]
	if _, err := u.Settle(&half, rateStart); err == nil {
		t.Error("a state that is too short was settled")
	}
}

func TestUniqueRateIdle(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 100})
	if idle, _ := u.Idle(s, rateStart); !idle {
		t.Error("a new state is not idle")
	}
	for i := range 50 {
		measure(t, u, &s, rateStart, item(i))
	}
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {time.Hour, false}, {3 * time.Hour, false}, {4 * time.Hour, true}} {
		if idle, _ := u.Idle(s, rateStart.Add(tt.after)); idle != tt.want {
			t.Errorf("after %v: idle = %v, want %v", tt.after, idle, tt.want)
		}
	}
}

// TestUniqueRateSwept drops a state whenever it is idle, as a table does every minute, and measures
// a sender whose count per minute is small compared to its limit. The rate must not fall below the
// rate of a state that stays.
func TestUniqueRateSwept(t *testing.T) {
	for _, plain := range []bool{false, true} {
		u, kept := testRate(t, UniqueRateConfig{Limit: 1000, Period: 24 * time.Hour, Plain: plain})
		swept := make([]byte, len(kept))
		random := rand.New(rand.NewPCG(3, 8))
		n := 0
		for now := rateStart; now.Before(rateStart.Add(10 * 24 * time.Hour)); now = now.Add(time.Minute) {
			if idle, err := u.Idle(swept, now); err != nil {
				t.Fatal(err)
			} else if idle {
				clear(swept)
			}
			pause := now.Sub(rateStart)/(24*time.Hour)%4 == 3 // a quiet day, then another burst
			if pause || random.IntN(20) > 0 {
				continue
			}
			for range random.IntN(9) {
				n++
				want, got := measure(t, u, &kept, now, item(n)), measure(t, u, &swept, now, item(n))
				if got.Rate < want.Rate-u.Limit()/100 {
					t.Fatalf("plain %v, %v after the start: rate %.1f, kept %.1f", plain, now.Sub(rateStart), got.Rate, want.Rate)
				}
			}
		}
		if n < 1000 {
			t.Errorf("plain %v: %d events", plain, n)
		}
	}
}

func TestNewUniqueRateRefuses(t *testing.T) {
	ok := UniqueRateConfig{Limit: 10, Period: time.Hour}
	for name, change := range map[string]func(*UniqueRateConfig){
		"negative limit": func(c *UniqueRateConfig) { c.Limit = -1 },
		"NaN limit":      func(c *UniqueRateConfig) { c.Limit = math.NaN() },
		"infinite limit": func(c *UniqueRateConfig) { c.Limit = math.Inf(1) },
		"huge limit":     func(c *UniqueRateConfig) { c.Limit = 1e12 },
		"no period":      func(c *UniqueRateConfig) { c.Period = 0 },
		"unknown mode":   func(c *UniqueRateConfig) { c.Mode = 7 },
		"many hashes":    func(c *UniqueRateConfig) { c.Hashes = MaxHashes + 1 },
		"negative bits":  func(c *UniqueRateConfig) { c.Bits = -1 },
	} {
		c := ok
		change(&c)
		if u, err := NewUniqueRate(c); err == nil || u != nil {
			t.Errorf("%s: got %v, %v, want an error", name, u, err)
		}
	}
}

func TestUniqueRateRefusesForeignState(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 100})
	for i := range 6 {
		measure(t, u, &s, rateStart, item(i))
	}
	for name, bad := range map[string]func(b []byte) []byte{
		"short":           func(b []byte) []byte { return b[:len(b)-1] },
		"long":            func(b []byte) []byte { return append(b, 0) },
		"empty":           func(b []byte) []byte { return nil },
		"negative rate":   func(b []byte) []byte { b[7] |= 0x80; return b },
		"infinite rate":   func(b []byte) []byte { rateState(b).set(math.Inf(1), 5); return b },
		"NaN rate":        func(b []byte) []byte { rateState(b).set(math.NaN(), 5); return b },
		"filter too late": func(b []byte) []byte { rateState(b).setStart(math.MaxInt64); return b },
		"more than fits":  func(b []byte) []byte { b[RateHeader] = 7; return b },
		"no list":         func(b []byte) []byte { return b[:len(b)-printBytes] },
		"bits unbegun":    func(b []byte) []byte { rateState(b).setStart(0); return b },
	} {
		b := bad(bytes.Clone(s))
		before := bytes.Clone(b)
		if _, err := u.Measure(&b, rateStart, item(2), 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error %v, want ErrCorrupt", name, err)
		}
		if !bytes.Equal(b, before) {
			t.Errorf("%s: the refused state was changed", name)
		}
	}
	large, empty := testRate(t, UniqueRateConfig{Limit: 5000})
	for at := RateHeader; at < len(empty); at++ {
		empty[at] = 1 << (at % 8)
		if err := large.Validate(empty); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a bit in byte %d of a filter that was never begun: %v", at, err)
		}
		empty[at] = 0
	}
	for _, n := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := u.Measure(&s, rateStart, item(2), n); err == nil {
			t.Errorf("weight %g was taken", n)
		}
	}
}

// TestUniqueRateTable measures Finch's table of false positives, as printed.
func TestUniqueRateTable(t *testing.T) {
	printed := []float64{170000, 1700, 40, 10.7, 3.2}
	const limit = 200
	u, _ := testRate(t, UniqueRateConfig{Limit: limit, Mode: Strict})
	for i, r := range []float64{1, 2, math.E, 4} {
		hits, asked := 0, 0
		for round := range 20 {
			s := make([]byte, u.StateBytes())
			for j := range int(r * limit) {
				measure(t, u, &s, rateStart, item(round<<20|j))
			}
			for j := range 5000 {
				asked++
				if u.holds(s, u.fingerprint(item(round<<20|1<<19|j))) {
					hits++
				}
			}
		}
		got, want := float64(hits)/float64(asked), 1/printed[i+1]
		if slack := 0.12*want + 4*math.Sqrt(want/float64(asked)); math.Abs(got-want) > slack {
			t.Errorf("rate %.3g: measured %.3g, printed %.3g", r, got, want)
		}
	}
}

func TestUniqueRateStates(t *testing.T) {
	u, _ := testRate(t, UniqueRateConfig{Limit: 10})
	states := map[string][]byte{}
	for i := range 50 {
		s := make([]byte, u.StateBytes())
		for j := range i {
			measure(t, u, &s, rateStart, item(j))
		}
		states[fmt.Sprint("key", i)] = s
	}
	var buf bytes.Buffer
	all := func(yield func(k, s []byte) bool) {
		for k, s := range states {
			if !yield([]byte(k), s) {
				return
			}
		}
	}
	if err := u.EncodeStates(&buf, all); err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	put := func(k, s []byte) error { got[string(k)] = s; return nil }
	if err := u.DecodeStates(bytes.NewReader(buf.Bytes()), 1<<20, put); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(states) {
		t.Fatalf("%d keys, want %d", len(got), len(states))
	}
	for k, s := range states {
		if !bytes.Equal(got[k], s) {
			t.Errorf("%s changed on the way", k)
		}
	}
	none := func(k, s []byte) error { return nil }
	if err := u.DecodeStates(bytes.NewReader(buf.Bytes()), 500, none); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: %v, want ErrTooLarge", err)
	}
	other, _ := testRate(t, UniqueRateConfig{Limit: 10, Period: time.Minute})
	if err := other.DecodeStates(bytes.NewReader(buf.Bytes()), 1<<20, none); !errors.Is(err, ErrCorrupt) {
		t.Errorf("states of another rule: %v, want ErrCorrupt", err)
	}
	bigger, _ := testRate(t, UniqueRateConfig{Limit: 10, Bits: 17})
	if err := bigger.DecodeStates(bytes.NewReader(buf.Bytes()), 1<<20, none); !errors.Is(err, ErrCorrupt) {
		t.Errorf("states of other filters: %v, want ErrCorrupt", err)
	}
	for n := range buf.Len() {
		if err := u.DecodeStates(bytes.NewReader(buf.Bytes()[:n]), 1<<20, none); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
}

// TestUniqueRateStatesOfAnotherSize checks that the size is verified before a state is read, and a
// list against its stated length.
func TestUniqueRateStatesOfAnotherSize(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 1000})
	for i := range 20 {
		measure(t, u, &s, rateStart, item(i))
	}
	lies := bytes.Clone(s)
	rateState(lies).setListed(19)
	for _, tt := range []struct {
		name  string
		size  int64
		state []byte
		ok    bool
	}{
		{"true", int64(len(s)), s, true}, {"shorter", int64(len(s)) - 1, s[:len(s)-1], false},
		{"longest", RateHeader + MaxRateBytes + 1, s, false},
		{"much longer", 1<<32 - 1, s, false}, {"another number", int64(len(s)), lies, false},
		{"plain", RateHeader, s[:RateHeader], false},
	} {
		var buf bytes.Buffer
		w := codec.NewWriter(&buf, codec.RateStates)
		w.Uint64(u.ID())
		w.Uint32(1)
		w.Bytes([]byte("k"))
		w.Uint32(uint32(tt.size))
		w.Bytes(tt.state)
		w.Uint32(rateStatesEnd)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		err := u.DecodeStates(&buf, 1<<30, func(_, got []byte) error {
			if !bytes.Equal(got, s) {
				t.Errorf("%s: another state comes back", tt.name)
			}
			return nil
		})
		if tt.ok != (err == nil) || !tt.ok && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestUniqueRateItems checks that the estimate follows the number of items from none to more than
// the filter can distinguish.
func TestUniqueRateItems(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 100, Mode: Strict})
	for i := range 20_000 {
		got, err := u.Items(s)
		if err != nil || i <= 400 && math.Abs(got-float64(i)) > 2+0.1*float64(i) {
			t.Fatalf("%d items are taken for %g, %v", i, got, err)
		}
		if math.IsInf(got, 0) || got < 0 {
			t.Fatalf("%d items are taken for %g", i, got)
		}
		measure(t, u, &s, rateStart, item(i))
	}
	plain, s := testRate(t, UniqueRateConfig{Limit: 100, Plain: true})
	measure(t, plain, &s, rateStart, item(1))
	if got, err := plain.Items(s); got != 0 || err != nil {
		t.Errorf("items of a rate without filter: %g, %v", got, err)
	}
}

func TestUniqueRateAllocations(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 100})
	x := item(1)
	if n := testing.AllocsPerRun(100, func() { measure(t, u, &s, rateStart, x) }); n != 0 { // the list has room
		t.Errorf("Measure allocates %g times", n)
	}
}

func FuzzRateStates(f *testing.F) {
	u, s := testRate(f, UniqueRateConfig{Limit: 100, Mode: Strict})
	for i := range 150 {
		measure(f, u, &s, rateStart, item(i))
		if i > 5 && i != 60 && i != 149 { // a few, a list, a filter
			continue
		}
		var buf bytes.Buffer
		one := func(yield func(k, s []byte) bool) { yield([]byte("key"), s) }
		if err := u.EncodeStates(&buf, one); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
		f.Add(buf.Bytes()[:20])
	}
	f.Add([]byte("BHPF\x01\x07"))
	f.Fuzz(func(t *testing.T, b []byte) {
		u.DecodeStates(bytes.NewReader(b), 1<<16, func(key, state []byte) error {
			_, err := u.Measure(&state, rateStart, key, 1)
			return err
		})
	})
}

func BenchmarkUniqueRate(b *testing.B) {
	u, s := testRate(b, UniqueRateConfig{Limit: 100})
	x := item(1)
	for b.Loop() {
		if _, err := u.Measure(&s, rateStart, x, 1); err != nil {
			b.Fatal(err)
		}
	}
}
