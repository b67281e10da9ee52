package engine

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestReporters: of many accounts those who reported are found, all of them and
// no others, and few others are asked for.
func TestReporters(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Votes: 50_000})
	const accounts, signatures = 2000, 30
	rng := rand.New(rand.NewPCG(1, 2))
	name := func(i int) string { return fmt.Sprintf("member%d", i) }
	for i := range accounts {
		put(t, e, name(i), trust.Member, 0.001, netip.Addr{})
	}
	var want [signatures][]string
	for day := range 3 {
		if day > 0 {
			c.Advance(24 * time.Hour)
		}
		for s := range signatures {
			for range 1 + rng.IntN(4) {
				who := name(rng.IntN(accounts))
				report(t, e, by(who, bulkhead.Spam, sig(bulkhead.Exact, s)))
				if !slices.Contains(want[s], who) {
					want[s] = append(want[s], who)
				}
			}
		}
	}
	put(t, e, "late", trust.Member, 0.001, netip.Addr{})
	report(t, e, by("late", bulkhead.Spam, sig(bulkhead.Exact, 0)))
	want[0] = append(want[0], "late")
	for s := range signatures {
		var got []string
		asked := 0
		e.between(func() {
			e.resolver.begin(e.view())
			key := sig(bulkhead.Exact, s)
			base := baseKey(testSecret, &key)
			asked = len(e.resolver.suspects(base))
			e.resolver.eachReporter(base, func(name string, _ int) { got = append(got, name) })
		})
		slices.Sort(got)
		slices.Sort(want[s])
		if !slices.Equal(got, want[s]) {
			t.Errorf("signature %d: found %v, want %v", s, got, want[s])
		}
		if asked > accounts/10 {
			t.Errorf("signature %d: %d of %d accounts asked for, with %d reporters", s, asked, accounts, len(want[s]))
		}
	}
}
