package mesh

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestRolledBack checks that a rollback records its range of generations and drops them, and that
// only the newest ranges are kept.
func TestRolledBack(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role = role })
			now := uint64(time.Now().Unix())
			r.Engine.Held = []engine.ArrayState{{Start: now - 5}, {Start: now + 60}}
			refused := func() []member.Stretch { return r.Members[r.Peer.Hint()].Refused }
			if err := r.RollbackPeer(t.Context(), r.Peer.ID(), time.Unix(int64(now)+1, 0)); !errors.Is(err,
				bulkhead.ErrMalformed) || refused() != nil || r.Engine.Forgotten != nil {
				t.Errorf("to the future: %v", err)
			}
			if err := r.RollbackPeer(t.Context(), r.Peer.ID(), time.Unix(int64(now), 0)); err != nil ||
				!slices.Equal(refused(), []member.Stretch{{From: now, To: now + 60}}) {
				t.Errorf("to now: %v, %v", err, refused())
			}
			if got := len(r.Engine.Forgotten); got != map[member.Role]int{member.Both: 1,
				member.Publish: 0}[role] || got == 1 && r.Engine.Forgotten[0] != now {
				t.Errorf("%s: forgotten since %v", role, r.Engine.Forgotten)
			}
			r.Engine.Held = nil
			for n := range 64 {
				if err := r.RollbackPeer(t.Context(), r.Peer.ID(), time.Unix(int64(n)-1, 0)); err != nil {
					t.Fatal(err)
				}
				if want := min(n+2, 64); len(refused()) != want || refused()[want-1] != (member.Stretch{From: uint64(max(n-1, 0)),
					To: now}) {
					t.Errorf("%d stretches, the last %v; want %d", len(refused()), refused()[len(refused())-1], want)
				}
			}
			if refused()[0] != (member.Stretch{From: 0, To: now}) {
				t.Errorf("the oldest is %v", refused()[0])
			}
			if err := r.RollbackPeer(t.Context(), r.Status().ID, time.Now()); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("of who is no peer: %v", err)
			}
			saved, err := member.LoadPeers(r.opts.Dir)
			if err != nil || len(saved) != 1 || !slices.Equal(saved[0].Refused, refused()) {
				t.Errorf("saved %+v, %v", saved, err)
			}
		}
	})
}

// TestPeersFile checks that a list with a repeated peer, or with a missing or impossible key, is
// refused.
func TestPeersFile(t *testing.T) {
	one, two := meshtest.Identity(t).ID(), meshtest.Identity(t).ID()
	for text, ok := range map[string]bool{
		`[]`: true, `null`: true, `[{"key":"` + one + `","weight":1}]`: true,
		`[{"key":"` + one + `","weight":1},{"key":"` + two + `","weight":0}]`: true,
		`[null]`: false, `[{"key":"U"}]`: false, `[{"key":"` + one + `","weight":2}]`: false,
		`[{"key":"` + one + `","name":"a\nb"}]`:                               false,
		`[{"key":"` + one + `"},{"key":"` + one + `"}]`:                       false,
		`[{"key":"` + one + `"},{"key":"` + two + `"},{"key":"` + one + `"}]`: false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, member.PeersFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := member.LoadPeers(dir)
		if (err == nil) != ok || err != nil && (list != nil || !strings.Contains(err.Error(), member.PeersFile)) {
			t.Errorf("%s: %d peers, %v", text, len(list), err)
		}
		for _, p := range list {
			if p.Key.ID() != p.ID {
				t.Errorf("%s: key %v of %s", text, p.Key, p.ID)
			}
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, member.PeersFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := member.LoadPeers(dir); err == nil {
		t.Error("a folder is a list")
	}
	if err := os.Mkdir(filepath.Join(dir, member.StateFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := member.LoadState(dir); err == nil || !strings.Contains(err.Error(), member.StateFile) {
		t.Errorf("a folder is a state: %v", err)
	}
	p := member.Peer{Weight: 0.5, Refused: []member.Stretch{{From: 3, To: 5}, {From: 8, To: 8}}}
	for start, want := range map[uint64]bool{2: false, 3: true, 5: true, 6: false, 7: false, 8: true, 9: false} {
		if p.Refuses(start) != want {
			t.Errorf("generation %d is refused: %v", start, !want)
		}
	}
	if p.Origin().Weight != 0.5 {
		t.Errorf("counted with %v", p.Origin().Weight)
	}
	if p.Quarantine = "why"; p.Origin().Weight != 0 {
		t.Errorf("in quarantine, and counted with %v", p.Origin().Weight)
	}
}

// TestNeverHeard checks that a peer that is not counted and was never heard is not silent: it may only
// be the hub of a sum, or ask for a sum.
func TestNeverHeard(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home := newSite(t, k, nil)
		defer home.stop()
		hub, counted := meshtest.Identity(t), meshtest.Identity(t)
		for id, weight := range map[*member.Identity]float64{hub: 0, counted: 1} {
			if err := home.AddPeer(t.Context(), id.ID(), "", weight); err != nil {
				t.Fatal(err)
			}
		}
		bubble.Advance(silentAfter * home.Mesh.opts.Heartbeat)
		for _, p := range home.Status().Peers {
			if p.Silent != 0 {
				t.Errorf("silent for %v after %d heartbeats", p.Silent, silentAfter)
			}
		}
		bubble.Advance(time.Nanosecond)
		for _, p := range home.Status().Peers {
			if got, want := p.Silent > 0, p.ID == counted.ID(); got != want {
				t.Errorf("a peer of weight %v that was never heard is silent: %v, want %v", p.Weight, got, want)
			}
		}
	})
}

// TestClocks checks that only counted peers that were heard lately confirm the clock, and that a clock
// that is days ahead of theirs is not confirmed.
func TestClocks(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		home, a, b, uncounted := newSite(t, k, nil), newSite(t, k, nil), newSite(t, k, nil), newSite(t, k, nil)
		for _, s := range []*site{home, b, uncounted} {
			defer s.stop()
		}
		check := func(when string, wall time.Time, agree, all int) {
			t.Helper()
			if x, y := home.Clocks(wall); x != agree || y != all {
				t.Errorf("%s: %d of %d agree, want %d of %d", when, x, y, agree, all)
			}
		}
		check("alone", time.Now(), 0, 0)
		trust(t, home, 1, a, b)
		trust(t, home, 0, uncounted)
		bubble.Advance(2 * home.Mesh.opts.Heartbeat)
		check("right", time.Now(), 2, 2)
		check("nearly too far ahead", time.Now().Add(clockTolerance-time.Second), 2, 2)
		check("too far ahead", time.Now().Add(clockTolerance), 0, 2)
		check("an hour ahead", time.Now().Add(time.Hour), 0, 2)
		check("ten years behind", time.Now().AddDate(-10, 0, 0), 0, 2)
		a.stop()
		bubble.Advance((silentAfter + 2) * home.Mesh.opts.Heartbeat)
		check("one is silent", time.Now(), 1, 1)
	})
}
