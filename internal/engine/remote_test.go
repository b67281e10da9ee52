package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// applyParts decodes parts and has e take them.
func applyParts(e *Engine, origin string, parts []Part) error {
	var parsed []Parsed
	for _, p := range parts {
		x, err := e.ParsePart(p)
		if err != nil {
			return err
		}
		parsed = append(parsed, x)
	}
	return e.ApplyRemote(context.Background(), origin, parsed)
}

// pass hands everything that from took since the last call to the replica
// that to keeps of it.
func pass(t *testing.T, from, to *Engine, id string) {
	t.Helper()
	parts, _, err := from.TakeRounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := applyParts(to, id, parts); err != nil {
		t.Fatal(err)
	}
}

// transfer brings the replica that to keeps of from up to now by images.
func transfer(t *testing.T, from, to *Engine, id string) {
	t.Helper()
	for _, a := range from.Own() {
		_, parts, err := from.Images(context.Background(), a.Array, a.Start)
		if err != nil {
			t.Fatal(err)
		}
		if err := applyParts(to, id, parts); err != nil {
			t.Fatal(err)
		}
	}
}

func sameArrays(t *testing.T, from, to *Engine, id string) {
	t.Helper()
	own, replica := from.Own(), to.Replica(id)
	versions := make(map[string]uint64)
	for _, a := range replica {
		versions[fmt.Sprint(a.Array, a.Start)] = a.Version
	}
	for _, a := range own {
		if got := versions[fmt.Sprint(a.Array, a.Start)]; got != a.Version {
			t.Errorf("%s of generation %d: replica at version %d, want %d", a.Array, a.Start, got, a.Version)
		}
	}
}

func pair(t *testing.T, weight float64) (a, b *Engine) {
	t.Helper()
	c := newClock()
	a, b = open(t, Options{Now: c.Now}), open(t, Options{Now: c.Now})
	if err := a.Record(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	if err := b.SetOrigins(context.Background(), []Origin{{ID: "a", Weight: weight}}); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// TestReplica: what one engine takes, the other shows, exactly and at once.
func TestReplica(t *testing.T) {
	a, b := pair(t, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		for range 50 {
			s := []bulkhead.Signature{sig(bulkhead.Exact, rng.IntN(300))}
			report(t, a, bulkhead.Report{Signatures: s, Count: uint32(rng.IntN(40)), Vote: bulkhead.Vote(rng.IntN(3))})
		}
		pass(t, a, b, "a")
	}
	sameArrays(t, a, b, "a")
	for n := range 300 {
		s := sig(bulkhead.Exact, n)
		got, want := verdictOf(t, b, s).Findings[0], verdictOf(t, a, s).Findings[0]
		if got.Sightings != want.Sightings || got.Spam != want.Spam || got.Ham != want.Ham ||
			(got.Judged == bulkhead.JudgedSpam) != (want.Judged == bulkhead.JudgedSpam) {
			t.Fatalf("signature %d: %+v at the peer, %+v at the origin", n, got, want)
		}
	}
}

// TestGap: a round that was lost is noticed, and images close the gap.
func TestGap(t *testing.T) {
	a, b := pair(t, 1)
	r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Vote: bulkhead.Spam}
	report(t, a, r)
	if _, _, err := a.TakeRounds(context.Background()); err != nil { // and lost
		t.Fatal(err)
	}
	r.Signatures[0] = sig(bulkhead.Exact, 2)
	report(t, a, r)
	parts, _, err := a.TakeRounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := applyParts(b, "a", parts); !errors.Is(err, ErrGap) {
		t.Fatalf("round after a gap: %v", err)
	}
	transfer(t, a, b, "a")
	sameArrays(t, a, b, "a")
	for n := 1; n <= 2; n++ {
		if v := verdictOf(t, b, sig(bulkhead.Exact, n)); !v.Spam() || v.SpamVotes != 1 {
			t.Errorf("signature %d after the images: %+v", n, v)
		}
	}
	if err := applyParts(b, "a", parts); !errors.Is(err, ErrGap) {
		t.Errorf("a round the images held already: %v", err)
	}
	report(t, a, bulkhead.Report{Signatures: r.Signatures})
	pass(t, a, b, "a")
	sameArrays(t, a, b, "a")
}

// TestListsByItsOwnDeliveries: a node lists a link by the votes and the deliveries of its own users, so that peers
// learn of it. If peers received the link often and did not report it, it condemns nothing there. A sender is listed by
// the deliveries of all.
func TestListsByItsOwnDeliveries(t *testing.T) {
	link := bulkhead.NamedSignature(bulkhead.Link, "shop.example")
	sender := bulkhead.NamedSignature(bulkhead.Sender, "shop.example")
	for _, tt := range []struct {
		of                  bulkhead.Signature
		here, there, listed int
	}{{link, 5, 200, 1}, {link, 200, 5, 0}, {link, 200, 0, 0}, {link, 5, 0, 1}, {sender, 5, 200, 0}, {sender, 5, 0, 1}} {
		peer, home := pair(t, 1)
		for e, n := range map[*Engine]int{peer: tt.there, home: tt.here} {
			if n > 0 {
				report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{tt.of}, Vote: bulkhead.Sighting,
					Count: uint32(n)})
			}
		}
		pass(t, peer, home, "a")
		for _, user := range []string{"alice", "bob"} {
			put(t, home, user, trust.Trusted, 1, netip.Addr{})
		}
		report(t, home, by("alice", bulkhead.Spam, tt.of))
		if got := report(t, home, by("bob", bulkhead.Spam, tt.of)); got.Listed != tt.listed {
			t.Errorf("%v: %d listed", tt, got.Listed)
		}
		want := tt.listed > 0 && tt.there == 0
		if got := verdictOf(t, home, tt.of).Findings[0].Judged == bulkhead.JudgedSpam; got != want {
			t.Errorf("%v: condemned %v, want %v", tt, got, want)
		}
	}
}

