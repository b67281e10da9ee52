package recent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

var (
	own      = bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}
	stranger = bulkhead.Reporter{Addr: netip.MustParseAddr("192.0.2.7")}
	neighbor = bulkhead.Reporter{Addr: netip.MustParseAddr("192.0.2.8")}
	other    = bulkhead.Reporter{Addr: netip.MustParseAddr("198.51.100.7")}
	closed   = bulkhead.Reporter{Account: "closed"}
)

func shows(r bulkhead.Reporter) (Space, bool) {
	switch {
	case r.Account == "closed":
		return "", false
	case !r.Addr.IsValid() || r.Addr.IsLoopback():
		return "", true
	}
	p, err := r.Addr.Prefix(24)
	return Space(p.String()), err == nil
}

// TestClearinghouse checks that a clearinghouse with a memory in front still behaves as one.
func TestClearinghouse(t *testing.T) {
	white := sig(bulkhead.Exact, "white")
	bulkheadtest.Suite{White: white, Open: func(testing.TB) bulkhead.Clearinghouse {
		tally := prototest.NewTally(3)
		tally.White = map[bulkhead.Signature]bool{white: true}
		return New(tally, NewTable(1<<20, time.Hour, nil), shows)
	}}.Run(t)
}

// A desk is a House in front of an exact clearinghouse.
type desk struct {
	*testing.T
	behind *prototest.House
	*House
}

func newDesk(t *testing.T) *desk {
	behind := &prototest.House{}
	return &desk{t, behind, New(bulkhead.CounterOf(behind), NewTable(1<<20, time.Hour, nil), shows)}
}

func (d *desk) see(who bulkhead.Reporter, m []bulkhead.Signature) {
	d.Helper()
	if _, err := d.Check(d.Context(), bulkhead.Query{Signatures: m, Reporter: who}); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) vote(who bulkhead.Reporter, vote bulkhead.Vote, sigs ...bulkhead.Signature) {
	d.Helper()
	if _, err := d.Report(d.Context(), bulkhead.Report{Signatures: sigs, Vote: vote, Reporter: who}); err != nil {
		d.Fatal(err)
	}
}

// judged returns the judgement of the clearinghouse behind on a single signature.
func (d *desk) judged(s bulkhead.Signature) bulkhead.Judgement {
	d.Helper()
	v, err := d.behind.Check(d.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{s}})
	if err != nil {
		d.Fatal(err)
	}
	return v.Judged
}

// TestVoteActsOnTheMessage checks that a vote by a digest acts on the whole message, if the
// voter's space, or the node's own, has seen it.
func TestVoteActsOnTheMessage(t *testing.T) {
	m := message("a", "a.example")
	for _, tt := range []struct {
		name          string
		shows, votes  bulkhead.Reporter
		sighting, any bool // the message was counted, the vote acts on it
	}{
		{"asked for", own, own, false, true},
		{"counted", own, own, true, true},
		{"by a stranger", own, stranger, false, true},
		{"shown by a stranger", stranger, own, false, false},
		{"by who showed it", stranger, stranger, true, true},
		{"by his network", stranger, neighbor, false, true},
		{"by another", stranger, other, false, false},
		{"shown by who may not", closed, own, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			if d.see(tt.shows, m); tt.sighting {
				d.vote(tt.shows, bulkhead.Sighting, m...)
			}
			d.vote(tt.votes, bulkhead.Spam, m[5])
			for i, s := range m {
				if got, want := d.judged(s) == bulkhead.JudgedSpam, tt.any || i == 5; got != want {
					t.Errorf("%v is listed: %v, want %v", s, got, want)
				}
			}
			d.vote(tt.votes, bulkhead.Revocation, m[5])
			for _, s := range m {
				if d.judged(s) == bulkhead.JudgedSpam {
					t.Errorf("%v is still listed", s)
				}
			}
		})
	}
}

// TestVotesOnSeveral checks that digests of several messages in one report are votes on each
// message, and that no vote has signatures of another message.
func TestVotesOnSeveral(t *testing.T) {
	d := newDesk(t)
	a, b := message("a", "a.example"), message("b", "b.example")
	unseen := sig(bulkhead.DCCBody, "never seen")
	d.see(own, a)
	d.see(own, b)
	d.vote(own, bulkhead.Spam, a[6], unseen, b[6], a[5])
	reports := d.behind.Reports()
	if len(reports) != 3 {
		t.Fatalf("%d reports, want 3", len(reports))
	}
	for _, want := range [][]bulkhead.Signature{a, b, {unseen}} {
		if !slices.ContainsFunc(reports, func(r bulkhead.Report) bool {
			return slices.Equal(r.Signatures, want) && r.Vote == bulkhead.Spam
		}) {
			t.Errorf("no report of %v among %v", want, reports)
		}
	}
	d.vote(own, bulkhead.Ham, a[6], sig(bulkhead.RazorE8, "host"), a[3])
	if last := d.behind.Reports()[3:]; len(last) != 1 || len(last[0].Signatures) != len(a)+1 {
		t.Errorf("a link that came with the digests is reported apart: %v", last)
	}
}

// TestNothingToJoin checks that a sighting by a digest, and a vote on an unknown message, pass
// unchanged.
func TestNothingToJoin(t *testing.T) {
	d := newDesk(t)
	m := message("a", "a.example")
	d.see(own, m)
	d.vote(own, bulkhead.Sighting, m[6])
	d.vote(own, bulkhead.Spam, m[4])
	for i, want := range []bulkhead.Signature{m[6], m[4]} {
		if got := d.behind.Reports()[i].Signatures; len(got) != 1 || got[0] != want {
			t.Errorf("report %d is of %v, want %v", i, got, want)
		}
	}
}

