package bulkheadtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// classed checks that the class of a verdict agrees with its other fields.
func classed(d desk, v *bulkhead.Verdict) {
	d.Helper()
	if v.Class >= bulkhead.NumClasses || v.Spam() != (v.Class == bulkhead.ClassSpam) ||
		v.Whitelisted != "" && v.Class != bulkhead.ClassGood || v.Class == bulkhead.ClassBulk && !v.Bulk {
		d.Errorf("class %v, but spam %v, bulk %v, whitelisted %q", v.Class, v.Spam(), v.Bulk, v.Whitelisted)
	}
}

func testUnknown(d desk) {
	v := d.check(sig(1), sig(2))
	if v.Class != bulkhead.ClassUnknown {
		d.Errorf("class %v, want unknown", v.Class)
	}
	for i, f := range v.Findings {
		if f.Known() || f.Signature != sig(1+i) || !f.First.IsZero() || !f.Last.IsZero() || f.Bulk ||
			f.Contested || f.Confidence != 0 {
			d.Errorf("finding %d: %+v, want nothing", i, f)
		}
	}
	if v.Unwanted() || v.Judged != bulkhead.Unjudged || v.Sightings+v.SpamVotes+v.HamVotes != 0 ||
		!v.First.IsZero() || v.Whitelisted != "" {
		d.Errorf("verdict %+v, want nothing known", v)
	}
	if v.Threshold == 0 || len(v.Reasons) == 0 {
		d.Errorf("threshold %d, reasons %q; want the threshold that was applied, and a reason", v.Threshold, v.Reasons)
	}
}

func testSightings(d desk) {
	want := uint32(0)
	for _, n := range []uint32{0, 1, 2, 50, 1000} { // 0 means 1
		if got := d.report(bulkhead.Report{Signatures: sigs(1), Count: n}); got != (bulkhead.Receipt{Counted: 1}) {
			d.Errorf("sighting of %d: receipt %+v", n, got)
		}
		want += max(n, 1)
		f := d.finding(1)
		if f.Sightings != want || f.Spam+f.Ham != 0 || f.Judged != bulkhead.Unjudged ||
			f.First.IsZero() || f.Last.Before(f.First) {
			d.Errorf("%+v, want %d sightings and no more", f, want)
		}
	}
	if v := d.check(sig(1)); v.Sightings != want || v.First.IsZero() {
		d.Errorf("verdict %+v, want %d sightings", v, want)
	}
	if f := d.finding(2); f.Known() {
		d.Errorf("another signature: %+v", f)
	}
}

func testFull(d desk) {
	for _, n := range []uint32{bulkhead.Many - 1, 5, 1<<32 - 1, 1} {
		d.report(bulkhead.Report{Signatures: sigs(1), Count: n})
	}
	if f := d.finding(1); f.Sightings != bulkhead.Many {
		d.Errorf("%d sightings, want no more than %d", f.Sightings, bulkhead.Many)
	}
}

func testOrder(d desk) {
	for n := range 20 {
		d.report(bulkhead.Report{Signatures: sigs(n), Count: uint32(n + 1)})
	}
	asked := []int{7, 3, 3, 100, 19, 0, 7}
	v := d.check(sigs(asked...)...)
	for i, n := range asked {
		want := uint32(n + 1)
		if n >= 20 {
			want = 0
		}
		if f := v.Findings[i]; f.Signature != sig(n) || f.Sightings != want {
			d.Errorf("finding %d is %d times %v, want %d times %v", i, f.Sightings, f.Signature, want, sig(n))
		}
	}
}

func testThreshold(d desk) {
	d.report(bulkhead.Report{Signatures: sigs(1), Count: 10})
	for threshold, bulk := range map[uint32]bool{1: true, 9: true, 10: true, 11: false, bulkhead.Many: false} {
		v := d.query(bulkhead.Query{Signatures: sigs(1), Threshold: threshold})
		if v.Threshold != threshold || v.Bulk != bulk || v.Findings[0].Bulk != bulk || v.Spam() || v.Unwanted() != bulk {
			d.Errorf("10 sightings at threshold %d: %+v, want bulk %v", threshold, v, bulk)
		}
	}
	d.vote(bulkhead.Ham, 2)
	if v := d.query(bulkhead.Query{Signatures: sigs(2), Threshold: 1}); v.Bulk || v.Findings[0].Bulk {
		d.Error("a vote makes bulk")
	}
}

func testIDs(d desk) {
	r := bulkhead.Report{Signatures: sigs(1, 2), Count: 3, ID: "message 1"}
	if got := d.report(r); got != (bulkhead.Receipt{Counted: 2}) {
		d.Errorf("receipt %+v", got)
	}
	unchanged := d.unchanged(sig(1), sig(2))
	if got := d.report(r); got != (bulkhead.Receipt{Duplicate: 2}) {
		d.Errorf("the same report again: receipt %+v", got)
	}
	unchanged("the same report again")
	r.ID = "message 2"
	d.report(r)
	r.ID = ""
	d.report(r)
	d.report(r)
	if f := d.finding(1); f.Sightings != 12 {
		d.Errorf("%d sightings after 4 different reports of 3", f.Sightings)
	}
}