// TestPeerWeights: a peer of half weight lists nothing alone, two of them do;
// a revocation at home, and by a peer, takes the listing back.
func TestPeerWeights(t *testing.T) {
	ctx := context.Background()
	c := newClock()
	peers := []*Engine{open(t, Options{Now: c.Now}), open(t, Options{Now: c.Now})}
	home := open(t, Options{Now: c.Now})
	origins := []Origin{{ID: "a", Weight: 0.5}, {ID: "b", Weight: 0.5}}
	if err := home.SetOrigins(ctx, origins); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	r := bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam}
	for i, p := range peers {
		if err := p.Record(ctx, true); err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			put(t, p, fmt.Sprint("user", n), trust.Trusted, 1, netip.Addr{})
			r.Reporter.Account = fmt.Sprint("user", n)
			report(t, p, r)
		}
		pass(t, p, home, origins[i].ID)
		v := verdictOf(t, home, s)
		if v.Spam() != (i == 1) || v.SpamVotes != uint32(3*(i+1)) {
			t.Errorf("%d peers of half weight with 5 votes each: %+v", i+1, v)
		}
	}
	origins[1].Weight = 0
	if err := home.SetOrigins(ctx, origins); err != nil {
		t.Fatal(err)
	}
	if v := verdictOf(t, home, s); v.Spam() || v.SpamVotes != 3 {
		t.Errorf("one of them in quarantine: %+v", v)
	}
	origins[0].Weight, origins[1].Weight = 1, 1
	if err := home.SetOrigins(ctx, origins); err != nil {
		t.Fatal(err)
	}
	if v := verdictOf(t, home, s); !v.Spam() || v.SpamVotes != 10 {
		t.Errorf("both of full weight: %+v", v)
	}
	revoke := bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Revocation}
	revoked := 0
	for n := range 5 { // each changes their mind
		revoke.Reporter.Account = fmt.Sprint("user", n)
		revoked += report(t, peers[0], revoke).Revoked
	}
	if revoked != 1 {
		t.Fatalf("revoke at a peer: taken off %d times", revoked)
	}
	revoke.Reporter.Account = ""
	pass(t, peers[0], home, "a")
	if v := verdictOf(t, home, s); v.Judged != bulkhead.Revoked {
		t.Errorf("one peer has revoked, one lists: %+v", v)
	}
	other := sig(bulkhead.Exact, 2)
	r.Signatures = []bulkhead.Signature{other}
	r.Reporter.Account = ""
	report(t, peers[1], r)
	pass(t, peers[1], home, "b")
	revoke.Signatures = r.Signatures
	if got := report(t, home, revoke); got.Revoked != 1 {
		t.Fatalf("revoke at home of what a peer lists: %+v", got)
	}
	if v := verdictOf(t, home, other); v.Judged != bulkhead.Revoked {
		t.Errorf("revoked at home: %+v", v)
	}
	if err := home.SetOrigins(ctx, origins[1:]); err != nil {
		t.Fatal(err)
	}
	if v := verdictOf(t, home, s); v.SpamVotes != 5 || home.Replica("a") != nil {
		t.Errorf("after the eviction of a: %+v", v)
	}
}

func TestForgetGenerations(t *testing.T) {
	ctx := context.Background()
	c := newClock()
	a, b := open(t, Options{Now: c.Now}), open(t, Options{Now: c.Now})
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}}
	report(t, a, r)
	pass(t, a, b, "a")
	c.Advance(24 * time.Hour)
	report(t, a, r)
	pass(t, a, b, "a")
	if v := verdictOf(t, b, r.Signatures[0]); v.Sightings != 2 {
		t.Fatalf("%d sightings, want 2", v.Sightings)
	}
	if err := b.ForgetGenerations(ctx, "a", uint64(c.Now().Truncate(24*time.Hour).Unix())); err != nil {
		t.Fatal(err)
	}
	if v := verdictOf(t, b, r.Signatures[0]); v.Sightings != 1 {
		t.Errorf("rolled back to yesterday: %d sightings, want 1", v.Sightings)
	}
	c.Advance(5 * 24 * time.Hour)
	report(t, b, r)
	if n := len(b.Replica("a")); n != 0 {
		t.Errorf("%d arrays of a replica whose generations have all expired", n)
	}
}

