package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// publishedText is the state of a text in TestVotesPublishedFrom.
type publishedText struct {
	votes map[int]bulkhead.Vote // the latest of each voter
	shown bool                  // peers see it as listed
}

func (x *publishedText) voters(spam bool) (n int) {
	for _, v := range x.votes {
		if (v == bulkhead.Spam) == spam {
			n++
		}
	}
	return n
}

// TestVotesPublishedFrom: a peer lists a signature of the node's list as soon as it has the configured
// number of voters, until the node takes it off, and nothing else. The node's own list does not
// depend on that number. The test covers weeks, changes of the secret and of the number, retracted
// votes, kills and restarts, by rounds and by images.
func TestVotesPublishedFrom(t *testing.T) {
	for _, k := range []uint32{1, 2, 3} {
		t.Run(fmt.Sprint(k), func(t *testing.T) { testVotesPublishedFrom(t, k) })
	}
}

func testVotesPublishedFrom(t *testing.T, k uint32) {
	const texts, voters, week = 60, 6, 7 * 24 * time.Hour
	rng := rand.New(rand.NewPCG(31, uint64(k)))
	ctx, c := t.Context(), newClock()
	opts := Options{Now: c.Now, Block: BookOptions{Generation: week, Keep: 12, Capacity: 2000, Error: 1e-9, Floor: k}}
	dir := filepath.Join(t.TempDir(), "data")
	a, st := openDurable(t, dir, opts, nil)
	plain := opts
	plain.Block.Floor = 0
	same, b := open(t, plain), open(t, plain) // same takes all reports that a does
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	for n := range voters {
		x := trust.Account{Name: fmt.Sprint("voter", n), Role: trust.Trusted, Weight: 1}
		if err := errors.Join(a.PutAccount(ctx, x), same.PutAccount(ctx, x)); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]publishedText, texts)
	for n := range all {
		all[n].votes = make(map[int]bulkhead.Vote)
	}
	listed := func(e *Engine, n int) bool {
		return verdictOf(t, e, sig(bulkhead.Exact, n)).Findings[0].Judged == bulkhead.JudgedSpam
	}
	publishedOff := 0
	after := func(n int, was, counted, spam bool) { // something was done about a text
		x, now := &all[n], listed(a, n)
		if now != listed(same, n) {
			t.Fatalf("text %d is listed: %v, and %v without a number", n, now, !now)
		}
		switch {
		case !now:
			if x.shown {
				publishedOff++
			}
			x.shown = false
		case (spam && counted || !was) && x.voters(true) >= int(k):
			x.shown = true
		}
	}
	vote := func() {
		n, by := int(texts*rng.Float64()*rng.Float64()), rng.IntN(voters)
		v := []bulkhead.Vote{bulkhead.Spam, bulkhead.Spam, bulkhead.Ham, bulkhead.Revocation}[rng.IntN(4)]
		r := bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Vote: v,
			Reporter: bulkhead.Reporter{Account: fmt.Sprint("voter", by)}}
		was := listed(a, n)
		receipt := report(t, a, r)
		if got := report(t, same, r); got != receipt {
			t.Fatalf("%+v, and %+v without a number", receipt, got)
		}
		all[n].votes[by] = v
		after(n, was, receipt.Counted > 0, v == bulkhead.Spam)
	}
	undo := func() {
		by := rng.IntN(voters)
		was := make([]bool, texts)
		for n := range all {
			was[n] = listed(a, n)
		}
		voice := fmt.Sprint("account:voter", by)
		for _, e := range []*Engine{a, same} {
			if _, err := e.UndoVotes(ctx, voice, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range all {
			if _, ok := all[n].votes[by]; ok {
				delete(all[n].votes, by)
				after(n, was[n], false, false)
			}
		}
	}
	compare := func(what string) {
		t.Helper()
		hidden := 0
		for n := range all {
			if got := listed(b, n); got != all[n].shown {
				t.Fatalf("%s: a peer lists text %d: %v, want %v; %v voted", what, n, got, !got, all[n].votes)
			}
			if listed(a, n) && !all[n].shown {
				hidden++
			}
		}
		if (hidden > 0) != (k > 1) && what != "step 0" {
			t.Errorf("%s: %d texts are listed and not told", what, hidden)
		}
	}
	rekeyed := false
	for step := range 32 {
		if step%6 == 5 {
			c.Advance(week)
		}
		if step == 20 {
			rekeyed = true // from here on votes cannot be taken back
			had, next := a.Secrets(), filter.Secret{7}
			for _, e := range []*Engine{a, same, b} {
				if err := e.RekeyAll(ctx, next); err != nil {
					t.Fatal(err)
				}
			}
			opts.Secret, opts.Past, opts.Former = next, had, had
		}
		for range 20 {
			vote()
		}
		if step%5 == 2 && !rekeyed {
			undo()
		}
		if step%4 == 3 { // killed, or stopped
			if step%8 == 3 {
				if step%16 == 3 {
					writeCheckpoint(t, a)
				}
			} else if err := a.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			a.Close(context.Background())
			a, st = openDurable(t, dir, opts, nil)
			if err := a.Record(ctx, true); err != nil {
				t.Fatal(err)
			}
			transfer(t, a, b, "a")
		} else {
			pass(t, a, b, "a")
		}
		sameArrays(t, a, b, "a")
		compare(fmt.Sprint("step ", step))
	}
	if publishedOff < 10 {
		t.Errorf("peers were told %d times that something is off the list", publishedOff)
	}
	if err := errors.Join(a.Close(ctx), st.Close()); err != nil {
		t.Error(err)
	}
}

// TestVotesPublishedFromChanges: a changed number applies to a new generation, which opens at once.
// Peers also see when a listing that they got from an older generation is taken off.
func TestVotesPublishedFromChanges(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "data")
	c := newClock()
	opts := small(Options{Now: c.Now})
	b := open(t, Options{Now: c.Now})
	if err := b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	early, late := sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2)
	var want []uint32 // newest first
	for n, floor := range []uint32{0, 1, 2, 2, 3, 1} {
		opts.Block.Floor = floor
		e, st := openDurable(t, dir, opts, nil)
		if err := e.Record(ctx, true); err != nil {
			t.Fatal(err)
		}
		by := func(name string, vote bulkhead.Vote, s bulkhead.Signature) {
			t.Helper()
			if err := e.PutAccount(ctx, trust.Account{Name: name, Role: trust.Trusted, Weight: 1}); err != nil {
				t.Fatal(err)
			}
			report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: vote,
				Reporter: bulkhead.Reporter{Account: name}})
		}
		switch n {
		case 0:
			by("ann", bulkhead.Spam, early)
		case 2: // a listing shared before there was a number
			by("bob", bulkhead.Revocation, early)
			by("ann", bulkhead.Spam, late)
		case 4:
			by("bob", bulkhead.Spam, late)
		case 5:
			by("eve", bulkhead.Spam, late)
		default:
			by("ann", bulkhead.Spam, sig(bulkhead.Exact, 10+n))
		}
		if n == 0 || floor != max(1, want[0]) {
			want = append([]uint32{max(1, floor)}, want...)
		}
		var got []uint32
		for _, g := range e.current.View().Block.Live {
			got = append(got, max(1, g.Floor))
			if (g.PublishedSpam != nil) != (g.Floor > 1) {
				t.Errorf("generation with the number %d: published %v", g.Floor, g.PublishedSpam)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("numbers %v, want %v", got, want)
		}
		for i, g := range e.Info().Blocklist {
			arrays := map[string]bool{}
			for _, a := range g.Arrays {
				arrays[a.Name] = true
			}
			if shown := want[i] > 1; arrays["listed"] != shown || arrays["unlisted"] != shown || !arrays["spam"] ||
				!arrays["revoked"] {
				t.Errorf("arrays %v with the number %d", arrays, want[i])
			}
		}
		transfer(t, e, b, "a")
		f := verdictOf(t, b, early, late).Findings
		if spam := f[0].Judged == bulkhead.JudgedSpam; spam != (n < 2) {
			t.Errorf("round %d: a peer lists what was told before: %v", n, spam)
		}
		if spam := f[1].Judged == bulkhead.JudgedSpam; spam != (n == 5) {
			t.Errorf("round %d: a peer lists what was not told: %v", n, spam)
		}
		if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
