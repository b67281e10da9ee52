package engine

import (
	"net/netip"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestOwnRevocation: a user who takes back their own report keeps their
// weight, and a user of the node itself keeps what was given when another
// revokes: the next report lists as the one before.
func TestOwnRevocation(t *testing.T) {
	e := open(t, Options{})
	local := netip.MustParseAddr("127.0.0.1")
	for _, name := range []string{"ana", "bob"} {
		a := trust.Account{Name: name, Role: trust.Member, Weight: 1, Created: time.Unix(1, 0), From: local, Person: name}
		if err := e.PutAccount(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	by := func(name string, vote bulkhead.Vote, sigs ...bulkhead.Signature) bulkhead.Report {
		return bulkhead.Report{Signatures: sigs, Vote: vote, Reporter: bulkhead.Reporter{Account: name, Addr: local}}
	}
	for n := range 5 {
		s := []bulkhead.Signature{sig(bulkhead.RazorE4, 2*n), sig(bulkhead.RazorE8, 2*n)}
		if got := report(t, e, by("ana", bulkhead.Spam, s...)); got.Listed != 2 {
			t.Fatalf("report %d: %+v, want both signatures listed", n, got)
		}
		if got, err := e.Report(t.Context(), by("ana", bulkhead.Revocation, s...)); err != nil || got.Revoked != 2 {
			t.Fatalf("revocation %d: %+v, %v, want both signatures revoked", n, got, err)
		}
	}
	s := sig(bulkhead.RazorE4, 100)
	report(t, e, by("ana", bulkhead.Spam, s))
	if got, err := e.Report(t.Context(), by("bob", bulkhead.Revocation, s)); err != nil || got.Revoked != 1 {
		t.Fatalf("revocation by another: %+v, %v", got, err)
	}
	if a, _ := e.Accounts().Get("ana"); a.Reverted != 1 {
		t.Errorf("%d reverted reports, want the one that another revoked", a.Reverted)
	}
	if got := report(t, e, by("ana", bulkhead.Spam, sig(bulkhead.RazorE4, 101))); got.Listed != 1 {
		t.Errorf("report after another's revocation: %+v, want it listed", got)
	}
}
