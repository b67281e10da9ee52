package resolve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestReporters checks that exactly those of many accounts are found who reported, and that
// few others are asked for.
func TestReporters(t *testing.T) {
	b := newBooks(t)
	const accounts, signatures = 2000, 30
	rng := rand.New(rand.NewPCG(1, 2))
	name := func(i int) string { return fmt.Sprintf("member%d", i) }
	for i := range accounts {
		b.put(name(i), trust.Member, 0.001)
	}
	var want [signatures][]string
	for day := range 3 {
		if day > 0 {
			b.pass(24 * time.Hour)
		}
		for s := range signatures {
			for range 1 + rng.IntN(4) {
				who := name(rng.IntN(accounts))
				b.report(by(who, bulkhead.Spam, sig(bulkhead.Exact, s)))
				if !slices.Contains(want[s], who) {
					want[s] = append(want[s], who)
				}
			}
		}
	}
	b.begin()
	first := sig(bulkhead.Exact, 0)
	b.r.suspects(maker.Base(&first)) // from now on it knows the accounts
	b.put("late", trust.Member, 0.001)
	b.report(by("late", bulkhead.Spam, sig(bulkhead.Exact, 0)))
	want[0] = append(want[0], "late")
	b.begin()
	for s := range signatures {
		var got []string
		one := sig(bulkhead.Exact, s)
		base := maker.Base(&one)
		asked := len(b.r.suspects(base))
		b.r.eachReporter(base, func(name string, _ int) { got = append(got, name) })
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
