// Package enginetest opens small engines for the tests of replication, and counts reports in them.
package enginetest

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// Secret is the secret of the network of the engines.
var Secret = filter.Secret{1, 2, 3}

// Small returns an engine with room for 2,000 keys in each generation, which is closed with the test.
// A nil now is the system's clock.
func Small(t testing.TB, now func() time.Time) *engine.Engine {
	t.Helper()
	e, err := engine.Open(context.Background(), engine.Options{
		Secret: Secret, Now: now,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 2000, Error: 1e-3},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 2000, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Signature returns the signature with the number n.
func Signature(n int) bulkhead.Signature {
	var sum [20]byte
	binary.BigEndian.PutUint64(sum[:], uint64(n)*0x9e3779b97f4a7c15+1)
	s, err := bulkhead.NewSignature(bulkhead.Exact, sum[:])
	if err != nil {
		panic(err)
	}
	return s
}

// Report reports the signature n with a vote, count times.
func Report(t testing.TB, e *engine.Engine, n int, vote bulkhead.Vote, count uint32) {
	t.Helper()
	_, err := e.Report(context.Background(), bulkhead.Report{
		Signatures: []bulkhead.Signature{Signature(n)}, Vote: vote, Count: count,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Check returns the finding about the signature n.
func Check(t testing.TB, e *engine.Engine, n int) bulkhead.Finding {
	t.Helper()
	v, err := e.Check(context.Background(), bulkhead.Query{Signatures: []bulkhead.Signature{Signature(n)}})
	if err != nil {
		t.Fatal(err)
	}
	return v.Findings[0]
}

// Eventually waits until ok returns true, and fails the test after the limit.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// Big returns an engine with the given capacity of its tally, on a store or, for nil, in memory. It is
// closed with the test.
func Big(t testing.TB, capacity uint64, st *store.Store) *engine.Engine {
	t.Helper()
	e, err := engine.Open(context.Background(), engine.Options{
		Secret: Secret, Store: st,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: capacity, Error: 1e-3},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 10_000, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}
