package engine

import (
	"bytes"
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
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestFloorShared: a peer counts what the node has counted as often as the floor in a generation, with
// all of its counts, and nothing else: over days, changes of the secret, kills and restarts,
// whether rounds or images bring it.
func TestFloorShared(t *testing.T) {
	const floor, texts, day = 3, 400, 24 * time.Hour
	rng := rand.New(rand.NewPCG(21, 22))
	ctx, c := t.Context(), newClock()
	opts := Options{Now: c.Now, Tally: BookOptions{Generation: day, Keep: 5, Capacity: 20_000, Error: 1e-6, Floor: floor}}
	dir := filepath.Join(t.TempDir(), "data")
	a, st := openDurable(t, dir, opts, nil)
	opts.Tally.Floor = 0
	b := open(t, Options{Now: c.Now, Tally: opts.Tally})
	opts.Tally.Floor = floor
	if err := errors.Join(a.Record(ctx, true), b.SetOrigins(ctx, []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	var truth []map[int]uint32 // of each generation
	compare := func(what string) {
		t.Helper()
		hidden := 0
		for n := range texts {
			all, shared := uint32(0), uint32(0)
			for _, g := range truth {
				if all += g[n]; g[n] >= floor {
					shared += g[n]
				}
			}
			if all > shared {
				hidden++
			}
			if got := verdictOf(t, a, sig(bulkhead.Exact, n)).Findings[0].Sightings; got != all {
				t.Fatalf("%s: the node shows %d sightings of %d, want %d", what, got, n, all)
			}
			if got := verdictOf(t, b, sig(bulkhead.Exact, n)).Findings[0].Sightings; got != shared {
				t.Fatalf("%s: a peer shows %d sightings of %d, want %d of %d", what, got, n, shared, all)
			}
		}
		if hidden < texts/10 {
			t.Fatalf("%s: only %d texts are below the floor", what, hidden)
		}
	}
	for step := range 24 {
		if step%6 == 0 { // another day
			if step > 0 {
				c.Advance(day)
			}
			truth = append(truth, make(map[int]uint32))
		}
		if step == 10 {
			had, next := a.Secrets(), filter.Secret{7}
			if err := errors.Join(a.RekeyAll(ctx, next), b.RekeyAll(ctx, next)); err != nil {
				t.Fatal(err)
			}
			opts.Secret, opts.Past, opts.Former = next, had, had
			truth = append(truth, make(map[int]uint32)) // generations open with a new secret
		}
		for range 60 {
			n, count := int(texts*rng.Float64()*rng.Float64()), uint32(1)
			if rng.IntN(10) == 0 {
				count = 1 + rng.Uint32N(20)
			}
			report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Count: count})
			truth[len(truth)-1][n] += count
		}
		switch {
		case step%4 == 3: // killed, or stopped
			if step%8 == 3 {
				writeCheckpoint(t, a)
			} else if err := a.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(st.Close()); err != nil {
				t.Fatal(err)
			}
			a.Close(context.Background())
			a, st = openDurable(t, dir, opts, nil)
			if err := a.Record(ctx, true); err != nil {
				t.Fatal(err)
			}
			transfer(t, a, b, "a")
		case step%2 == 0:
			continue // goes with the next
		default:
			pass(t, a, b, "a")
		}
		sameArrays(t, a, b, "a")
		compare(fmt.Sprint("step ", step))
	}
	if err := errors.Join(a.Close(ctx), st.Close()); err != nil {
		t.Error(err)
	}
}

// TestFloorOfVotes: a listing by a vote is shared at once, even without other sightings.
func TestFloorOfVotes(t *testing.T) {
	c := newClock()
	a, b := open(t, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 20_000,
		Error: 1e-3, Floor: 2}}), open(t, Options{Now: c.Now})
	if err := errors.Join(a.Record(t.Context(), true),
		b.SetOrigins(t.Context(), []Origin{{ID: "a", Weight: 1}})); err != nil {
		t.Fatal(err)
	}
	s := sig(bulkhead.Exact, 1)
	for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Revocation} {
		report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{s}, Vote: vote})
		pass(t, a, b, "a")
		f := verdictOf(t, b, s).Findings[0]
		if spam := f.Judged == bulkhead.JudgedSpam; spam != (vote == bulkhead.Spam) || f.Spam != 0 || f.Sightings != 0 {
			t.Errorf("after %v: %+v", vote, f)
		}
	}
}

