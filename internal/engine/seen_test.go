package engine

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// week is a tally of seven days.
var week = BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 20_000, Error: 1e-3}

// TestStandingIsDelivered: mail that came in on days before gives its sender a good
// standing; what was called spam when it came does not, unless its text alone was.
func TestStandingIsDelivered(t *testing.T) {
	sender, attachment := bulkhead.NamedSignature(bulkhead.Sender, "shop.example"), sig(bulkhead.Attachment, 5)
	for _, tt := range []struct {
		name   string
		listed bulkhead.Signature // by two, before the mail comes
		by     bulkhead.Reporter  // of the sightings
		class  bulkhead.Class     // of later mail of the sender
	}{
		{"nothing against it", sig(bulkhead.Exact, 9), bulkhead.Reporter{}, bulkhead.ClassGood},
		{"a listed attachment", attachment, bulkhead.Reporter{}, bulkhead.ClassUnknown},
		{"a listed text", sig(bulkhead.Exact, 1), bulkhead.Reporter{}, bulkhead.ClassGood},
		{"seen by an account that the administrator vouches for", sig(bulkhead.Exact, 9), bulkhead.Reporter{Account: "a"},
			bulkhead.ClassGood},
		{"seen by a stranger", sig(bulkhead.Exact, 9), bulkhead.Reporter{Addr: netip.MustParseAddr("192.0.2.1")},
			bulkhead.ClassUnknown},
	} {
		c := newClock()
		e := open(t, Options{Now: c.Now, Tally: week})
		for _, name := range []string{"a", "b"} {
			put(t, e, name, trust.Trusted, 1, netip.Addr{})
			report(t, e, by(name, bulkhead.Spam, tt.listed))
		}
		for n := range 4 { // the last of them today
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1), sender, attachment},
				Recipients: []string{fmt.Sprint("ann", n), fmt.Sprint("bob", n), fmt.Sprint("cay", n), fmt.Sprint("dan", n)},
				Reporter:   tt.by})
			c.Advance(24 * time.Hour)
		}
		if got := verdictOf(t, e, sig(bulkhead.Exact, 2), sender); got.Class != tt.class {
			t.Errorf("%s: later mail of the sender is %v, want %v: %q", tt.name, got.Class, tt.class, got.Reasons)
		}
	}
}

// TestGuardedText: a text that senders of good standing sent is not condemned by its
// digests alone, nor in a look.
func TestGuardedText(t *testing.T) {
	for _, copies := range []int{2, 3} {
		c := newClock()
		e := open(t, Options{Now: c.Now, Tally: week})
		put(t, e, "a", trust.Trusted, 1, netip.Addr{})
		sender, text := bulkhead.NamedSignature(bulkhead.Sender, "bank.example"), sig(bulkhead.PyzorDigest, 1)
		for n := range 4 {
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 10+n), sender}})
			c.Advance(24 * time.Hour)
		}
		for n := range copies {
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1), text, sender},
				Recipients: []string{fmt.Sprint("user", n)}})
		}
		report(t, e, by("a", bulkhead.Spam, text))
		want := copies < 3
		if got := verdictOf(t, e, text); got.Spam() != want {
			t.Errorf("%d copies from a known sender: spam %v: %q", copies, got.Spam(), got.Reasons)
		}
		looks := make([]bulkhead.Look, 1)
		if err := e.Look(t.Context(), []bulkhead.Signature{text}, looks, bulkhead.Judgements); err != nil ||
			(looks[0].Judged == bulkhead.JudgedSpam) != want {
			t.Errorf("%d copies from a known sender: a look says %+v, %v", copies, looks[0], err)
		}
	}
}

