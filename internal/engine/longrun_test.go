package engine

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// put adds an account that lives in a network of its own.
func put(t testing.TB, e *Engine, name string, role trust.Role, weight float64, from netip.Addr) {
	t.Helper()
	if err := e.PutAccount(t.Context(), trust.Account{Name: name, Role: role, Weight: weight, From: from}); err != nil {
		t.Fatal(err)
	}
}

func by(name string, vote bulkhead.Vote, sigs ...bulkhead.Signature) bulkhead.Report {
	return bulkhead.Report{Signatures: sigs, Vote: vote, Reporter: bulkhead.Reporter{Account: name}}
}

// TestAttackOverDays: a voter who votes again every day is counted every day,
// and weighs no more than on the first one. A week of patience is worth no
// accounts.
func TestAttackOverDays(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("exact=%v", exact), func(t *testing.T) {
			c := newClock()
			days := BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 20_000, Error: 1e-3}
			e := open(t, Options{Now: c.Now, Exact: exact, Tally: days, Block: days})
			s := sig(bulkhead.Exact, 1)
			const socks = 19
			for i := range socks {
				put(t, e, fmt.Sprintf("sock%d", i), trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(i), 1}))
			}
			put(t, e, "half", trust.Trusted, 0.5, netip.Addr{})
			for day := range 20 {
				for i := range socks {
					if got := report(t, e, by(fmt.Sprintf("sock%d", i), bulkhead.Spam, s)); got.Counted != 1 || got.Listed != 0 {
						t.Fatalf("day %d, account %d of weight 0.05: %+v, want it counted and not listed", day, i, got)
					}
				}
				other := sig(bulkhead.Exact, 2)
				if got := report(t, e, by("half", bulkhead.Spam, other)); got.Listed != 0 {
					t.Fatalf("day %d: one reporter of weight 0.5 lists alone", day)
				}
				if got := verdictOf(t, e, s); got.SpamVotes != uint32(socks*min(day+1, 7)) {
					t.Fatalf("day %d: %d spam votes, want those of the days that live", day, got.SpamVotes)
				}
				c.Advance(24 * time.Hour)
			}
			for i := range 100 {
				name := fmt.Sprintf("more%d", i)
				put(t, e, name, trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 19, byte(i), 1}))
				if got := report(t, e, by(name, bulkhead.Spam, s)); got.Listed != 0 {
					t.Fatalf("%d more accounts for whom nobody vouches: %+v, want them to list nothing", i+1, got)
				}
			}
			if got := report(t, e, by("half", bulkhead.Spam, s)); got.Listed != 1 {
				t.Errorf("with the half of a trusted account: %+v, want it listed", got)
			}
		})
	}
}

// TestWeightRises: the next vote of an account that an administrator has given
// more weight weighs as much as the account does now.
func TestWeightRises(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	s := sig(bulkhead.Exact, 1)
	put(t, e, "alice", trust.Member, 0.05, netip.Addr{})
	if got := report(t, e, by("alice", bulkhead.Spam, s)); got.Pending != 1 {
		t.Fatalf("a vote of weight 0.05: %+v", got)
	}
	put(t, e, "alice", trust.Trusted, 1, netip.Addr{})
	c.Advance(24 * time.Hour)
	if got := report(t, e, by("alice", bulkhead.Spam, s)); got.Listed != 1 {
		t.Errorf("a vote of weight 1 on the next day: %+v, want it listed", got)
	}
}

