package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestGatherings: where voters gather whose weight decides nothing, the log says so when
// they are 5, 10 and 20, for each side, and not where votes have their way.
func TestGatherings(t *testing.T) {
	for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham, bulkhead.Revocation} {
		var log bytes.Buffer
		c := newClock()
		e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
		votersOf(t, e)
		s := sig(bulkhead.Exact, 1)
		if vote != bulkhead.Spam {
			for _, name := range []string{"a", "b"} {
				report(t, e, by(name, bulkhead.Spam, s))
			}
		}
		var want []int
		for n := 1; n <= 23; n++ {
			name := fmt.Sprint("stranger-", n)
			put(t, e, name, trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(100 + n), 1}))
			r := by(name, vote, s)
			report(t, e, r)
			report(t, e, r) // once more is nobody more
			if n == 5 || n == 10 || n == 20 {
				want = append(want, n)
			}
			if got := strings.Count(log.String(), "voters="); got != len(want) {
				t.Fatalf("%v: %d lines after %d voters, want %d:\n%s", vote, got, n, len(want), log.String())
			}
		}
		if !strings.Contains(log.String(), "latest=stranger-20") || !strings.Contains(log.String(), fmt.Sprint("vote=", vote)) {
			t.Errorf("%v: %s", vote, log.String())
		}
		if got := e.Info().Gatherings; got != 3 {
			t.Errorf("%v: %d counted, want 3", vote, got)
		}
	}
}

// TestGatheringsFillNoLog: many quarrels make few lines, and the next line
// says how many were left out.
func TestGatheringsFillNoLog(t *testing.T) {
	var log bytes.Buffer
	c := newClock()
	e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	votersOf(t, e)
	for n := range 5 {
		put(t, e, fmt.Sprint("stranger-", n), trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(100 + n), 1}))
	}
	quarrel := func(text int) {
		for n := range 5 {
			report(t, e, by(fmt.Sprint("stranger-", n), bulkhead.Spam, sig(bulkhead.Exact, text)))
		}
	}
	for text := range 100 {
		quarrel(text)
	}
	if got := strings.Count(log.String(), "voters="); got != 10 {
		t.Errorf("%d lines of 100 quarrels at once, want 10", got)
	}
	c.Advance(time.Minute)
	if quarrel(1000); !strings.Contains(log.String(), "unsaid=90") {
		t.Errorf("the next line does not say how many are missing: %s", log.String())
	}
}