// TestCounters: what a node has done is counted: checks of clients, reports that were
// taken, and those that were refused.
func TestCounters(t *testing.T) {
	e := open(t, Options{Trust: trust.DefaultPolicy()})
	s := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
	for n := range 3 {
		report(t, e, bulkhead.Report{Signatures: s}) // which judges, and is no check
		verdictOf(t, e, s...)
		if err := e.CheckBatch(t.Context(), []bulkhead.Query{{Signatures: s}, {Signatures: s}},
			make([]bulkhead.Verdict, 2)); err != nil {
			t.Fatal(err)
		}
		looks := make([]bulkhead.Look, 1)
		for _, what := range []bulkhead.Aspect{bulkhead.Counts, bulkhead.Counts | bulkhead.Aside} {
			if err := e.Look(t.Context(), s, looks, what); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Count(t.Context(), s, []uint32{1}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []bulkhead.Report{{}, {Signatures: s, Vote: bulkhead.Spam,
			Reporter: bulkhead.Reporter{Account: "nobody"}}} {
			if _, err := e.Report(t.Context(), r); err == nil {
				t.Fatalf("%+v was taken", r)
			}
		}
		if err := e.Count(t.Context(), s, []uint32{0}); err == nil {
			t.Fatal("a count of nothing was taken")
		}
		info := e.Info()
		if want := uint64(n + 1); info.Checks != 4*want || info.Reports != 2*want || info.Refused != 3*want {
			t.Errorf("after %d rounds: %d checks, %d reports, %d refused; want %d, %d, %d", want, info.Checks, info.Reports,
				info.Refused, 4*want, 2*want, 3*want)
		}
	}
}

// TestInfo: what each array holds, and the memory of all.
func TestInfo(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Threshold: 7})
	put(t, e, "a", trust.Trusted, 1, netip.Addr{})
	report(t, e, by("a", bulkhead.Spam, sig(bulkhead.Exact, 1), bulkhead.NamedSignature(bulkhead.Link, "evil.example")))
	report(t, e, by("a", bulkhead.Revocation, sig(bulkhead.Exact, 1)))
	report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 2),
		bulkhead.NamedSignature(bulkhead.Link, "shop.example")}, ID: "1"})
	info := e.Info()
	if info.Threshold != 7 || info.Accounts != 1 || info.Refusing != "" || info.Forgotten+info.Recoveries != 0 {
		t.Errorf("%+v", info)
	}
	var bytes uint64
	for _, g := range slices.Concat(info.Tally, info.Blocklist) {
		if c.Now().Before(g.Start) || c.Now().Sub(g.Start) > 7*24*time.Hour || g.Capacity == 0 {
			t.Errorf("generation %+v", g)
		}
		for _, a := range g.Arrays {
			bytes += a.Bytes
			if a.Keys == 0 || a.Keys > 20 || a.Fill <= 0 || a.Fill > 0.1 || a.Bytes == 0 || a.Geometry == "" || a.Ghost < 0 ||
				a.Ghost > 1e-6 {
				t.Errorf("array %+v of few keys", a)
			}
		}
	}
	if info.Bytes != bytes {
		t.Errorf("%d bytes, want the sum %d", info.Bytes, bytes)
	}
	names := func(g GenerationInfo) (out []string) {
		for _, a := range g.Arrays {
			out = append(out, a.Name)
		}
		return out
	}
	if got := fmt.Sprint(names(info.Tally[0]),
		names(info.Blocklist[0])); got != "[counts unique] [spam revoked weights votes names]" {
		t.Errorf("arrays %s", got)
	}
}

// TestErrorFollowsFill: the error that a verdict states is the share of strangers' signatures
// that the arrays show, and grows with what they hold.
func TestErrorFollowsFill(t *testing.T) {
	e := open(t, Options{Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 2000, Error: 0.2}})
	known := sig(bulkhead.Exact, 0)
	last := 0.0
	for n := range 4 {
		var sigs []bulkhead.Signature
		var by []uint32
		for i := range 500 {
			sigs, by = append(sigs, sig(bulkhead.Exact, 500*n+i)), append(by, 1)
		}
		if err := e.Count(t.Context(), sigs, by); err != nil {
			t.Fatal(err)
		}
		e.checker.Measure()
		got := verdictOf(t, e, known).Findings[0].Error
		if got <= last || got > 1 {
			t.Errorf("after %d signatures the error is %v, before it was %v", 500*(n+1), got, last)
		}
		last = got
	}
	const asked = 20_000
	wrong := 0
	looks := make([]bulkhead.Look, 1)
	for i := range asked {
		if err := e.Look(t.Context(), []bulkhead.Signature{sig(bulkhead.Exact, 100_000+i)}, looks,
			bulkhead.Counts); err != nil {
			t.Fatal(err)
		}
		if looks[0].Sightings > 0 {
			wrong++
		}
	}
	one := make([]bulkhead.Look, 1)
	if err := e.Look(t.Context(), []bulkhead.Signature{known}, one, bulkhead.Counts); err != nil {
		t.Fatal(err)
	}
	share := float64(wrong) / asked
	if math.Abs(share-one[0].Error) > 0.2*share+4*math.Sqrt(share/asked) {
		t.Errorf("%v of unknown signatures are shown, the error says %v", share, one[0].Error)
	}
}

