package engine

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestUndoVotes takes back what one voice did since a time, after a crash and after a
// clean stop: what others say stands, and what only that voice had decided is as
// before.
func TestUndoVotes(t *testing.T) {
	for _, clean := range []bool{false, true} {
		c := newClock()
		dir := filepath.Join(t.TempDir(), "data")
		e, st := openDurable(t, dir, Options{Now: c.Now}, nil)
		for _, name := range []string{"alice", "bob", "carol"} {
			put(t, e, name, trust.Trusted, 1, netip.Addr{})
		}
		s := func(n int) []bulkhead.Signature {
			return []bulkhead.Signature{sig(bulkhead.Exact, n),
				bulkhead.NamedSignature(bulkhead.Link, string(rune('a'+n))+".example")}
		}
		vote := func(name string, vote bulkhead.Vote, n int) { report(t, e, by(name, vote, s(n)...)) }
		vote("alice", bulkhead.Spam, 0)
		c.Advance(time.Hour)
		since := c.Now()
		vote("alice", bulkhead.Spam, 1) // hers alone
		vote("alice", bulkhead.Spam, 2) // and bob's
		vote("bob", bulkhead.Spam, 2)
		vote("carol", bulkhead.Spam, 3) // which she took off
		vote("alice", bulkhead.Revocation, 3)
		vote("carol", bulkhead.Spam, 4) // as carol herself did
		vote("carol", bulkhead.Ham, 4)
		vote("alice", bulkhead.Ham, 4)
		listed := func(when string, want ...bool) {
			t.Helper()
			for n, want := range want {
				if got := verdictOf(t, e, s(n)...).Findings[0].Judged == bulkhead.JudgedSpam; got != want {
					t.Errorf("clean=%v, %s: message %d listed %v, want %v", clean, when, n, got, want)
				}
			}
		}
		listed("before", true, true, true, false, false)
		ctx := context.Background()
		if clean {
			if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
				t.Fatal(err)
			}
		} else if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		old := e
		e, st = openDurable(t, dir, Options{Now: c.Now}, nil)
		listed("restarted", true, true, true, false, false)
		preview, err := e.PreviewUndo(ctx, "account:alice", since)
		if err != nil {
			t.Fatal(err)
		}
		listed("previewed", true, true, true, false, false)
		got, err := e.UndoVotes(ctx, "account:alice", since)
		if preview != got {
			t.Errorf("clean=%v: the preview was %+v, the result is %+v", clean, preview, got)
		}
		if err != nil || got.Off != 3 || got.On != 1 || got.Votes != 12 || got.Oldest.After(since.Add(-time.Hour)) {
			t.Errorf("clean=%v: undone %+v, %v, want 3 off, of message 1 text and pair, of 2 the link; text 3 on", clean, got,
				err)
		}
		listed("after", true, false, true, true, false)
		if got, err := e.UndoVotes(ctx, "account:alice", since); err != nil || got.Off+got.On != 0 {
			t.Errorf("clean=%v: undone twice: %+v, %v", clean, got, err)
		}
		if got, want := e.Voted([]string{"account:nobody", "account:alice"}, since), []bool{false, true}; !slices.Equal(got,
			want) {
			t.Errorf("who has voted: %v, want %v", got, want)
		}
		if got := e.Voted([]string{"account:alice"}, since.Add(1000*time.Hour)); got[0] {
			t.Error("alice has voted later")
		}
		if got, err := e.UndoVotes(ctx, "account:nobody", since); err != nil || got.Votes != 0 {
			t.Errorf("clean=%v: votes of nobody: %+v, %v", clean, got, err)
		}
		listed("again", true, false, true, true, false)
		// Her next vote counts like a first one.
		vote("alice", bulkhead.Spam, 1)
		listed("voted again", true, true, true, true, false)
		if got, err := e.UndoVotes(ctx, "account:alice", time.Time{}); err != nil || got.Off != 4 {
			t.Errorf("clean=%v: all of it: %+v, %v", clean, got, err)
		}
		listed("all", false, false, true, true, false)
		if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
			t.Fatal(err)
		}
		if !clean {
			if err := old.Close(ctx); err == nil {
				t.Error("a checkpoint into a closed store succeeded")
			}
		}
	}
}

// TestTraps: a trap needs a second witness: a trap that another network wrote to, or a reporter.
// The senders of mail to a trap cause its votes.
func TestTraps(t *testing.T) {
	trap := func(client string, n int) bulkhead.Report {
		return bulkhead.Report{
			Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Vote: bulkhead.Spam, Trap: true,
			Source: bulkhead.Source{Client: netip.MustParseAddr(client)},
		}
	}
	e := open(t, Options{})
	for i, step := range []struct {
		report bulkhead.Report
		listed bool
	}{
		{trap("192.0.2.1", 1), false},
		{trap("192.0.2.9", 1), false},
		{trap("2001:db8:1::1", 1), true},
		{trap("192.0.2.1", 2), false},
		{bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 2)}, Vote: bulkhead.Spam}, true},
	} {
		report(t, e, step.report)
		if f := verdictOf(t, e, step.report.Signatures...).Findings[0]; (f.Judged == bulkhead.JudgedSpam) != step.listed {
			t.Errorf("step %d: %+v, want listed %v", i, f, step.listed)
		}
	}
}