// TestCreditOnce: a report is one report, however many confirm it, however often.
func TestCreditOnce(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now})
	spam := []bulkhead.Signature{sig(bulkhead.Exact, 1), sig(bulkhead.RazorE8, 1)}
	put(t, e, "alice", trust.Member, 0.05, netip.Addr{})
	report(t, e, by("alice", bulkhead.Spam, spam...))
	for i := range 10 {
		name := fmt.Sprintf("trusted%d", i)
		put(t, e, name, trust.Trusted, 1, netip.Addr{})
		report(t, e, by(name, bulkhead.Spam, spam...))
	}
	c.Advance(24 * time.Hour)
	report(t, e, by("trusted0", bulkhead.Spam, spam...))
	if a, _ := e.Accounts().Get("alice"); a.Confirmed != 1 {
		t.Errorf("one report, confirmed by 10 on two days, counts as %d confirmed reports", a.Confirmed)
	}
	report(t, e, by("alice", bulkhead.Spam, sig(bulkhead.Exact, 2)))
	report(t, e, by("trusted0", bulkhead.Spam, sig(bulkhead.Exact, 2)))
	if a, _ := e.Accounts().Get("alice"); a.Confirmed != 2 {
		t.Errorf("a second report, confirmed: %d confirmed reports, want 2", a.Confirmed)
	}
}

// TestBlameOnce: a report that was revoked is not to blame when others list the
// same again; one that was made after the revocation is.
func TestBlameOnce(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Block: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 10_000,
		Error: 1e-6}})
	s := sig(bulkhead.Exact, 1)
	put(t, e, "alice", trust.Member, 0.05, netip.Addr{})
	for _, name := range []string{"bob", "carol", "dave", "erin", "frank", "grace"} {
		put(t, e, name, trust.Trusted, 1, netip.Addr{})
	}
	report(t, e, by("alice", bulkhead.Spam, s))
	report(t, e, by("bob", bulkhead.Spam, s))
	if got := report(t, e, by("carol", bulkhead.Revocation, s)); got.Revoked != 1 {
		t.Fatalf("revocation: %+v", got)
	}
	c.Advance(24 * time.Hour)
	if got := report(t, e, by("dave", bulkhead.Spam, s)); got.Listed != 1 {
		t.Fatalf("dave reports again: %+v", got)
	}
	if got := report(t, e, by("carol", bulkhead.Revocation, s)); got.Revoked != 0 || got.Pending != 1 {
		t.Fatalf("one revocation, repeated, against two reports: %+v", got)
	}
	if got := report(t, e, by("erin", bulkhead.Revocation, s)); got.Revoked != 1 {
		t.Fatalf("second revocation: %+v", got)
	}
	if a, _ := e.Accounts().Get("alice"); a.Reverted != 1 {
		t.Errorf("one report, revoked once and not repeated: %d reverted reports", a.Reverted)
	}
	c.Advance(24 * time.Hour)
	report(t, e, by("alice", bulkhead.Spam, s))
	report(t, e, by("bob", bulkhead.Spam, s))
	report(t, e, by("frank", bulkhead.Spam, s))
	if got := report(t, e, by("grace", bulkhead.Revocation, s)); got.Revoked != 1 {
		t.Fatalf("third revocation: %+v", got)
	}
	if a, _ := e.Accounts().Get("alice"); a.Reverted != 2 {
		t.Errorf("a report that was repeated and revoked again: %d reverted reports, want 2", a.Reverted)
	}
}

// TestHeavierSide: a revocation that came before the reports weighs against them, and
// weighs no more when it is repeated.
func TestHeavierSide(t *testing.T) {
	e := open(t, Options{})
	s := sig(bulkhead.Exact, 1)
	for _, name := range []string{"admin", "bob", "carol"} {
		put(t, e, name, trust.Trusted, 1, netip.Addr{})
	}
	if got := report(t, e, by("admin", bulkhead.Revocation, s)); got != (bulkhead.Receipt{Counted: 1}) {
		t.Fatalf("a revocation of what is not listed: %+v", got)
	}
	report(t, e, by("bob", bulkhead.Spam, s))
	if got := report(t, e, by("carol", bulkhead.Spam, s)); got.Listed != 1 {
		t.Fatalf("two reports against one revocation: %+v, want it listed", got)
	}
	if got := report(t, e, by("admin", bulkhead.Revocation, s)); got != (bulkhead.Receipt{Duplicate: 1}) {
		t.Errorf("the revocation again: %+v, want a duplicate", got)
	}
	if v := verdictOf(t, e, s); !v.Spam() {
		t.Errorf("two reports against one revocation: %+v, want spam", v)
	}
	if got := report(t, e, by("carol", bulkhead.Revocation, s)); got != (bulkhead.Receipt{Counted: 1, Revoked: 1}) {
		t.Errorf("carol has changed her mind: %+v, want it revoked", got)
	}
	if v := verdictOf(t, e, s); v.Judged != bulkhead.Revoked {
		t.Errorf("verdict %+v, want it revoked", v)
	}
}