// TestFloorChanges: a changed floor applies to a new generation, which opens at once; existing
// generations keep theirs.
func TestFloorChanges(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "data")
	opts := small(Options{})
	var want []uint32 // newest first
	for n, floor := range []uint32{1, 1, 2, 2, 5, 0} {
		opts.Tally.Floor = floor
		e, st := openDurable(t, dir, opts, nil)
		if n%2 == 0 || floor == 0 {
			want = append([]uint32{floor}, want...)
		}
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, n)}, Count: 4})
		var got, keys []uint32
		for _, g := range e.current.View().Tally.Live {
			got = append(got, max(1, g.Floor))
			keys = append(keys, uint32(g.Counts.(*arrays.Counting).Above().Keys()))
		}
		for i := range want {
			want[i] = max(1, want[i])
		}
		if !slices.Equal(got, want) || (keys[0] == 0) != (floor > 4) {
			t.Errorf("floor %d: generations with floors %v, and %v keys above; want %v", floor, got, keys, want)
		}
		if err := errors.Join(e.Close(ctx), st.Close()); err != nil {
			t.Fatal(err)
		}
	}
	opts.Tally.Floor = arrays.MaxFloor + 1
	if _, err := Open(ctx, opts); err == nil {
		t.Error("a floor above what an array can have")
	}
}

// TestNoPagesBelowFloors: a replica rejects a page in the form that it has on the origin's disk.
func TestNoPagesBelowFloors(t *testing.T) {
	a, b := pair(t, 1)
	report(t, a, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}})
	parts, own, err := a.TakeRounds(t.Context())
	if err != nil || len(parts) != 1 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	c, err := arrays.NewCounting(own[0].Geometry)
	if err != nil {
		t.Fatal(err)
	}
	c.SetGeneration(own[0].Start)
	if err := c.SetFloor(2); err != nil {
		t.Fatal(err)
	}
	c.Add(filter.Key{Hi: 1, Lo: 1}, 3)
	p := Part{Array: ArrayCounts, Start: own[0].Start, Geometry: own[0].Geometry, Image: c.AppendPage(nil, 0), At: 1}
	if err := applyParts(b, "a", []Part{p}); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("a page with a floor: %v", err)
	}
	p.Image = c.Above().Image(0).Append(nil)
	if _, err := b.ParsePart(p); err != nil {
		t.Errorf("what the page shows: %v", err)
	}
}

// TestIntervalsHaveNoOrder: two nodes that have seen the same messages in different orders since
// they last published send the same bytes. No two of these signatures share a cell, as is usual.
func TestIntervalsHaveNoOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	var mail []bulkhead.Report
	for i := range 30 {
		m := bulkhead.Report{Count: 1 + rng.Uint32N(3), Signatures: []bulkhead.Signature{
			bulkhead.MustSignature(bulkhead.Link, fmt.Appendf(nil, "host%d.example", i%7)),
			bulkhead.MustSignature(bulkhead.Sender, fmt.Appendf(nil, "sender%d.example", i%11)),
		}}
		for j := range 15 {
			m.Signatures = append(m.Signatures, sig(bulkhead.Exact, 1000*i+j))
		}
		mail = append(mail, m)
	}
	for i := range 50 { // votes on unseen messages
		mail = append(mail, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1<<20+i)},
			Vote: bulkhead.Spam})
	}
	type published struct {
		array Array
		from  uint64
	}
	var first map[published][]byte
	for range 2 {
		e := open(t, Options{
			Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 4_000_000, Error: 1e-5},
			Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 1_000_000, Error: 1e-9},
			Trust: trust.DefaultPolicy(),
		})
		if err := e.Record(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for i := range mail {
			report(t, e, mail[i])
		}
		parts, _, err := e.TakeRounds(t.Context())
		if err != nil || len(parts) != 2 {
			t.Fatalf("%d rounds, %v; want one of counts and one of lists", len(parts), err)
		}
		all := make(map[published][]byte)
		for _, p := range parts {
			all[published{p.Array, p.From}] = p.Round
		}
		if first == nil {
			first = all
		}
		for at, round := range all {
			if !bytes.Equal(round, first[at]) {
				t.Errorf("%s from version %d on shows in which order messages came", at.array, at.from)
			}
		}
		if len(all) != len(first) || len(all) != len(parts) {
			t.Errorf("%d rounds, want %d", len(all), len(first))
		}
		rng.Shuffle(len(mail), func(i, j int) { mail[i], mail[j] = mail[j], mail[i] })
	}
}
