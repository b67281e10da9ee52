package mesh

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/replica"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// TestInspect checks that each damaged file of a folder is named, and that none is changed or made.
func TestInspect(t *testing.T) {
	if got := Inspect(filepath.Join(t.TempDir(), "none")); len(got) != 0 {
		t.Errorf("no folder: %v", got)
	}
	empty := t.TempDir()
	if got := slices.Collect(maps.Keys(Inspect(empty))); !slices.Equal(got, []string{member.KeyFile}) {
		t.Errorf("an empty folder: %v", got)
	}
	if list, err := os.ReadDir(empty); err != nil || len(list) != 0 {
		t.Errorf("%v made, %v", list, err)
	}
	for _, bad := range []string{"", member.KeyFile, member.PeersFile, member.StateFile, replica.HeardFile} {
		dir, _ := meshtest.Folder(t)
		for _, name := range []string{member.PeersFile, member.StateFile, replica.HeardFile} {
			text := "[]"
			if name == member.StateFile {
				text = "{}"
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var want []string
		if bad != "" {
			want = []string{bad}
			if err := os.WriteFile(filepath.Join(dir, bad), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := Inspect(dir)
		if names := slices.Collect(maps.Keys(got)); !slices.Equal(names, want) {
			t.Errorf("%q damaged: %v", bad, got)
		}
		if err := got[bad]; bad != "" && (err == nil || !strings.Contains(err.Error(), "mesh")) {
			t.Errorf("%q damaged: %v", bad, err)
		}
	}
	folder, _ := meshtest.Folder(t)
	if err := os.Mkdir(filepath.Join(folder, replica.HeardFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Inspect(folder); len(got) != 1 || got[replica.HeardFile] == nil {
		t.Errorf("a folder in place of a file: %v", got)
	}
}

// TestBefriend checks that a peer is put on a list once, up to the limit of the list, and that a
// listed peer may become the keeper of a group.
func TestBefriend(t *testing.T) {
	dir, _ := meshtest.Folder(t)
	now := time.Date(2026, 11, 1, 0, 0, 0, 5, time.UTC)
	one := meshtest.Identity(t)
	for what, err := range map[string]error{
		"no key":     member.Befriend(dir, "U", "", "", 1, now),
		"a bad name": member.Befriend(dir, one.ID(), "a\nb", "", 1, now),
		"a weight":   member.Befriend(dir, one.ID(), "", "", 2, now),
	} {
		if !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	list := func() []*member.Peer {
		t.Helper()
		list, err := member.LoadPeers(dir)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	befriend := func(name, group string, weight float64) member.Peer {
		t.Helper()
		if err := member.Befriend(dir, one.ID(), name, group, weight, now); err != nil {
			t.Fatal(err)
		}
		if len(list()) != 1 {
			t.Fatalf("%d peers", len(list()))
		}
		return *list()[0]
	}
	if len(list()) != 0 {
		t.Errorf("%d peers", len(list()))
	}
	if p := befriend("one", "", 0.5); p.ID != one.ID() || p.Name != "one" || p.Weight != 0.5 || p.Group != "" ||
		p.Keeper || !p.Added.Equal(now.Truncate(time.Second)) {
		t.Errorf("%+v", p)
	}
	if p := befriend("two", "", 1); p.Name != "one" || p.Weight != 0.5 || p.Group != "" || p.Keeper {
		t.Errorf("again: %+v", p)
	}
	if p := befriend("two", "mail", 1); p.Name != "one" || p.Weight != 0.5 || p.Group != "mail" || !p.Keeper {
		t.Errorf("as a keeper: %+v", p)
	}
	if p := befriend("", "", 1); p.Group != "mail" || !p.Keeper {
		t.Errorf("and again: %+v", p)
	}
	all := list()
	for len(all) < member.MaxPeers-1 {
		key := wire.Public{byte(len(all)), byte(len(all) >> 8), 1}
		all = append(all, &member.Peer{ID: key.ID(), Weight: 1, Key: key})
	}
	if err := member.SavePeers(dir, all); err != nil {
		t.Fatal(err)
	}
	if err := member.Befriend(dir, meshtest.Identity(t).ID(), "", "web", 1, now); err != nil {
		t.Errorf("the last that there is room for: %v", err)
	}
	if last := list()[member.MaxPeers-1]; last.Group != "web" || !last.Keeper {
		t.Errorf("%+v", last)
	}
	if err := member.Befriend(dir, meshtest.Identity(t).ID(), "", "", 1, now); !errors.Is(err, bulkhead.ErrOverLimit) ||
		len(list()) != member.MaxPeers {
		t.Errorf("one more: %v, %d peers", err, len(list()))
	}
	if err := member.Befriend(dir, one.ID(), "", "mail", 1, now); err != nil {
		t.Errorf("who is on a full list: %v", err)
	}
	m, err := prepare(t.Context(),
		member.Options{Dir: dir, Identity: meshtest.Identity(t), Engine: enginetest.Small(t, nil), KeyID: 1,
			Mode: member.Join})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddPeer(t.Context(), meshtest.Identity(t).ID(), "", 1); !errors.Is(err, bulkhead.ErrOverLimit) ||
		len(m.Status().Peers) != member.MaxPeers {
		t.Errorf("one more for a mesh: %v, %d peers", err, len(m.Status().Peers))
	}
	if err := os.WriteFile(filepath.Join(dir, member.PeersFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := member.Befriend(dir, one.ID(), "", "", 1, now); err == nil {
		t.Error("a damaged list is written over")
	}
}
