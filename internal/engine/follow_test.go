package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
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