func testOneVoter(d desk) {
	r := bulkhead.Report{Signatures: sigs(1), Vote: bulkhead.Spam, Count: 500}
	if got := d.report(r); got != (bulkhead.Receipt{Counted: 1, Listed: 1}) {
		d.Errorf("spam vote: receipt %+v", got)
	}
	f := d.finding(1)
	if f.Spam != 1 || f.Sightings != 0 || f.Judged != bulkhead.JudgedSpam || f.Confidence < 50 || f.Confidence > 100 {
		d.Errorf("%+v, want one spam vote that lists", f)
	}
	v := d.check(sig(1))
	if !v.Spam() || !v.Unwanted() || v.SpamVotes != 1 || v.Confidence < 50 {
		d.Errorf("verdict %+v, want spam", v)
	}
	unchanged := d.unchanged(sig(1))
	if got := d.report(r); got != (bulkhead.Receipt{Duplicate: 1}) {
		d.Errorf("the same vote again: receipt %+v", got)
	}
	unchanged("the same vote again")
}

func testLatest(d desk) {
	for round := range 3 {
		for _, step := range []struct {
			vote bulkhead.Vote
			want bulkhead.Judgement
		}{{bulkhead.Spam, bulkhead.JudgedSpam}, {bulkhead.Revocation, bulkhead.Revoked}, {bulkhead.Spam, bulkhead.JudgedSpam},
			{bulkhead.Ham, bulkhead.Revoked}} {
			got := d.vote(step.vote, 1)
			listed, revoked := 0, 0
			if step.want == bulkhead.JudgedSpam {
				listed = 1
			} else {
				revoked = 1
			}
			if got.Listed != listed || got.Revoked != revoked {
				d.Errorf("round %d, %v: receipt %+v", round, step.vote, got)
			}
			v := d.check(sig(1))
			if f := v.Findings[0]; f.Judged != step.want || v.Judged != step.want ||
				v.Spam() != (step.want == bulkhead.JudgedSpam) {
				d.Errorf("round %d, after %v: judged %v, verdict %v; want %v", round, step.vote, f.Judged, v.Judged, step.want)
			}
		}
	}
	if f := d.finding(1); f.Spam != 1 || f.Ham != 1 {
		d.Errorf("one voter shows as %d for spam and %d for ham", f.Spam, f.Ham)
	}
	if got := d.vote(bulkhead.Revocation, 2); got.Listed+got.Revoked != 0 {
		d.Errorf("revocation of what was never listed: receipt %+v", got)
	}
}

// testRefusals: an error wraps its reason, comes with no result, and has changed
// nothing.
func testRefusals(d desk) {
	d.report(bulkhead.Report{Signatures: sigs(to(10)...)})
	unchanged := d.unchanged(sigs(to(12)...)...)
	var invalid bulkhead.Signature
	mixed := append(sigs(to(12)...), invalid)
	for name, r := range map[string]bulkhead.Report{
		"invalid signature":            {Signatures: []bulkhead.Signature{invalid}},
		"invalid signature among some": {Signatures: mixed},
		"the same, a vote":             {Signatures: mixed, Vote: bulkhead.Spam},
		"no signature":                 {},
		"no such vote":                 {Signatures: sigs(1), Vote: bulkhead.NumVotes},
		"no such vote at all":          {Signatures: sigs(1), Vote: 255},
	} {
		r.Reporter = d.suite.Reporter
		receipt, err := d.house.Report(d.Context(), r)
		if !errors.Is(err, bulkhead.ErrMalformed) || receipt != (bulkhead.Receipt{}) {
			d.Errorf("report, %s: %+v, %v; want no result and ErrMalformed", name, receipt, err)
		}
		unchanged(name)
	}
	for name, asked := range map[string][]bulkhead.Signature{"invalid signature": mixed, "no signature": nil} {
		v, err := d.house.Check(d.Context(), bulkhead.Query{Signatures: asked, Reporter: d.suite.Reporter})
		if !errors.Is(err, bulkhead.ErrMalformed) || !reflect.ValueOf(v).IsZero() {
			d.Errorf("check, %s: %+v, %v; want no result and ErrMalformed", name, v, err)
		}
	}
	// The number of signatures may be limited. No part of a report beyond the limit is counted.
	many := sigs(to(5000)...)
	_, err := d.house.Report(d.Context(), bulkhead.Report{Signatures: many, Reporter: d.suite.Reporter})
	switch {
	case err == nil:
		if f := d.finding(4999); f.Sightings != 1 {
			d.Errorf("the last of 5,000 signatures has %d sightings", f.Sightings)
		}
	case !refused(err):
		d.Errorf("5,000 signatures: %v, want an error that wraps a reason", err)
	default:
		unchanged("5,000 signatures")
	}
}

