package filter

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testWindow(t testing.TB, c WindowConfig) *Window[*Refined] {
	t.Helper()
	return must(NewWindow(c, freshRefined))(t)
}

func freshRefined() (*Refined, error) {
	f, err := Keyed(Secret{5}, 200, 4)
	if err != nil {
		return nil, err
	}
	return NewRefined(f, FixedCells(8))
}

func decodeRefinedWindow(b []byte, limit int64) (*Window[*Refined], error) {
	decode := func(r io.Reader, limit int64) (*Refined, error) { return DecodeRefined(r, limit, Secret{5}) }
	return DecodeWindow(bytes.NewReader(b), limit, freshRefined, decode)
}

func encodeWindow(t testing.TB, w *Window[*Refined]) []byte {
	t.Helper()
	var buf bytes.Buffer
	encode := func(f *Refined, out io.Writer) error { return f.Encode(out) }
	if err := w.Encode(&buf, encode); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestWindowOracle compares counts with a list of (time, element, count), at
// any time, and after a round trip.
func TestWindowOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := WindowConfig{Period: time.Hour, Keep: rapid.IntRange(1, 5).Draw(rt, "keep")}
		w := testWindow(t, c)
		type event struct {
			at   time.Time
			x    byte
			n    uint32
			gone bool
		}
		var events []event
		now := rateStart
		for range rapid.IntRange(1, 40).Draw(rt, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(rt, "minutes")) * time.Minute)
			x, n := rapid.Byte().Draw(rt, "x")%10, uint32(rapid.IntRange(1, 9).Draw(rt, "n"))
			f, err := w.At(now)
			if err != nil {
				rt.Fatal(err)
			}
			f.Insert([]byte{x}, n)
			events = append(events, event{now, x, n, false})
		}
		if rapid.Bool().Draw(rt, "codec") {
			var err error
			if w, err = decodeRefinedWindow(encodeWindow(t, w), 1<<16); err != nil {
				rt.Fatal(err)
			}
		}
		oldest := now.Truncate(time.Hour).Add(-time.Duration(c.Keep-1) * time.Hour)
		for x := range byte(10) {
			var want uint32
			var first time.Time
			for _, e := range events {
				if e.x == x && !e.at.Before(oldest) {
					want += e.n
					if first.IsZero() {
						first = e.at.Truncate(time.Hour)
					}
				}
			}
			has := func(f *Refined) bool { return f.Count([]byte{x}) > 0 }
			got := w.Sum(func(f *Refined) uint32 { return f.Count([]byte{x}) })
			if got < want {
				rt.Fatalf("count %d, inserted %d in the last %d hours", got, want, c.Keep)
			}
			if want > 0 && !w.Any(has) {
				rt.Fatal("element not found in any generation")
			}
			if at, ok := w.First(has); want > 0 && (!ok || at.After(first)) {
				rt.Fatalf("first seen %v, want at most %v", at, first)
			}
		}
		for _, g := range w.Live() {
			if g.Start.Before(oldest) {
				rt.Fatalf("generation of %v lives at %v", g.Start, now)
			}
		}
	})
}

func TestWindowClockBackwards(t *testing.T) {
	w := testWindow(t, WindowConfig{Period: time.Hour, Keep: 2})
	a := must(w.At(rateStart))(t)
	b := must(w.At(rateStart.Add(-10 * time.Hour)))(t)
	if a != b || len(w.Live()) != 1 {
		t.Error("a clock set back began a generation")
	}
}

func TestWindowIdle(t *testing.T) {
	now := rateStart.Add(4 * time.Hour)
	// Start times are cut to the hour, so those of hours 0 and 1 are idle for
	// 3 hours or more; hour 0 is touched.
	first := rateStart.Truncate(time.Hour)
	w := testWindow(t, WindowConfig{Period: time.Hour, Keep: 100, Idle: 3 * time.Hour})
	for h := range 5 {
		at := rateStart.Add(time.Duration(h) * time.Hour)
		must(w.At(at))(t)
		w.Touch(first, at)
	}
	var left []int
	for _, g := range w.Live() {
		left = append(left, int(now.Truncate(time.Hour).Sub(g.Start).Hours()))
	}
	if want := []int{0, 1, 2, 4}; !slices.Equal(left, want) {
		t.Errorf("ages in hours of the live generations: %v, want %v", left, want)
	}
}

