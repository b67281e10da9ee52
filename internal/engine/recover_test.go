package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// diskFS is a file system that fails on demand.
type diskFS struct {
	full   atomic.Bool // no write finds room
	broken atomic.Bool // no fsync succeeds
	files  atomic.Bool // no checkpoint file is made
	tried  atomic.Int32
}

func (d *diskFS) OpenFile(name string, flag int, perm fs.FileMode) (store.Handle, error) {
	if d.files.Load() && flag&os.O_CREATE != 0 && filepath.Base(filepath.Dir(name)) == "files" {
		d.tried.Add(1)
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return diskFile{f, d}, nil
}

func (d *diskFS) Rename(from, to string) error { return os.Rename(from, to) }
func (d *diskFS) Remove(name string) error     { return os.Remove(name) }

func (d *diskFS) SyncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type diskFile struct {
	*os.File
	disk *diskFS
}

func (f diskFile) Write(p []byte) (int, error) {
	if f.disk.full.Load() {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(p)
}

func (f diskFile) WriteAt(p []byte, at int64) (int, error) {
	if f.disk.full.Load() {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(p, at)
}

func (f diskFile) Sync() error {
	if f.disk.broken.Load() {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: syscall.EIO}
	}
	return f.File.Sync()
}

func (f diskFile) DropCache() {}

func openDurable(t *testing.T, dir string, o Options, fsys store.FS) (*Engine, *store.Store) {
	t.Helper()
	st, err := store.Open(dir, store.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	o.Store = st
	e, err := Open(context.Background(), small(o))
	if err != nil {
		t.Fatal(errors.Join(err, st.Close()))
	}
	return e, st
}

// TestDiskTrouble: while the disk is full, or its fsync fails, checks go on and
// reports are refused; nothing refused is counted and nothing acknowledged is
// lost; when the disk is well, reports are taken again without a restart.
func TestDiskTrouble(t *testing.T) {
	for name, trouble := range map[string]func(*diskFS) *atomic.Bool{
		"full":   func(d *diskFS) *atomic.Bool { return &d.full },
		"broken": func(d *diskFS) *atomic.Bool { return &d.broken },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			disk := new(diskFS)
			e, st := openDurable(t, dir, Options{}, disk)
			s := sig(bulkhead.Exact, 1)
			one := bulkhead.Report{Signatures: []bulkhead.Signature{s}}
			report(t, e, one)
			for round := range 3 {
				trouble(disk).Store(true)
				for range 10 {
					if _, err := e.Report(context.Background(), one); !errors.Is(err, bulkhead.ErrReadOnly) {
						t.Fatalf("report on a disk in trouble: %v, want it refused for now", err)
					}
				}
				if err := e.PutAccount(context.Background(), trust.Account{Name: "alice", Role: trust.Member}); !errors.Is(err,
					bulkhead.ErrReadOnly) {
					t.Fatalf("account on a disk in trouble: %v", err)
				}
				if v := verdictOf(t, e, s); v.Sightings != uint32(1+round) {
					t.Fatalf("%d sightings, want %d: refused reports count nothing", v.Sightings, 1+round)
				}
				trouble(disk).Store(false)
				await.True(t, "reports are taken again", func() bool { return e.Refusing() == nil })
				report(t, e, one)
			}
			if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
				t.Fatal(err)
			}
			e, st = openDurable(t, dir, Options{}, nil)
			if v := verdictOf(t, e, s); v.Sightings != 4 {
				t.Errorf("after a restart: %d sightings, want 4", v.Sightings)
			}
			if _, ok := e.Accounts().Get("alice"); ok {
				t.Error("the refused account exists after a restart")
			}
			if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCheckpointRests: a disk that has room for the journal and none for a
// checkpoint is not asked for one with every report, and gets one when it can.
func TestCheckpointRests(t *testing.T) {
	disk := new(diskFS)
	e, st := openDurable(t, filepath.Join(t.TempDir(), "data"), Options{CheckpointBytes: 1}, disk)
	disk.files.Store(true)
	for i := range 200 {
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i)}})
		if i%50 == 0 {
			await.True(t, "a checkpoint is tried", func() bool { return disk.tried.Load() > 0 })
		}
	}
	if n := disk.tried.Load(); n > 2 {
		t.Errorf("%d attempts to write a checkpoint in a moment, want 1", n)
	}
	disk.files.Store(false)
	if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
		t.Fatal(err)
	}
	if n := e.counters.checkpoints.Load(); n == 0 {
		t.Error("no checkpoint was written at the end")
	}
}

// TestSyncFails: with relaxed durability a report is acknowledged before its fsync. When the fsync
// fails the node notices at once, and makes the acknowledged reports durable without waiting for
// another report.
func TestSyncFails(t *testing.T) {
	ctx := context.Background()
	disk := new(diskFS)
	dir := filepath.Join(t.TempDir(), "data")
	st, err := store.Open(dir, store.Options{FS: disk, Durability: store.Relaxed, SyncEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, small(Options{Store: st}))
	if err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	if err := st.Sync(); err != nil { // else this report's sync may fail before the next one comes
		t.Fatal(err)
	}
	disk.broken.Store(true)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	await.True(t, "the store fails", func() bool { return st.Err() != nil })
	disk.broken.Store(false)
	if !await.Within(await.Patience, func() bool { return e.counters.recoveries.Load() > 0 && e.Refusing() == nil }) {
		t.Fatalf("nothing was recovered; the store reports: %v", st.Err())
	}
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}})
	if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
	e, st = openDurable(t, dir, Options{}, nil)
	if v := verdictOf(t, e, s); v.Sightings != 3 {
		t.Errorf("after a restart: %d sightings, want 3", v.Sightings)
	}
	if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRestart: everything is as it was after a clean stop and after none:
// votes, duplicates, listings, accounts, generations.
func TestRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "data")
		c := newClock()
		e, st := openDurable(t, dir, Options{Now: c.Now}, nil)
		ctx := context.Background()
		if err := e.PutAccount(ctx, trust.Account{Name: "alice", Role: trust.Member, Weight: 0.05}); err != nil {
			t.Fatal(err)
		}
		if err := e.PutAccount(ctx, trust.Account{Name: "bob", Role: trust.Trusted, Weight: 1}); err != nil {
			t.Fatal(err)
		}
		s, kept := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
		alice := bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Account: "alice"}}
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{kept}, Vote: bulkhead.Spam})
		report(t, e, alice)
		for range 3 { // generations come and go, checkpoints in between
			writeCheckpoint(t, e)
			c.Advance(24 * time.Hour)
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{kept}})
		}
		report(t, e, alice)
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Account: "bob"}})
		want := verdictOf(t, e, s, kept)
		if clean {
			if err := e.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		// Without Close the journal alone knows the last reports.
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		again, st2 := openDurable(t, dir, Options{Now: c.Now}, nil)
		got := verdictOf(t, again, s, kept)
		got.Error, want.Error, got.Reasons, want.Reasons = 0, 0, nil, nil
		for i := range got.Findings {
			got.Findings[i].Error, want.Findings[i].Error = 0, 0
			if got.Findings[i] != want.Findings[i] {
				t.Errorf("clean=%v: finding %d = %+v, before the restart %+v", clean, i, got.Findings[i], want.Findings[i])
			}
		}
		if r := report(t, again, alice); r.Duplicate != 1 {
			t.Errorf("clean=%v: alice's vote again: %+v, want a duplicate", clean, r)
		}
		a, ok := again.Accounts().Get("alice")
		if !ok || a.Confirmed != 1 {
			t.Errorf("clean=%v: alice = %+v, want one report confirmed", clean, a)
		}
		if err := errors.Join(again.Close(ctx), st2.Close()); err != nil {
			t.Fatal(err)
		}
		if !clean {
			// The first engine's disk is gone from under it; stop its goroutines.
			if err := e.Close(ctx); err == nil {
				t.Error("a checkpoint into a closed store succeeded")
			}
		}
	}
}

// TestWrongKey: a data directory of another network is refused by name.
func TestWrongKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e, st := openDurable(t, dir, Options{}, nil)
	if err := errors.Join(e.Close(context.Background()), st.Close()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	o := small(Options{Store: st})
	o.Secret[0] ^= 1
	if _, err := Open(context.Background(), o); !errors.Is(err, bulkhead.ErrGeometry) {
		t.Errorf("open with another network's key: %v", err)
	}
}

// TestOldCheckpoint: a data directory whose votes lay in the tally's
// generations keeps all else: counts, what is listed and what was taken off,
// accounts. A listed signature stays listed until a vote objects.
func TestOldCheckpoint(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	e, st := openDurable(t, dir, Options{Now: c.Now}, nil)
	votersOf(t, e)
	s := func(n int) bulkhead.Signature { return sig(bulkhead.Exact, n) }
	report(t, e, by("a", bulkhead.Spam, s(1), s(2)))
	report(t, e, by("b", bulkhead.Ham, s(2)))
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s(3)}, Count: 7})
	c.Advance(24 * time.Hour)
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s(3)}, Count: 2})
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var old map[string]any
	dec := json.NewDecoder(bytes.NewReader(st.Manifest().Meta))
	dec.UseNumber() // ids of keys have 64 bits
	if err := dec.Decode(&old); err != nil {
		t.Fatal(err)
	}
	var files []store.File
	gens := func(book string, gone ...string) {
		for _, g := range old[book].([]any) {
			g := g.(map[string]any)
			if votes, ok := g["unique_capacity"]; ok {
				g["votes"] = votes
			}
			for _, name := range gone {
				delete(g, name)
			}
			for name, file := range g {
				if strings.HasSuffix(name, "_file") {
					files = append(files, store.File{Name: file.(string)})
				}
			}
		}
	}
	old["version"] = 1
	delete(old, "ballots")
	gens("tally", "unique_capacity")
	gens("blocklist", "vote_capacity", "name_capacity", "weights", "votes", "names",
		"weights_file", "votes_file", "names_file")
	files = append(files, store.File{Name: "accounts"})
	write := func() {
		t.Helper()
		meta, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(st.Checkpoint(ctx, st.Manifest().Start, meta, files), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write()
	for range 2 { // the second time from what the first one wrote
		e, st = openDurable(t, dir, Options{Now: c.Now}, nil)
		if v := verdictOf(t, e, s(1)); !v.Spam() {
			t.Errorf("what was listed: %+v", v)
		}
		if v := verdictOf(t, e, s(2)); v.Judged != bulkhead.Revoked {
			t.Errorf("what was taken off: %+v", v)
		}
		if v := verdictOf(t, e, s(3)); v.Sightings != 9 {
			t.Errorf("%d sightings, want 9", v.Sightings)
		}
		if _, ok := e.Accounts().Get("half"); !ok {
			t.Error("an account is gone")
		}
		if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	e, st = openDurable(t, dir, Options{Now: c.Now}, nil)
	if got := report(t, e, by("b", bulkhead.Revocation, s(1))); got.Revoked != 1 {
		t.Errorf("somebody objects: %+v", got)
	}
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	old["version"] = 3
	write()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := Open(ctx, small(Options{Store: st})); err == nil || !strings.Contains(err.Error(), "format 3") {
		t.Errorf("opened a directory of a version to come: %v", err)
	}
}