// TestPeerListingStaysThePeers: a small vote on what only a peer lists does not
// make it a listing of the node's own, which would outlive the peer.
func TestPeerListingStaysThePeers(t *testing.T) {
	ctx := t.Context()
	c := newClock()
	peer, home := open(t, Options{Now: c.Now}), open(t, Options{Now: c.Now})
	if err := home.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := peer.Record(ctx, true); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	report(t, peer, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam})
	pass(t, peer, home, "a")
	if v := verdictOf(t, home, s); !v.Spam() {
		t.Fatalf("listed by a peer of full weight: %+v", v)
	}
	put(t, home, "alice", trust.Member, 0.05, netip.Addr{})
	if got := report(t, home, by("alice", bulkhead.Spam, s)); got != (bulkhead.Receipt{Counted: 1, Pending: 1}) {
		t.Errorf("a vote of weight 0.05: %+v, want it pending", got)
	}
	if v := verdictOf(t, home, s); !v.Spam() {
		t.Errorf("while the peer lists it: %+v", v)
	}
	if err := home.SetOrigins(ctx, []Origin{{ID: "a", Weight: 0}}); err != nil {
		t.Fatal(err)
	}
	if v := verdictOf(t, home, s); v.Spam() {
		t.Errorf("the peer in quarantine: %+v, want its listing gone with it", v)
	}
}

// TestSmallestPromotion: with the least promotion weight that can be set, a vote
// without any weight still lists and revokes nothing.
func TestSmallestPromotion(t *testing.T) {
	policy := trust.DefaultPolicy()
	policy.Promotion = 0.001
	e := open(t, Options{Trust: policy})
	put(t, e, "nobody", trust.Trusted, 0, netip.Addr{})
	put(t, e, "bob", trust.Trusted, 0.01, netip.Addr{})
	s := sig(bulkhead.Exact, 1)
	if got := report(t, e, by("nobody", bulkhead.Spam, s)); got.Listed != 0 {
		t.Errorf("a spam vote of weight 0: %+v, want it pending", got)
	}
	if got := report(t, e, by("bob", bulkhead.Spam, s)); got.Listed != 1 {
		t.Errorf("a spam vote of weight 0.01: %+v, want it listed", got)
	}
	if got := report(t, e, by("nobody", bulkhead.Revocation, s)); got.Revoked != 0 {
		t.Errorf("a revocation of weight 0: %+v, want it pending", got)
	}
}

// reportThousand reports the first thousand signatures as spam.
func reportThousand(t *testing.T, e *Engine) {
	t.Helper()
	var sigs []bulkhead.Signature
	for i := range 1000 {
		sigs = append(sigs, sig(bulkhead.Exact, i))
	}
	report(t, e, bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam})
}

// TestOddsFollowOrigins: the stated probability of an error takes a replica in as
// soon as it counts, though no key is new.
func TestOddsFollowOrigins(t *testing.T) {
	ctx := t.Context()
	peer, home := pair(t, 0)
	reportThousand(t, peer)
	pass(t, peer, home, "a")
	home.checker.Measure()
	if err := home.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	home.checker.Measure()
	o := home.checker.Odds()
	count, listing := o.Count(1), o.Finding(&bulkhead.Finding{Judged: bulkhead.JudgedSpam})
	if count < 1e-20 || listing < 1e-20 { // what stands for none
		t.Errorf("odds of a count of 1 are %v, of a listing %v, want those of the peer's arrays", count, listing)
	}
}

