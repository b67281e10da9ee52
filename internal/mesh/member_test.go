package mesh

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestSucceed checks that a peer's counts are transferred to its new key, where anything is
// counted. The list is unchanged if that fails, or if the new key is already on it.
func TestSucceed(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		for _, role := range []member.Role{member.Both, member.Subscribe, member.Publish} {
			r := newRig(t, k, func(o *member.Options) { o.Role = role })
			old, to := meshtest.Rotated(t)
			if err := r.AddPeer(t.Context(), old.ID(), "old", 0.5); err != nil {
				t.Fatal(err)
			}
			on := func(id *member.Identity) bool { _, ok := r.Find(id.Hint()); return ok }
			if role != member.Publish {
				r.Engine.RenameErr = errors.New("disk full")
				if err := r.Succeed(t.Context(), to.Proof(), to.Public()); !errors.Is(err, r.Engine.RenameErr) || !on(old) ||
					on(to) {
					t.Errorf("%s: %v; old key listed %v, new one %v", role, err, on(old), on(to))
				}
				r.Engine.RenameErr, r.Engine.Renamed = nil, nil
			}
			if err := r.Succeed(t.Context(), to.Proof(), to.Public()); err != nil || on(old) || !on(to) {
				t.Errorf("%s: %v; old key listed %v, new one %v", role, err, on(old), on(to))
			}
			want := [][2]string{{old.ID(), to.ID()}}
			if role == member.Publish {
				want = nil
			}
			if !slices.Equal(r.Engine.Renamed, want) {
				t.Errorf("%s: renamed %v, want %v", role, r.Engine.Renamed, want)
			}
			if p, _ := r.Find(to.Hint()); p.Name != "old" || p.Weight != 0.5 || p.ID != to.ID() {
				t.Errorf("%s: %+v", role, p)
			}
			if err := r.Succeed(t.Context(), to.Proof(), to.Public()); !errors.Is(err, bulkhead.ErrMalformed) {
				t.Errorf("%s: again: %v", role, err)
			}
			if err := r.AddPeer(t.Context(), old.ID(), "again", 1); err != nil {
				t.Fatal(err)
			}
			if err := r.Succeed(t.Context(), to.Proof(), to.Public()); !errors.Is(err, bulkhead.ErrMalformed) || !on(old) ||
				!on(to) {
				t.Errorf("%s: both are on the list: %v", role, err)
			}
		}
	})
}

// TestGroupFails checks that a list of a group that cannot be applied whole is an error, and that
// evictions by the administrator are remembered.
func TestGroupFails(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		joiner := meshtest.Identity(t)
		keeper := &member.Peer{ID: r.Peer.ID(), Weight: 0.5, Group: "mail", Keeper: true, Key: r.Peer.Public()}
		if err := r.groups.TakeGroup(t.Context(), keeper,
			&member.GroupList{Group: "mail", Members: []member.Member{{Key: joiner.ID()}}}); err != nil {
			t.Fatal(err)
		}
		peers := filepath.Join(r.opts.Dir, member.PeersFile)
		damage := func() {
			t.Helper()
			if err := errors.Join(os.Remove(peers), os.MkdirAll(filepath.Join(peers, "x"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		if err := r.groups.TakeGroup(t.Context(), keeper, &member.GroupList{Group: "mail"}); err == nil {
			t.Error("a member is not dropped, and nobody hears of it")
		}
		if err := r.groups.TakeGroup(t.Context(), keeper,
			&member.GroupList{Group: "mail", Members: []member.Member{{Key: joiner.ID()},
				{Key: meshtest.Identity(t).ID()}}}); err == nil {
			t.Error("a member is not added, and nobody hears of it")
		}
		if got := len(r.Status().Peers); got != 2 {
			t.Errorf("%d peers, want the keeper and the member", got)
		}
		if err := os.RemoveAll(peers); err != nil {
			t.Fatal(err)
		}
		if err := r.groups.TakeGroup(t.Context(), keeper, &member.GroupList{Group: "mail",
			Members: []member.Member{{Key: "U"}}}); err == nil {
			t.Error("a member without a key")
		}
		for range 2 {
			if err := member.Strike(r.opts.Dir, joiner.ID()); err != nil {
				t.Fatal(err)
			}
		}
		if keys, err := member.ReadStruck(r.opts.Dir); err != nil || !slices.Equal(keys, []string{joiner.ID()}) {
			t.Errorf("struck off: %v, %v", keys, err)
		}
		if err := os.WriteFile(filepath.Join(r.opts.Dir, member.StruckFile), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.groups.TakeGroup(t.Context(), keeper, &member.GroupList{Group: "mail"}); err == nil {
			t.Error("who was evicted is not known, and the list is followed")
		}
		if err := r.EvictPeer(t.Context(), joiner.ID()); err == nil || len(r.Status().Peers) != 2 {
			t.Errorf("evicted: %v, %d peers", err, len(r.Status().Peers))
		}
	})
}

// TestGroupDropsItsOwn checks that a keeper's list drops exactly the unlisted peers of its own
// group.
func TestGroupDropsItsOwn(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		r := newRig(t, k, nil)
		add := func(name, group string, keeper bool) *member.Peer {
			id := meshtest.Identity(t)
			p := &member.Peer{ID: id.ID(), Name: name, Weight: 1, Group: group, Keeper: keeper, Key: id.Public()}
			if err := r.Put(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		keeper := add("keeper", "mail", true)
		add("other keeper", "web", true)
		add("of web", "web", false)
		add("gone", "mail", false)
		kept := add("kept", "mail", false)
		for range 2 {
			if err := r.groups.TakeGroup(t.Context(), keeper,
				&member.GroupList{Group: "mail", Members: []member.Member{{Key: kept.ID}, {Key: r.Status().ID},
					{Key: kept.ID}}}); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range r.List() {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			if want := []string{"keeper", "kept", "of web", "other keeper", "peer"}; !slices.Equal(names, want) {
				t.Errorf("peers %q, want %q", names, want)
			}
		}
	})
}
