package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// follow passes the entries of a journal that an engine lacks to it.
func follow(t *testing.T, from store.Following, last uint64, to *Engine) {
	t.Helper()
	for to.opts.Store.LastIndex() < last {
		entries, err := from.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Follow(context.Background(), entries); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFollow runs random reports, checkpoints and days on one engine and compares a follower with it: its
// counts, listings and accounts. It then promotes the follower, and repeats reports that the first
// engine has counted: the follower counts none of them again.
func TestFollow(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 3))
	ctx, now := context.Background(), newClock()
	first := open(t, small(Options{Store: openStore(t, filepath.Join(t.TempDir(), "store")), Now: now.Now}))
	entries := first.opts.Store.Follow(1 << 30)
	defer entries.Close()
	var copied bytes.Buffer
	if _, err := first.opts.Store.Backup(ctx, &copied); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := store.Restore(ctx, &copied, dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	second := open(t, small(Options{Store: openStore(t, dir), Now: now.Now, Follow: errors.New("follows")}))
	follow(t, entries, first.opts.Store.LastIndex(), second)
	_, err := second.Report(ctx, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}})
	if !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Fatalf("a follower takes a report: %v", err)
	}
	var last []bulkhead.Report
	for step := range 400 {
		switch rng.IntN(20) {
		case 0:
			writeCheckpoint(t, []*Engine{first, second}[rng.IntN(2)])
		case 1:
			now.Advance(time.Duration(rng.IntN(8)) * time.Hour)
			last = nil // an ID is known for one generation
		case 2:
			name := fmt.Sprint("user", rng.IntN(5))
			if err := first.PutAccount(ctx, trust.Account{Name: name, Role: trust.Trusted, Weight: rng.Float64()}); err != nil {
				t.Fatal(err)
			}
		case 3:
			follow(t, entries, first.opts.Store.LastIndex(), second)
		default:
			r := bulkhead.Report{Vote: bulkhead.Vote(rng.IntN(int(bulkhead.NumVotes))),
				Signatures: []bulkhead.Signature{sig(bulkhead.Exact, rng.IntN(60))},
				ID:         fmt.Sprint(step), Count: 1 + uint32(rng.IntN(3))}
			if rng.IntN(2) == 0 {
				r.Reporter.Account = fmt.Sprint("user", rng.IntN(5))
			}
			if _, err := first.Report(ctx, r); err == nil && r.Vote == bulkhead.Sighting {
				last = append(last, r)
			}
		}
	}
	follow(t, entries, first.opts.Store.LastIndex(), second)
	compare := func() {
		t.Helper()
		first.checker.Measure() // the odds are otherwise up to two seconds old
		second.checker.Measure()
		for n := range 60 {
			want, got := verdictOf(t, first, sig(bulkhead.Exact, n)), verdictOf(t, second, sig(bulkhead.Exact, n))
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("message %d: %+v on the follower, want %+v", n, got, want)
			}
		}
		if want, got := first.accounts.All(), second.accounts.All(); !reflect.DeepEqual(got, want) {
			t.Fatalf("accounts %+v on the follower, want %+v", got, want)
		}
	}
	compare()
	if err := second.Promote(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if second.Term().Number != 1 || second.Term().From != second.opts.Store.LastIndex() {
		t.Fatalf("term %+v after entry %d", second.Term(), second.opts.Store.LastIndex())
	}
	if len(last) == 0 {
		t.Fatal("no report to repeat")
	}
	for _, r := range last {
		if got := report(t, second, r); got.Counted != 0 {
			t.Fatalf("report %s is counted twice: %+v", r.ID, got)
		}
	}
	compare()
	if err := second.Promote(ctx, 1); err == nil {
		t.Fatal("one term begins twice")
	}
	entry := store.Entry{Index: second.opts.Store.LastIndex() + 1, Data: []byte("V\x05")}
	if err := second.Follow(ctx, []store.Entry{entry}); err == nil {
		t.Fatal("a node that decides takes another node's entries")
	}
}

// A slowStandby has the entries up to an index, and waits for none.
type slowStandby struct{ copied atomic.Uint64 }

func (s *slowStandby) MayDecide() error { return nil }

func (s *slowStandby) Confirm(index uint64) error {
	if index <= s.copied.Load() {
		return nil
	}
	return fmt.Errorf("%w: entry %d is not copied", bulkhead.ErrReadOnly, index)
}

// TestRepeatUnconfirmed reports and repeats at random while the standby copies now and then, and opens the
// engine again in between. A repetition is acknowledged only if the standby has the entry with the report,
// although it writes no entry of its own.
func TestRepeatUnconfirmed(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 4))
	ctx, now, dir := context.Background(), newClock(), filepath.Join(t.TempDir(), "store")
	var standby slowStandby
	var e *Engine
	shut := func() {
		t.Helper()
		if err := errors.Join(e.Close(ctx), e.opts.Store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	start := func() {
		t.Helper()
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if e, err = Open(ctx, small(Options{Store: st, Now: now.Now, Standby: &standby})); err != nil {
			t.Fatal(err)
		}
	}
	start()
	defer func() { shut() }()
	entries := make(map[int]uint64) // of the reports in the journal
	acknowledged, refused := 0, 0
	for range 600 {
		switch rng.IntN(40) {
		case 0:
			shut()
			start()
		case 1, 2, 3:
			standby.copied.Store(e.opts.Store.LastIndex())
		default:
			n, last := rng.IntN(200), e.opts.Store.LastIndex()
			r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, ID: fmt.Sprint(n)}
			_, err := e.Report(ctx, r)
			if _, had := entries[n]; !had {
				entries[n] = e.opts.Store.LastIndex()
			} else if e.opts.Store.LastIndex() != last {
				t.Fatalf("report %d is written twice", n)
			}
			switch {
			case err != nil && !errors.Is(err, bulkhead.ErrReadOnly):
				t.Fatal(err)
			case err != nil:
				refused++
			case entries[n] > standby.copied.Load():
				t.Fatalf("report %d of entry %d is acknowledged, and the standby has entries up to %d", n, entries[n],
					standby.copied.Load())
			default:
				acknowledged++
			}
		}
	}
	if acknowledged == 0 || refused == 0 {
		t.Fatalf("%d reports acknowledged, %d refused", acknowledged, refused)
	}
}
