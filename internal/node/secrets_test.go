package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// TestRekey: whatever a node has counted is found after its network's secret has changed,
// while it runs and after its next start, and wherever a crash leaves the change.
func TestRekey(t *testing.T) {
	dir := t.TempDir()
	n, stop := start(t, Options{Config: httpDoor(t), Dir: dir})
	raw := []byte("From: ann@example.com\nSubject: offer\n\n" + strings.Repeat("an offer of many words that nobody wants to read ", 4) + "\n")
	sight := func(n *Node, count uint32) {
		t.Helper()
		sigs, _, err := n.read(t.Context(), raw)
		if err == nil {
			_, err = n.Clearinghouse().Report(t.Context(), bulkhead.Report{Signatures: sigs, Count: count})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := func(n *Node) (sightings uint32) {
		t.Helper()
		sigs, _, err := n.read(t.Context(), raw)
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
	if n.State(t.Context()).Network != fingerprint(second) {
		t.Error("the node shows the network that it was in")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// What a crash leaves: the old key with the list of what comes before the new one,
	// and the new key where no generation is open under it.
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
		if i == 0 { // the next one begins where this one did
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
	if _, err := Open(t.Context(), Options{Config: httpDoor(t), Dir: dir}); !errors.Is(err, bulkhead.ErrMalformed) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("start with nonsense for past secrets: %v", err)
	}
}

// TestRekeyRefused: a node that cannot change its secret says so and keeps the old one.
func TestRekeyRefused(t *testing.T) {
	dir := t.TempDir()
	n, _ := start(t, Options{Config: httpDoor(t), Dir: dir})
	for i := range byte(2) {
		if err := n.rekey(t.Context(), filter.Secret{i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.rekey(t.Context(), filter.Secret{9}); !errors.Is(err, bulkhead.ErrOverLimit) {
		t.Error(err)
	}
	var key filter.Secret
	if err := ReadKey(filepath.Join(dir, networkKeyFile), key[:]); err != nil || key != (filter.Secret{1}) || n.secret() != key {
		t.Errorf("key %v, %v", key, err)
	}
}
