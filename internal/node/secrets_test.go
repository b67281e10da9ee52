package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestRekey checks that all counts of a node are found after its network's secret has changed,
// while it runs and after its next start, and wherever a crash interrupts the change.
func TestRekey(t *testing.T) {
	dir := t.TempDir()
	n, stop := start(t, Options{Config: httpDoor(t), Dir: dir})
	raw := []byte(
		"From: ann@example.com\nSubject: offer\n\n" + strings.Repeat("an offer of many words that nobody wants to read ",
			4) + "\n")
	sight := func(n *Node, count uint32) {
		t.Helper()
		sigs, _, err := messages{n.core}.Read(t.Context(), raw)
		if err == nil {
			_, err = n.Clearinghouse().Report(t.Context(), bulkhead.Report{Signatures: sigs, Count: count})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := func(n *Node) (sightings uint32) {
		t.Helper()
		sigs, _, err := messages{n.core}.Read(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: sigs})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range v.Findings {
			if f.Signature.Scheme() == bulkhead.Exact {
				sightings = f.Sightings
			}
		}
		return sightings
	}
	sight(n, 3)
	first, second, third := n.secret(), filter.Secret{2}, filter.Secret{3}
	if err := n.rekey(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	sight(n, 4)
	if got := seen(n); got != 7 {
		t.Errorf("%d sightings, want 7", got)
	}
	if n.state.State(t.Context()).Network != fingerprint(second) {
		t.Error("the node shows the network that it was in")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// A crash leaves the old key with a list of the new key's predecessors, and the new key where
	// no generation is open under it.
	for i, write := range []func() error{
		func() error { return writePast(dir, past{all: []filter.Secret{second, first}}) },
		func() error { return writeKey(filepath.Join(dir, networkKeyFile), third[:]) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		n, stop := start(t, Options{Config: httpDoor(t), Dir: dir})
		sight(n, 1)
		if got, want := seen(n), uint32(8+i); got != want {
			t.Errorf("after crash %d: %d sightings, want %d", i, got, want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the next case begins where this one did
			if past, err := readPast(dir); err != nil || len(past.all) != 1 {
				t.Errorf("past %v, %v", past, err)
			}
			if err := writePast(dir, past{all: []filter.Secret{second, first}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, pastKeysFile), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Config: httpDoor(t), Dir: dir}); !errors.Is(err, bulkhead.ErrMalformed) ||
		!strings.Contains(err.Error(), "line 1") {
		t.Errorf("start with nonsense for past secrets: %v", err)
	}
}

// TestRekeyRefused checks that a node that cannot change its secret reports that and keeps the old
// one.
func TestRekeyRefused(t *testing.T) {
	dir := t.TempDir()
	n, _ := start(t, Options{Config: httpDoor(t), Dir: dir})
	const most = engine.MaxSecrets - 1
	for i := range byte(most) {
		counts(t, n, bulkhead.MustSignature(bulkhead.Exact, []byte{1}), 1)
		if err := n.rekeyAll(t.Context(), filter.Secret{i}); err != nil {
			t.Fatal(err)
		}
	}
	counts(t, n, bulkhead.MustSignature(bulkhead.Exact, []byte{1}), 1)
	if err := n.rekeyAll(t.Context(), filter.Secret{99}); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Error(err)
	}
	var key filter.Secret
	if err := ReadKey(filepath.Join(dir, networkKeyFile), key[:]); err != nil || key != (filter.Secret{most - 1}) ||
		n.secret() != key {
		t.Errorf("key %v, %v", key, err)
	}
}

// TestRekeyAll checks that counts under a former secret of the network are still shared, after a
// restart and wherever a crash interrupts the change. The node's counts from before it joined are
// not shared.
func TestRekeyAll(t *testing.T) {
	dir := t.TempDir()
	n, stop := start(t, Options{Config: httpDoor(t), Dir: dir})
	own, joined, next := n.secret(), filter.Secret{2}, filter.Secret{3}
	text := bulkhead.MustSignature(bulkhead.Exact, []byte("text"))
	counts(t, n, text, 1)
	if err := n.rekey(t.Context(), joined); err != nil {
		t.Fatal(err)
	}
	counts(t, n, text, 2)
	if err := n.rekeyAll(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	counts(t, n, text, 4)
	want := past{all: []filter.Secret{joined, own}, former: 1}
	look := func(what string, n *Node) {
		t.Helper()
		if got := sees(t, n, text); got != 7 {
			t.Errorf("%s: %d sightings, want 7", what, got)
		}
		if got := n.engine.Former(); !slices.Equal(got, []filter.Secret{joined}) {
			t.Errorf("%s: former secrets of the network %v", what, got)
		}
		for _, a := range n.engine.Own() {
			if a.Geometry.KeyID == own.ID() {
				t.Errorf("%s: what the node counted alone is shared", what)
			}
		}
	}
	look("after the change", n)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]past{
		"stopped":                               want,
		"killed before its next change":         {all: []filter.Secret{next, joined, own}, former: 2},
		"killed before it changed back":         {all: []filter.Secret{next, next, joined, own}, former: 3},
		"killed while it forgot what is not so": {all: []filter.Secret{joined, own, joined}, former: 1},
	} {
		if err := writePast(dir, p); err != nil {
			t.Fatal(err)
		}
		n, stop := start(t, Options{Config: httpDoor(t), Dir: dir})
		look(what, n)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got, err := readPast(dir); err != nil || !slices.Equal(got.all, want.all) || got.former != 1 {
			t.Errorf("%s: on disk %+v, %v", what, got, err)
		}
	}
}

// FuzzReadPast checks that any content of the file is read as it would be written, or refused.
func FuzzReadPast(f *testing.F) {
	one := strings.Repeat("0a", 16)
	for _, text := range []string{"", one + "\n", one + " network\n" + one, one + "\n" + one + " network\n", "nonsense",
		one + " network network"} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, pastKeysFile)
		os.Remove(path)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := readPast(dir)
		if err != nil {
			return
		}
		if p.former > len(p.all) {
			t.Fatalf("%q: %d of %d", text, p.former, len(p.all))
		}
		if err := writePast(dir, p); err != nil {
			t.Fatal(err)
		}
		if again, err := readPast(dir); err != nil || again.former != p.former || !slices.Equal(again.all, p.all) {
			t.Fatalf("%q is read as %+v, then as %+v, %v", text, p, again, err)
		}
	})
}