// TestPeersAddUp: the weights of peers that agree are added up as people add
// them: 0.7, 0.2 and 0.1 are the promotion weight, though not in binary.
func TestPeersAddUp(t *testing.T) {
	ctx := t.Context()
	c := newClock()
	home := open(t, Options{Now: c.Now})
	origins := []Origin{{ID: "a", Weight: 0.7}, {ID: "b", Weight: 0.2}, {ID: "c", Weight: 0.1}}
	if err := home.SetOrigins(ctx, origins); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	for i, o := range origins {
		peer := open(t, Options{Now: c.Now})
		if err := peer.Record(ctx, true); err != nil {
			t.Fatal(err)
		}
		report(t, peer, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam})
		pass(t, peer, home, o.ID)
		if v := verdictOf(t, home, s); v.Spam() != (i == 2) {
			t.Errorf("listed by %d of the peers: %+v", i+1, v)
		}
	}
	if got := report(t, home, bulkhead.Report{Signatures: []bulkhead.Signature{s},
		Vote: bulkhead.Revocation}); got.Revoked != 1 {
		t.Errorf("revocation of what the peers list: %+v", got)
	}
}

// TestForgedKeys: images say how many keys are in them, and peers are judged
// by that. One that says less than its cells show, or so much that the sum
// over the pages overflows, is refused.
func TestForgedKeys(t *testing.T) {
	ctx := t.Context()
	peer, home := pair(t, 1)
	reportThousand(t, peer)
	for _, a := range peer.Own() {
		if a.Array == ArrayRevoked {
			continue // empty
		}
		_, parts, err := peer.Images(ctx, a.Array, a.Start)
		if err != nil {
			t.Fatal(err)
		}
		m, err := arrays.ParseImage(parts[0].Image, a.Geometry)
		if err != nil {
			t.Fatal(err)
		}
		for _, keys := range []uint64{0, m.Info.Keys / 4, 1 << 63, math.MaxUint64} {
			m.Info.Keys = keys
			forged := parts[0]
			forged.Image = m.Append(nil)
			if err := applyParts(home, "a", []Part{forged}); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%s, page of %d keys: %v, want it refused", a.Array, keys, err)
			}
		}
	}
	if v := verdictOf(t, home, sig(bulkhead.Exact, 0)); v.Findings[0].Known() {
		t.Errorf("after forged images: %+v", v)
	}
}

// TestMostKeys: a peer whose image states the most keys allowed, and who then
// sends more, leaves a replica that the next start can read.
func TestMostKeys(t *testing.T) {
	ctx := t.Context()
	c := newClock()
	peer := open(t, Options{Now: c.Now})
	if err := peer.Record(ctx, true); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	home, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	if err := home.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	own := peer.Own()[0]
	_, parts, err := peer.Images(ctx, own.Array, own.Start)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for bit := range 64 {
		for i := range parts {
			m, err := arrays.ParseImage(parts[i].Image, own.Geometry)
			if err != nil {
				t.Fatal(err)
			}
			m.Info.Keys, m.Info.Version = 1<<bit, 0
			forged := parts[i]
			forged.Image = m.Append(nil)
			if applyParts(home, "a", []Part{forged}) == nil {
				taken++
			}
		}
	}
	if taken == 0 {
		t.Fatal("no image was taken")
	}
	for i := range 100 {
		report(t, peer, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i)}})
	}
	pass(t, peer, home, "a")
	if err := errors.Join(home.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
	home, st = openDurable(t, dir, Options{Now: c.Now}, nil)
	if v := verdictOf(t, home, sig(bulkhead.Exact, 1)); v.Sightings != 1 {
		t.Errorf("after a restart: %d sightings, want 1", v.Sightings)
	}
	if err := errors.Join(home.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}
