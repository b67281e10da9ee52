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
)

// TestRolledBack checks that a rollback records its range of generations and drops them, and that
// only the newest ranges are kept.
func TestRolledBack(t *testing.T) {
	inBubble(t, func(t *testing.T, k *memBroker) {
		for _, role := range []Role{Both, Publish} {
			r := newRig(t, k, func(o *Options) { o.Role = role })
			now := uint64(time.Now().Unix())
			r.e.held = []engine.ArrayState{{Start: now - 5}, {Start: now + 60}}
			refused := func() []stretch { return r.members[r.peer.Hint()].Refused }
			if err := r.RollbackPeer(t.Context(), r.peer.ID(), time.Unix(int64(now)+1, 0)); !errors.Is(err,
				bulkhead.ErrMalformed) || refused() != nil || r.e.forgotten != nil {
				t.Errorf("to the future: %v", err)
			}
			if err := r.RollbackPeer(t.Context(), r.peer.ID(), time.Unix(int64(now), 0)); err != nil ||
				!slices.Equal(refused(), []stretch{{now, now + 60}}) {
				t.Errorf("to now: %v, %v", err, refused())
			}
			if got := len(r.e.forgotten); got != map[Role]int{Both: 1, Publish: 0}[role] || got == 1 && r.e.forgotten[0] != now {
				t.Errorf("%s: forgotten since %v", role, r.e.forgotten)
			}
			r.e.held = nil
			for n := range 64 {
				if err := r.RollbackPeer(t.Context(), r.peer.ID(), time.Unix(int64(n)-1, 0)); err != nil {
					t.Fatal(err)
				}
				if want := min(n+2, 64); len(refused()) != want || refused()[want-1] != (stretch{uint64(max(n-1, 0)), now}) {
					t.Errorf("%d stretches, the last %v; want %d", len(refused()), refused()[len(refused())-1], want)
				}
			}
			if refused()[0] != (stretch{0, now}) {
				t.Errorf("the oldest is %v", refused()[0])
			}
			if err := r.RollbackPeer(t.Context(), r.Status().ID, time.Now()); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("of who is no peer: %v", err)
			}
			saved, err := loadPeers(r.opts.Dir)
			if err != nil || len(saved) != 1 || !slices.Equal(saved[0].Refused, refused()) {
				t.Errorf("saved %+v, %v", saved, err)
			}
		}
	})
}

// TestPeersFile checks that a list with a repeated peer, or with a missing or impossible key, is
// refused.
func TestPeersFile(t *testing.T) {
	one, two := mustIdentity(t).ID(), mustIdentity(t).ID()
	for text, ok := range map[string]bool{
		`[]`: true, `null`: true, `[{"key":"` + one + `","weight":1}]`: true,
		`[{"key":"` + one + `","weight":1},{"key":"` + two + `","weight":0}]`: true,
		`[null]`: false, `[{"key":"U"}]`: false, `[{"key":"` + one + `","weight":2}]`: false,
		`[{"key":"` + one + `","name":"a\nb"}]`:                               false,
		`[{"key":"` + one + `"},{"key":"` + one + `"}]`:                       false,
		`[{"key":"` + one + `"},{"key":"` + two + `"},{"key":"` + one + `"}]`: false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, PeersFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := loadPeers(dir)
		if (err == nil) != ok || err != nil && (list != nil || !strings.Contains(err.Error(), PeersFile)) {
			t.Errorf("%s: %d peers, %v", text, len(list), err)
		}
		for _, p := range list {
			if p.key.ID() != p.ID {
				t.Errorf("%s: key %v of %s", text, p.key, p.ID)
			}
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, PeersFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := loadPeers(dir); err == nil {
		t.Error("a folder is a list")
	}
	if err := os.Mkdir(filepath.Join(dir, stateFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(dir); err == nil || !strings.Contains(err.Error(), stateFile) {
		t.Errorf("a folder is a state: %v", err)
	}
	p := peer{Weight: 0.5, Refused: []stretch{{3, 5}, {8, 8}}}
	for start, want := range map[uint64]bool{2: false, 3: true, 5: true, 6: false, 7: false, 8: true, 9: false} {
		if p.refuses(start) != want {
			t.Errorf("generation %d is refused: %v", start, !want)
		}
	}
	if p.origin().Weight != 0.5 {
		t.Errorf("counted with %v", p.origin().Weight)
	}
	if p.Quarantine = "why"; p.origin().Weight != 0 {
		t.Errorf("in quarantine, and counted with %v", p.origin().Weight)
	}
}
