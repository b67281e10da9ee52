package resolve

import (
	"net/netip"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestStrangersKeepNothingListed checks that what a root listed is off the list when that
// vote has aged out, however often strangers have said the same since.
func TestStrangersKeepNothingListed(t *testing.T) {
	for _, who := range []string{"", "x", "a"} {
		b := newBooks(t)
		voters(b)
		policy := trust.DefaultPolicy()
		policy.Anonymous = 0.2
		b.accounts.SetPolicy(policy)
		b.report(by("a", bulkhead.Spam, sig(bulkhead.Exact, 1)))
		for week := range 12 {
			r := by(who, bulkhead.Spam, sig(bulkhead.Exact, 1))
			if who == "" {
				r.Reporter.Addr = netip.AddrFrom4([4]byte{198, 51, 100, 1})
			}
			b.report(r)
			b.pass(7 * day)
			listed := b.of(sig(bulkhead.Exact, 1)).Own == verdict.Listed
			if want := week < 7 || who == "a"; listed != want {
				t.Errorf("%q goes on for %d weeks: listed %v", who, week+1, listed)
			}
		}
	}
}