// TestUndoMany: all votes of a voice are undone, regardless of the number of signatures, but not
// after the node has closed.
func TestUndoMany(t *testing.T) {
	c := newClock()
	e, err := Open(t.Context(), small(Options{Now: c.Now, Votes: 200_000}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.UndoVotes(t.Context(), "account:a", c.Now()); err != nil || got != (Undone{}) {
		t.Errorf("of a node without votes: %+v, %v", got, err)
	}
	put(t, e, "a", trust.Trusted, 1, netip.Addr{})
	put(t, e, "b", trust.Trusted, 1, netip.Addr{})
	const each = 1000
	for n := range 3 {
		var sigs []bulkhead.Signature
		for i := range each {
			sigs = append(sigs, sig(bulkhead.RazorE8, each*n+i))
		}
		report(t, e, by("a", bulkhead.Spam, sigs...))
		c.Advance(time.Minute)
	}
	report(t, e, by("b", bulkhead.Spam, sig(bulkhead.RazorE8, 0)))
	oldest := c.Now().Add(-3 * time.Minute).UTC()
	for range 2 { // the first changes nothing
		if got, err := e.PreviewUndo(t.Context(), "account:a", oldest.Add(30*time.Second)); err != nil ||
			got != (Undone{Votes: 2 * each, Off: 2 * each, Oldest: oldest}) {
			t.Errorf("preview since half a minute later: %+v, %v", got, err)
		}
	}
	if got := e.Votes("account:a"); got != 3*each {
		t.Errorf("account a has votes on %d signatures, want %d", got, 3*each)
	}
	if got, err := e.UndoVotes(t.Context(), "account:a", oldest.Add(30*time.Second)); err != nil ||
		got != (Undone{Votes: 2 * each, Off: 2 * each, Oldest: oldest}) {
		t.Errorf("since half a minute later: %+v, %v", got, err)
	}
	if got, err := e.UndoVotes(t.Context(), "account:a", oldest); err != nil || got.Off != each-1 {
		t.Errorf("all: %+v, %v; want all but one off", got, err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.PreviewUndo(t.Context(), "account:a", oldest); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("preview of a closed node: %v", err)
	}
	if _, err := e.UndoVotes(t.Context(), "account:a", oldest); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("of a closed node: %v", err)
	}
}

// TestOriginNames: an origin is renamed to a valid name, and to nothing else.
func TestOriginNames(t *testing.T) {
	e := open(t, Options{})
	if err := e.SetOrigins(t.Context(), []Origin{{ID: "old", Weight: 1}, {ID: "other", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "a b", "../x", "other", strings.Repeat("x", 65)} {
		if err := e.RenameOrigin(t.Context(), "old", bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("renamed to %.20q: %v", bad, err)
		}
	}
	if err := e.RenameOrigin(t.Context(), "nobody", "new"); err == nil {
		t.Error("an origin that is none was renamed")
	}
	if err := e.RenameOrigin(t.Context(), "old", strings.Repeat("x", 64)); err != nil {
		t.Error(err)
	}
}

// TestInside: spam that imitates a text which comes every day from a private address makes the next copy from there
// suspected at most.
func TestInside(t *testing.T) {
	c := newClock()
	e := open(t, Options{Now: c.Now, Tally: week})
	copyOf := func(n int) []bulkhead.Signature {
		return []bulkhead.Signature{sig(bulkhead.Exact, n), sig(bulkhead.Near, 1), sig(bulkhead.Near, 2),
			sig(bulkhead.Near, 3)}
	}
	outside := bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")
	inside := bulkhead.Source{Client: netip.MustParseAddr("192.168.1.20")}
	for n := range 3 {
		report(t, e, bulkhead.Report{Signatures: copyOf(n), Source: inside, Recipients: []string{"ann", "bob"}})
		c.Advance(24 * time.Hour)
	}
	for n, name := range []string{"a", "b"} {
		put(t, e, name, trust.Trusted, 1, netip.Addr{})
		report(t, e, by(name, bulkhead.Spam, append(copyOf(10+n), outside)...))
	}
	for client, want := range map[string]string{"192.168.1.20": "usual-text", "127.0.0.1": "usual-text",
		"192.0.2.5": "two-votes", "": "two-votes"} {
		q := bulkhead.Query{Signatures: copyOf(20)}
		if client != "" {
			q.Source.Client = netip.MustParseAddr(client)
		}
		if v, err := e.Check(t.Context(), q); err != nil || v.Rule != want {
			t.Errorf("from %q: %v by %s, %v, want %s", client, v.Class, v.Rule, err, want)
		}
	}
}