func testTerse(d desk) {
	d.vote(bulkhead.Spam, 1)
	full := d.query(bulkhead.Query{Signatures: sigs(1, 2)})
	terse := d.query(bulkhead.Query{Signatures: sigs(1, 2), Terse: true})
	if !full.First.Equal(terse.First) {
		d.Errorf("terse verdict first seen %v, else %v", terse.First, full.First)
	}
	if len(full.Reasons) == 0 || len(terse.Reasons) != 0 {
		d.Errorf("reasons %q, terse %q; want some and none", full.Reasons, terse.Reasons)
	}
	same := slices.EqualFunc(full.Findings, terse.Findings, same)
	full.Reasons, full.Findings, terse.Findings = nil, nil, nil
	terse.First = full.First
	if !same || !reflect.DeepEqual(full, terse) {
		d.Errorf("terse verdict %+v, else %+v", terse, full)
	}
}

func testWhite(d desk) {
	white := d.suite.White
	if !white.Valid() {
		d.Skip("the suite names no whitelisted signature")
	}
	for _, vote := range []bulkhead.Vote{bulkhead.Sighting, bulkhead.Spam} {
		got := d.report(bulkhead.Report{Signatures: []bulkhead.Signature{white, sig(1)}, Vote: vote, Count: 100})
		if got.Whitelisted != 1 || got.Counted != 1 {
			d.Errorf("%v of a whitelisted signature and another one: receipt %+v", vote, got)
		}
	}
	v := d.check(white, sig(1))
	if v.Findings[0].Known() || v.Findings[0].Signature != white {
		d.Errorf("whitelisted: %+v, want nothing known", v.Findings[0])
	}
	if v.Whitelisted == "" || v.Spam() || v.Unwanted() {
		d.Errorf("verdict %+v, want it whitelisted", v)
	}
	if v := d.check(sig(1)); v.Whitelisted != "" || !v.Spam() {
		d.Errorf("the other signature: %+v, want spam", v)
	}
}

// testContexts: a context that has ended may end a call. After an error, the report has been
// counted once or not at all.
func testContexts(d desk) {
	ctx, cancel := context.WithCancel(d.Context())
	cancel()
	counted := uint32(0)
	for range 20 {
		receipt, err := d.house.Report(ctx, bulkhead.Report{Signatures: sigs(1), Reporter: d.suite.Reporter})
		switch {
		case err == nil:
			counted++
		case !errors.Is(err, context.Canceled) && !refused(err):
			d.Errorf("report after the end of its context: %v", err)
		case receipt != (bulkhead.Receipt{}):
			d.Errorf("receipt %+v beside an error", receipt)
		}
		v, err := d.house.Check(ctx, bulkhead.Query{Signatures: sigs(1), Reporter: d.suite.Reporter})
		if err != nil && !reflect.ValueOf(v).IsZero() {
			d.Errorf("verdict %+v beside %v", v, err)
		}
	}
	d.report(bulkhead.Report{Signatures: sigs(1)})
	if f := d.finding(1); f.Sightings < counted+1 || f.Sightings > 21 {
		d.Errorf("%d sightings, of which %d were acknowledged, of 21", f.Sightings, counted+1)
	}
}

// testConcurrency: concurrent reports add up, and concurrent checks see the counts grow.
func testConcurrency(d desk) {
	const reporters, each = 8, 25
	var wg sync.WaitGroup
	for i := range reporters {
		wg.Go(func() {
			last := uint32(0)
			for j := range each {
				r := bulkhead.Report{Signatures: sigs(0, 1+i), ID: fmt.Sprint(i, " ", j/2), Reporter: d.suite.Reporter}
				if _, err := d.house.Report(d.Context(), r); err != nil {
					d.Error(err)
					return
				}
				v, err := d.house.Check(d.Context(), bulkhead.Query{Signatures: sigs(0, 1+i), Reporter: d.suite.Reporter})
				if err != nil {
					d.Error(err)
					return
				}
				all, own := v.Findings[0].Sightings, v.Findings[1].Sightings
				if want := uint32(j/2 + 1); own != want || all < own || all < last {
					d.Errorf("after report %d: %d sightings, want %d; %d of all after %d", j, own, want, all, last)
				}
				last = all
			}
		})
	}
	wg.Wait()
	v := d.check(sigs(to(1 + reporters)...)...)
	got := make([]uint32, 0, len(v.Findings))
	for _, f := range v.Findings {
		got = append(got, f.Sightings)
	}
	want := slices.Repeat([]uint32{(each + 1) / 2}, 1+reporters)
	want[0] *= reporters
	if !slices.Equal(got, want) {
		d.Errorf("sightings %d, want %d", got, want)
	}
}