func TestRemoteRefusals(t *testing.T) {
	ctx := context.Background()
	a, b := pair(t, 1)
	report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}})
	parts, _, err := a.TakeRounds(ctx)
	if err != nil || len(parts) != 1 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	change := func(f func(*Part)) []Part {
		p := parts[0]
		p.Round = bytes.Clone(p.Round)
		f(&p)
		return []Part{p}
	}
	for name, tt := range map[string]struct {
		origin string
		parts  []Part
		want   error
	}{
		"unknown origin": {"eve", parts, bulkhead.ErrForbidden},
		"array":          {"a", change(func(p *Part) { p.Array = "weights" }), bulkhead.ErrMalformed},
		"wrong kind":     {"a", change(func(p *Part) { p.Array = ArraySpam }), bulkhead.ErrGeometry},
		"huge":           {"a", change(func(p *Part) { p.Geometry.Lines = 1 << 29 }), bulkhead.ErrOverLimit},
		"other key":      {"a", change(func(p *Part) { p.Geometry.KeyID++ }), bulkhead.ErrGeometry},
		"future":         {"a", change(func(p *Part) { p.Start += 1 << 20 }), bulkhead.ErrMalformed},
		"cut":            {"a", change(func(p *Part) { p.Round = p.Round[:len(p.Round)-1] }), bulkhead.ErrMalformed},
		"other count":    {"a", change(func(p *Part) { p.Round[0]++ }), bulkhead.ErrMalformed},
		"other end":      {"a", change(func(p *Part) { p.To++ }), bulkhead.ErrMalformed},
		"empty":          {"a", change(func(p *Part) { p.Round = nil }), bulkhead.ErrMalformed},
		"twice":          {"a", append(change(func(*Part) {}), parts...), bulkhead.ErrMalformed},
	} {
		if err := applyParts(b, tt.origin, tt.parts); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", name, err, tt.want)
		}
	}
	if n := len(b.Replica("a")); n != 0 {
		t.Errorf("refused parts left %d arrays", n)
	}
	for _, bad := range [][]Origin{{{ID: "", Weight: 1}}, {{ID: "../x", Weight: 1}}, {{ID: "a", Weight: 2}},
		{{ID: "a"}, {ID: "a"}}} {
		if err := b.SetOrigins(ctx, bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("origins %+v: %v", bad, err)
		}
	}
}

// TestReplicaRestart: replicas survive a stop without a checkpoint, and one in
// the middle of one, and go on from the version they had.
func TestReplicaRestart(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	a := open(t, Options{Now: c.Now})
	b, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 0.5}})); err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		for n := range 200 {
			report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n*(round+1))},
				Vote: bulkhead.Vote(n % 2)})
		}
		pass(t, a, b, "a")
		if round%2 == 0 {
			writeCheckpoint(t, b)
			continue
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		b.Close(ctx) // fails: its store is gone, as after a crash
		b, st = openDurable(t, dir, Options{Now: c.Now}, nil)
		sameArrays(t, a, b, "a")
		if got := b.Origins(); len(got) != 1 || got[0] != (Origin{ID: "a", Weight: 0.5}) {
			t.Fatalf("origins after a restart: %+v", got)
		}
	}
	if err := errors.Join(b.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestImagesBetweenRounds: images that were made while the origin went on are
// continued by the round in which they were made.
func TestImagesBetweenRounds(t *testing.T) {
	a, b := pair(t, 1)
	add := func(n int) {
		t.Helper()
		report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Vote: bulkhead.Spam})
	}
	for n := range 10 {
		add(n)
	}
	if _, _, err := a.TakeRounds(context.Background()); err != nil { // and lost
		t.Fatal(err)
	}
	add(10)
	transfer(t, a, b, "a")
	add(11)
	transfer(t, a, b, "a")
	add(12)
	parts, _, err := a.TakeRounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	for i := range parts {
		if err := applyParts(b, "a", parts[i:i+1]); err == nil {
			applied++
		} else if !errors.Is(err, ErrGap) {
			t.Fatal(err)
		}
	}
	if applied != 2 {
		t.Errorf("%d of %d rounds continue the images, want one of each array", applied, len(parts))
	}
	sameArrays(t, a, b, "a")
}

// TestManyAdds: what an array took in one interval comes in rounds that fit into a
// message each, however much it was at once.
func TestManyAdds(t *testing.T) {
	a, b := pair(t, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	total := 0
	for range 3 {
		var sigs []bulkhead.Signature
		var n []uint32
		for range maxVotes {
			sigs, n = append(sigs, sig(bulkhead.Exact, rng.Int())), append(n, uint32(1+rng.IntN(1<<20)))
		}
		total += len(sigs)
		if err := a.Count(context.Background(), sigs, n); err != nil {
			t.Fatal(err)
		}
	}
	parts, _, err := a.TakeRounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) < total/maxRound {
		t.Errorf("%d adds in %d rounds, want %d a round at most", total, len(parts), maxRound)
	}
	for i := range parts {
		if len(parts[i].Round) > 400_000 {
			t.Errorf("round of %d bytes, want less than 400,000", len(parts[i].Round))
		}
		if err := applyParts(b, "a", parts[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	sameArrays(t, a, b, "a")
}
