package lease

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
)

// FuzzRecord reads values that others could have put into the bucket.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"holder":"ab","term":3,"behind":true}`))
	f.Add([]byte(`{"term":-1}`))
	f.Add([]byte(`null`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parse(b); err != nil && r != (record{}) {
			t.Errorf("%+v beside %v", r, err)
		}
	})
}

// brief is the time of a lease in these tests.
const brief = 400 * time.Millisecond

// two returns the leases of both nodes of a pair, at one witness.
func two(t *testing.T) (a, b *Lease) {
	t.Helper()
	address := natstest.Start(t)
	open := func(own, other string) *Lease {
		l, err := Open(Options{Servers: []string{"nats://" + address}, Own: own, Other: other, For: brief,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.conn.Close)
		return l
	}
	return open("a", "b"), open("b", "a")
}

// TestOneHolder checks that a lease has one holder, that another node gets it only after its time, and that
// the former holder then learns so.
func TestOneHolder(t *testing.T) {
	a, b := two(t)
	ctx := t.Context()
	a.Hold(1)
	await.True(t, "the lease", func() bool { return a.Renew(ctx) == nil })
	b.Hold(2)
	began := time.Now()
	if err := b.Renew(ctx); err == nil || b.Valid() {
		t.Errorf("two nodes hold the lease: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	if err := b.Take(short, 2); err != nil {
		t.Fatal(err)
	}
	if since := time.Since(began); since < brief {
		t.Errorf("the lease of another node was taken after %v", since)
	}
	if a.Valid() {
		t.Error("a node holds a lease whose time is over")
	}
	if err := a.Renew(ctx); err == nil {
		t.Error("the former holder renews its lease")
	}
	await.True(t, "both nodes know the holder", func() bool {
		return b.Renew(ctx) == nil && b.Holder() == "this" && a.once(ctx) == nil && a.Holder() == "other"
	})
}

// TestEarlierTerm checks that a node of an earlier term never gets a lease that is over.
func TestEarlierTerm(t *testing.T) {
	a, b := two(t)
	ctx := t.Context()
	b.Hold(2)
	await.True(t, "the lease", func() bool { return b.Renew(ctx) == nil })
	short, cancel := context.WithTimeout(ctx, 3*brief)
	defer cancel()
	if err := a.Take(short, 1); err == nil {
		t.Error("the lease of a later term was taken")
	}
}

// TestRelease checks that a lease that was given up is free at once.
func TestRelease(t *testing.T) {
	a, b := two(t)
	ctx := t.Context()
	a.Hold(1)
	await.True(t, "the lease", func() bool { return a.Renew(ctx) == nil })
	if err := a.Release(ctx); err != nil || a.Valid() {
		t.Fatalf("released: %v", err)
	}
	b.Hold(2)
	if err := b.once(ctx); err != nil || b.seen.Holder != "b" {
		t.Errorf("a lease that was given up is of %q: %v", b.seen.Holder, err)
	}
}

// TestBehind checks that the second node is free to take over only while the holder has declared that it
// lacks nothing, and in the holder's term.
func TestBehind(t *testing.T) {
	a, b := two(t)
	ctx := t.Context()
	read := func() {
		t.Helper()
		if err := b.once(ctx); err != nil {
			t.Fatal(err)
		}
	}
	over := func() bool { return b.Holder() == "none" }
	a.Hold(1)
	await.True(t, "the lease", func() bool { return a.Renew(ctx) == nil })
	read()
	await.True(t, "the end of the lease", over)
	if !b.Behind() || b.Free(1) {
		t.Error("the second node may take over, though nothing is known of what it has")
	}
	a.ClearBehind()
	began := time.Now()
	if err := a.once(ctx); err != nil {
		t.Fatal(err)
	}
	read()
	if free := b.Free(1); free && time.Since(began) < brief { // a busy machine may be later
		t.Error("the second node may take over while the lease lasts")
	}
	await.True(t, "the end of the lease", over)
	if !b.Free(1) || b.Free(2) {
		t.Errorf("free in the holder's term: %v, in another one: %v", b.Free(1), b.Free(2))
	}
	await.True(t, "the debt at the witness", func() bool { return a.SetBehind(ctx) == nil })
	read()
	await.True(t, "the end of the lease", over)
	if b.Free(1) {
		t.Error("the second node may take over, and lacks what was acknowledged")
	}
}

// TestUnfinished checks that a node may finish a take-over that got the lease and stopped, before the first entry of
// its term or after it, and no other one.
func TestUnfinished(t *testing.T) {
	_, b := two(t)
	if err := b.Take(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if b.Free(1) || b.Free(2) {
		t.Error("a node may take over from itself")
	}
	b.Pause()
	for term, want := range []bool{false, true, true, false} {
		if got := b.Free(uint64(term)); got != want {
			t.Errorf("in term %d: free is %v, want %v", term, got, want)
		}
	}
}

// TestBucketDeleted deletes the bucket of the leases at the witness. The holder makes it again, and has its lease back.
func TestBucketDeleted(t *testing.T) {
	address := natstest.Start(t)
	l, err := Open(Options{Servers: []string{"nats://" + address}, Own: "a", Other: "b", For: brief,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.conn.Close)
	l.Hold(1)
	await.True(t, "the lease", func() bool { return l.Renew(t.Context()) == nil })
	if err := natstest.JetStream(t, "nats://"+address).DeleteKeyValue(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the end of the lease", func() bool { return !l.Valid() })
	await.True(t, "the lease in a new bucket", func() bool { return l.Renew(t.Context()) == nil })
}
