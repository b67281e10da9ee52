package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestRecoverKeepsCounts checks that a new administrator costs no counts, although the command does
// not know how long the node keeps them.
func TestRecoverKeepsCounts(t *testing.T) {
	dir := t.TempDir()
	var secret filter.Secret
	var seal [32]byte
	for name, key := range map[string][]byte{networkKeyFile: secret[:], sealKeyFile: seal[:]} {
		if err := loadKey(dir, name, key); err != nil {
			t.Fatal(err)
		}
	}
	// A node that keeps counts for 64 days, and listings as long.
	generations := func(now time.Time) []engine.GenerationInfo {
		t.Helper()
		s, err := store.Open(filepath.Join(dir, StoreFolder), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		book := engine.BookOptions{Generation: 24 * time.Hour, Keep: 64, Capacity: 1000, Error: 1e-3}
		e, err := engine.Open(t.Context(),
			engine.Options{Secret: secret, Store: s, Tally: book, Block: book, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		info := e.Info()
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return append(info.Tally, info.Blocklist...)
	}
	now := time.Now()
	generations(now.AddDate(0, 0, -60))
	before := generations(now.AddDate(0, 0, -30))

	log := slog.New(slog.DiscardHandler)
	if err := RecoverAdmin(t.Context(), config.Default(), dir, log); err != nil {
		t.Fatal(err)
	}
	after := generations(now.AddDate(0, 0, -30))
	if len(after) != len(before) {
		t.Fatalf("%d generations are left of %d", len(after), len(before))
	}
	for i := range after {
		if !after[i].Start.Equal(before[i].Start) {
			t.Errorf("generation %d starts at %v, did at %v", i, after[i].Start, before[i].Start)
		}
	}
	// The node has its administrator.
	opened := newCore(config.Default(), dir, log)
	if err := opened.open(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if a, ok := opened.engine.Accounts().Get(adminName); !ok || a.Closed {
		t.Errorf("account %q = %+v, %v", adminName, a, ok)
	}
	if err := opened.close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRepairMakesAdmin checks that a repair that loses the accounts leaves an administrator whose token is in
// the data folder, although the journal brings an account back. An administrator who was closed on purpose,
// with the accounts in order, stays closed.
func TestRepairMakesAdmin(t *testing.T) {
	cfg, log := config.Default(), slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	open := func(dir string) *core {
		t.Helper()
		n := newCore(cfg, dir, log)
		if err := n.open(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.close(context.Background()) })
		return n
	}
	if err := open(dir).close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := open(dir)
	if err := n.engine.PutAccount(t.Context(), trust.Account{Name: "ann", Role: trust.Trusted, Weight: 1}); err != nil {
		t.Fatal(err)
	}
	killed := copyOf(t, dir)
	files, err := filepath.Glob(filepath.Join(killed, StoreFolder, "files", "accounts.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	r, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: killed, Log: log})
	if err != nil || !r.After.Sound() {
		t.Fatalf("after the repair: %+v, %v", r, err)
	}
	if done := strings.Join(r.Done, "\n"); !strings.Contains(done, AdminTokenFile) {
		t.Errorf("the repair did not report the new token: %q", done)
	}
	token, err := os.ReadFile(filepath.Join(killed, AdminTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	book := open(killed).engine.Accounts()
	if a, err := book.Authenticate(strings.TrimSpace(string(token))); err != nil || a.Role != trust.Admin {
		t.Errorf("the token of the data folder is of %+v, %v", a, err)
	}
	if _, ok := book.Get("ann"); !ok {
		t.Error("the account in the journal is lost")
	}

	admin, _ := n.engine.Accounts().Get(adminName)
	admin.Closed = true
	if err := n.engine.PutAccount(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	closed := copyOf(t, dir)
	if err := os.Remove(filepath.Join(closed, StoreFolder, "MANIFEST.copy")); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), RepairOptions{Config: cfg, Dir: closed, Log: log}); err != nil {
		t.Fatal(err)
	}
	if a, ok := open(closed).engine.Accounts().Get(adminName); !ok || !a.Closed {
		t.Errorf("the closed administrator is %+v, %v", a, ok)
	}
}

// TestOtherKeyOverAJournal checks that a key that is not the store's is also refused before the
// first snapshot has been written: the journal's entries could not be found.
func TestOtherKeyOverAJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), StoreFolder)
	open := func(secret filter.Secret) error {
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() // without a snapshot, as after a kill
		e, err := engine.Open(t.Context(), engine.Options{Secret: secret, Store: s})
		if err != nil {
			return err
		}
		t.Cleanup(func() { e.Close(context.Background()) })
		return nil
	}
	if err := open(filter.Secret{1}); err != nil {
		t.Fatal(err)
	}
	if err := open(filter.Secret{2}); !errors.Is(err, bulkhead.ErrGeometry) {
		t.Errorf("with another key: %v, want ErrGeometry", err)
	}
	if err := open(filter.Secret{1}); err != nil {
		t.Errorf("with its own key: %v", err)
	}
}