// TestWhite checks that whitelisted messages are not remembered, so they cannot be voted on.
func TestWhite(t *testing.T) {
	d := newDesk(t)
	m := message("a", "a.example")
	d.behind.White = map[bulkhead.Signature]bool{m[0]: true}
	d.see(own, m)
	d.vote(own, bulkhead.Spam, m[5])
	if d.judged(m[9]) == bulkhead.JudgedSpam {
		t.Error("the link of a whitelisted message was voted on by its digest")
	}
}

// TestQuestions checks that a query by a digest is answered for the whole message, alone, in
// a batch and through Look.
func TestQuestions(t *testing.T) {
	d := newDesk(t)
	a, b := message("a", "a.example"), message("b", "b.example")
	d.see(own, a)
	d.see(own, b)
	d.vote(own, bulkhead.Spam, a[9]) // a link of one
	queries := []bulkhead.Query{{Signatures: a[6:7]}, {Signatures: b[6:7]}, {Signatures: a[5:6]}, {Signatures: a}}
	want := []bulkhead.Class{bulkhead.ClassSpam, bulkhead.ClassUnknown, bulkhead.ClassUnknown, bulkhead.ClassSpam}
	verdicts := make([]bulkhead.Verdict, len(queries))
	if err := d.CheckBatch(t.Context(), queries, verdicts); err != nil {
		t.Fatal(err)
	}
	for i, q := range queries {
		one, err := d.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []bulkhead.Verdict{one, verdicts[i]} {
			if v.Class != want[i] || len(v.Findings) != len(q.Signatures) || v.Findings[0].Signature != q.Signatures[0] {
				t.Errorf("query %d: class %v, %d findings; want %v, %d", i, v.Class, len(v.Findings), want[i], len(q.Signatures))
			}
		}
	}
	looks := make([]bulkhead.Look, 3)
	if err := d.Look(t.Context(), []bulkhead.Signature{a[6], b[6], a[9]}, looks, bulkhead.Judgements); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bulkhead.Judgement{bulkhead.JudgedSpam, bulkhead.Unjudged, bulkhead.JudgedSpam} {
		if looks[i].Judged != want {
			t.Errorf("look %d: %+v, want %v", i, looks[i], want)
		}
	}
	if n := d.Stats.Checks.Load(); n < 3 {
		t.Errorf("%d questions were joined", n)
	}
}

// TestSeenAfter checks that a digest that was reported gets the same answer after the message was
// seen whole, alone and in a batch, unless there is evidence for the message.
func TestSeenAfter(t *testing.T) {
	for _, tt := range []struct {
		name  string
		whole bulkhead.Verdict // verdict on the whole message
		want  bulkhead.Class
	}{
		{"suspected", bulkhead.Verdict{Class: bulkhead.ClassSuspected}, bulkhead.ClassSpam},
		{"unknown", bulkhead.Verdict{}, bulkhead.ClassSpam},
		{"bulk", bulkhead.Verdict{Class: bulkhead.ClassBulk}, bulkhead.ClassSpam},
		{"wanted", bulkhead.Verdict{Class: bulkhead.ClassGood}, bulkhead.ClassGood},
		{"whitelisted", bulkhead.Verdict{Whitelisted: "by a test"}, bulkhead.ClassUnknown},
		{"revoked", bulkhead.Verdict{Judged: bulkhead.Revoked}, bulkhead.ClassUnknown},
	} {
		d := newDesk(t)
		m := message("a", "a.example")
		d.vote(own, bulkhead.Spam, m[5])
		d.see(own, m)
		d.House.Counter = ruling{d.House.Counter, tt.whole}
		query := bulkhead.Query{Signatures: m[5:6]}
		one, err := d.Check(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		batch := make([]bulkhead.Verdict, 1)
		if err := d.CheckBatch(t.Context(), []bulkhead.Query{query}, batch); err != nil {
			t.Fatal(err)
		}
		if one.Class != tt.want || batch[0].Class != tt.want || len(one.Findings) != 1 || len(batch[0].Findings) != 1 {
			t.Errorf("%s: %v, in a batch %v, want %v", tt.name, one.Class, batch[0].Class, tt.want)
		}
	}
}

// A ruling is a Counter with its own verdict on every message of more than one signature.
type ruling struct {
	bulkhead.Counter
	whole bulkhead.Verdict
}

func (r ruling) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := r.Counter.Check(ctx, q)
	if len(q.Signatures) > 1 {
		v.Class, v.Judged, v.Whitelisted = r.whole.Class, r.whole.Judged, r.whole.Whitelisted
	}
	return v, err
}

// TestErrors checks that an error or a panic in one vote is the error of the report.
func TestErrors(t *testing.T) {
	d := newDesk(t)
	a, b := message("a", "a.example"), message("b", "b.example")
	d.see(own, a)
	d.see(own, b)
	r := bulkhead.Report{Signatures: []bulkhead.Signature{a[6], b[6]}, Vote: bulkhead.Spam}
	d.behind.Fail(prototest.ErrFault)
	if _, err := d.Report(t.Context(), r); !errors.Is(err, prototest.ErrFault) {
		t.Errorf("error %v, want that of the house behind", err)
	}
	d.House.Counter = panicking{}
	if _, err := d.Report(t.Context(), r); err == nil {
		t.Error("a vote that panicked has no error")
	}
}

type panicking struct{ bulkhead.Counter }

func (panicking) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) { panic("a bug") }