func TestWindowRefuses(t *testing.T) {
	for _, c := range []WindowConfig{
		{}, {Period: time.Hour}, {Keep: 1}, {Period: time.Millisecond, Keep: 1}, {Period: time.Hour, Keep: 5000},
		{Period: time.Hour, Keep: 1, Idle: -1},
	} {
		if _, err := NewWindow(c, freshRefined); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if _, err := NewWindow[*Refined](WindowConfig{Period: time.Hour, Keep: 1}, nil); err == nil {
		t.Error("a window without filters was made")
	}
	broken := errors.New("out of memory")
	w := must(NewWindow(WindowConfig{Period: time.Hour, Keep: 1}, func() (int, error) { return 0, broken }))(t)
	if _, err := w.At(rateStart); !errors.Is(err, broken) || len(w.Live()) != 0 {
		t.Errorf("At = %v with %d generations", err, len(w.Live()))
	}
}

func TestWindowCodec(t *testing.T) {
	w := testWindow(t, WindowConfig{Period: time.Hour, Keep: 3, Idle: 9 * time.Hour})
	for h := range 3 {
		must(w.At(rateStart.Add(time.Duration(h)*time.Hour)))(t).Insert([]byte("x"), 7)
	}
	good := encodeWindow(t, w)
	got, err := decodeRefinedWindow(good, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	if got.config != w.config || !bytes.Equal(encodeWindow(t, got), good) {
		t.Error("changed on the way")
	}
	for n := range good {
		if _, err := decodeRefinedWindow(good[:n], 1<<16); err == nil {
			t.Fatalf("cut to %d bytes: no error", n)
		}
	}
	for n := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[n/8] ^= 1 << (n % 8)
		if w, err := decodeRefinedWindow(bad, 1<<16); err == nil || w != nil {
			t.Fatalf("bit %d flipped goes unnoticed", n)
		}
	}
	if _, err := decodeRefinedWindow(good, 300); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func FuzzWindow(f *testing.F) {
	w := testWindow(f, WindowConfig{Period: time.Hour, Keep: 3})
	must(w.At(rateStart))(f).Insert([]byte("x"), 7)
	must(w.At(rateStart.Add(time.Hour)))(f)
	f.Add(encodeWindow(f, w))
	f.Add([]byte("BHPF\x01\x08"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if w, err := decodeRefinedWindow(b, 1<<20); err == nil {
			w.Expire(rateStart)
			w.Sum(func(f *Refined) uint32 { return f.Count([]byte("x")) })
		}
	})
}

// TestWindowExtremes takes the longest periods with the most generations: the
// newest one is there, and the oldest lives as long as it may.
func TestWindowExtremes(t *testing.T) {
	for _, period := range []time.Duration{time.Second, 24 * time.Hour, 28 * 24 * time.Hour, 366 * 24 * time.Hour, 1<<63 - 1} {
		for _, keep := range []int{1, 2, 4096} {
			w, err := NewWindow(WindowConfig{Period: period, Keep: keep}, func() (*int, error) { return new(int), nil })
			if err != nil {
				t.Fatal(err)
			}
			now := time.Unix(1_800_000_000, 0)
			for i := range 5 {
				if _, err := w.At(now); err != nil {
					t.Fatal(err)
				}
				begun := int(now.Sub(w.Live()[len(w.Live())-1].Start)/period) + 1
				if n := len(w.Live()); n < 1 || n > keep || begun > keep || period < 1<<62 && n != min(i+1, keep) {
					t.Errorf("period %v, keep %d: %d generations after %d periods", period, keep, n, i)
				}
				now = now.Add(min(period, 400*24*time.Hour))
			}
		}
	}
}
