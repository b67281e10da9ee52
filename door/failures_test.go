package door_test

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// TestFailuresWait: the first five failures of a network cost no wait, and each further one waits
// twice as long as the one before, up to four seconds. Other networks do not wait. Ten minutes
// clear the record.
func TestFailuresWait(t *testing.T) {
	f := door.NewFailures(slog.New(slog.DiscardHandler))
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	a, neighbour, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(
		"::ffff:192.0.2.200"), netip.MustParseAddr("198.51.100.1")
	want := []time.Duration{0, 0, 0, 0, 0, 100, 200, 400, 800, 1600, 3200, 4000, 4000}
	for i, ms := range want {
		from := a
		if i%2 == 1 {
			from = neighbour
		}
		if got := f.Note("http", from, now); got != ms*time.Millisecond {
			t.Errorf("failure %d waits %v, want %v", i+1, got, ms*time.Millisecond)
		}
	}
	for range 100 {
		if got := f.Note("http", a, now); got != 4*time.Second {
			t.Fatalf("waits %v", got)
		}
	}
	if got := f.Note("http", other, now); got != 0 {
		t.Errorf("another network waits %v", got)
	}
	if got := f.Note("http", a, now.Add(10*time.Minute-1)); got != 4*time.Second {
		t.Errorf("just before ten minutes: %v", got)
	}
	if got := f.Note("http", a, now.Add(20*time.Minute)); got != 0 {
		t.Errorf("after ten minutes: %v", got)
	}
	var none *door.Failures
	if got := none.Note("http", a, now); got != 0 {
		t.Errorf("nil waits %v", got)
	}
}

// TestFailuresAreBounded: the table stays bounded however many networks fail,
// and the node goes on.
func TestFailuresAreBounded(t *testing.T) {
	f := door.NewFailures(slog.New(slog.DiscardHandler))
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20000 {
		f.Note("http", netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), now)
		if n := f.Networks(); i < 4096 && n != i+1 || i == 4096 && n != 4096/2+1 {
			t.Fatalf("%d networks of %d, want all, and half of them and the new one once the table is full", n, i+1)
		}
	}
	if n := f.Networks(); n > 4096 || n <= 2048 {
		t.Errorf("%d networks", n)
	}
}

// TestFailuresForgetsTheSilent: a full table loses the networks that have been silent
// for ten minutes, and no other.
func TestFailuresForgetsTheSilent(t *testing.T) {
	f := door.NewFailures(slog.New(slog.DiscardHandler))
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	network := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}) }
	later := now.Add(10 * time.Minute)
	for i := range 4096 {
		at := now
		if i < 1000 {
			at = now.Add(time.Nanosecond)
		}
		for range 6 {
			f.Note("http", network(i), at)
		}
	}
	f.Note("http", network(4096), later)
	if n := f.Networks(); n != 1001 {
		t.Errorf("%d networks are left, want 1001", n)
	}
	for i := range 1000 {
		if f.Note("http", network(i), later) == 0 {
			t.Fatalf("network %d was forgotten", i)
		}
	}
}

// TestFailuresInLog: one line at once, one a minute while failures go on, none after.
func TestFailuresInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		f := door.NewFailures(log.Logger())
		lines := func(n int, text string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(log.String(), "\n"); got != n || !strings.Contains(log.String(), text) {
				t.Errorf("%d lines, want %d with %q:\n%s", got, n, text, log.String())
			}
		}
		a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
		f.Note("http", a, time.Now())
		lines(1, `"log-in failed" door=http network=192.0.2.0`)
		for range 1000 {
			f.Note("razor2", a, time.Now())
		}
		f.Note("http", b, time.Now())
		lines(1, "network=192.0.2.0")
		bubble.Advance(time.Minute)
		lines(2, "failures=1001 doors=\"map[http:1 razor2:1000]\" networks=2 most_from=192.0.2.0 of_it=1000")
		bubble.Advance(time.Hour)
		lines(2, "failures=1001")
		f.Note("http", b, time.Now())
		lines(3, "network=198.51.100.0")
		bubble.Advance(time.Minute)
		lines(3, "")
		for i := range 1 + 5000 { // the first one has its own line
			f.Note("http", netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), time.Now())
		}
		bubble.Advance(time.Minute)
		lines(5, "failures=5000 doors=map[http:5000] networks=4096") // also bounded
		bubble.Advance(time.Minute)
	})
}

// TestSlowEnds: the wait before an answer ends with the context.
func TestSlowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := door.NewFailures(slog.New(slog.DiscardHandler))
		a := netip.MustParseAddr("192.0.2.1")
		begin := time.Now()
		for range 8 {
			f.Slow(t.Context(), "http", a)
		}
		if got := time.Since(begin); got != 700*time.Millisecond {
			t.Errorf("eight failures wait %v, want 0.7 s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin = time.Now()
		f.Slow(ctx, "http", a)
		if got := time.Since(begin); got != 0 {
			t.Errorf("an ended context waits %v", got)
		}
		bubble.Advance(2 * time.Minute) // the log's timer
	})
}
