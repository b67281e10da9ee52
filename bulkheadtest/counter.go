package bulkheadtest

import (
	"errors"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// everything is every aspect of a Look.
const everything = bulkhead.Counts | bulkhead.Judgements

func (d desk) look(c bulkhead.Counter, what bulkhead.Aspect, sigs []bulkhead.Signature) []bulkhead.Look {
	d.Helper()
	// Not empty before the call, so that a field that Look leaves unset would show.
	out := slices.Repeat([]bulkhead.Look{{Sightings: 99, Spam: 99, Judged: bulkhead.Revoked, Confidence: 99,
		First: 99, Error: 99}}, len(sigs))
	if err := c.Look(d.Context(), sigs, out, what); err != nil {
		d.Fatalf("look at %d signatures: %v", len(sigs), err)
	}
	return out
}

// agree compares looks with the findings of a check of the same signatures.
func (d desk) agree(when string, c bulkhead.Counter, all []bulkhead.Signature) {
	d.Helper()
	looks := d.look(c, everything, all)
	for i, of := range all {
		f, l := d.check(of).Findings[0], looks[i]
		want := bulkhead.Look{Sightings: f.Sightings, Judged: f.Judged, Error: l.Error}
		if f.Judged != bulkhead.Unjudged {
			want.Spam = f.Spam
		}
		if f.Judged == bulkhead.JudgedSpam {
			want.Confidence = f.Confidence
		}
		if f.Known() {
			want.First = f.First.Unix()
		}
		if l.Sightings == 0 && l.Judged == bulkhead.Unjudged {
			l.First, want.First = 0, 0 // votes alone may date it, or not
		}
		if l != want || l.Error < 0 || l.Error > 1 || l.Sightings == 0 && l.Error != 0 {
			d.Errorf("%s: signature %d: look %+v, check %+v", when, i, l, f)
		}
	}
}

// testCounter: Count has the effect of Report, and Look returns what Check returns.
func testCounter(d desk) {
	c := bulkhead.CounterOf(d.house)
	all := sigs(to(6)...)
	d.agree("before", c, all)
	if err := c.Count(d.Context(), sigs(0, 1, 2, 0), []uint32{1, 500, bulkhead.Many, 2}); err != nil {
		d.Fatal(err)
	}
	d.report(bulkhead.Report{Signatures: sigs(1, 3), Count: 7})
	d.vote(bulkhead.Spam, 1)
	d.vote(bulkhead.Spam, 4)
	d.vote(bulkhead.Spam, 5)
	d.vote(bulkhead.Revocation, 5)
	d.agree("after", c, all)
	for i, want := range []uint32{3, 507, bulkhead.Many, 7, 0, 0} {
		if got := d.finding(i).Sightings; got != want {
			d.Errorf("signature %d has %d sightings, want %d", i, got, want)
		}
	}
	judged := d.look(c, bulkhead.Judgements|bulkhead.Aside, sigs(4, 5, 0))
	counts := d.look(c, bulkhead.Counts|bulkhead.Aside, sigs(4, 5, 0))
	if judged[0].Judged != bulkhead.JudgedSpam || judged[1].Judged != bulkhead.Revoked ||
		judged[2].Judged != bulkhead.Unjudged || judged[0].Spam != 1 {
		d.Errorf("judgements alone: %+v", judged)
	}
	if counts[0].Sightings != 0 || counts[2].Sightings != 3 {
		d.Errorf("counts alone: %+v", counts)
	}

	// Any number of signatures.
	many := sigs(to(3000)...)
	n := make([]uint32, len(many))
	for i := range n {
		n[i] = uint32(i%3 + 1)
	}
	if err := c.Count(d.Context(), many[6:], n[6:]); err != nil {
		d.Fatal(err)
	}
	for i, l := range d.look(c, bulkhead.Counts, many)[6:] {
		if l.Sightings != n[6+i] {
			d.Fatalf("signature %d of many has %d sightings, want %d", 6+i, l.Sightings, n[6+i])
		}
	}
	if err := errors.Join(c.Count(d.Context(), nil, nil), c.Look(d.Context(), nil, nil, everything)); err != nil {
		d.Errorf("nothing to count or look at: %v", err)
	}
}

// testCounterRefusals: all are counted or none, and a refusal has its reason.
func testCounterRefusals(d desk) {
	c := bulkhead.CounterOf(d.house)
	d.report(bulkhead.Report{Signatures: sigs(0, 1)})
	unchanged := d.unchanged(sigs(0, 1, 2)...)
	var invalid bulkhead.Signature
	for name, tt := range map[string]struct {
		sigs []bulkhead.Signature
		n    []uint32
	}{
		"invalid signature":    {append(sigs(0, 1, 2), invalid), []uint32{1, 1, 1, 1}},
		"no times":             {sigs(0, 1, 2), []uint32{1, 1, 0}},
		"more than Many":       {sigs(0, 1, 2), []uint32{1, 1, bulkhead.Many + 1}},
		"the most of a number": {sigs(0, 1, 2), []uint32{1<<32 - 1, 1, 1}},
		"fewer numbers":        {sigs(0, 1, 2), []uint32{1, 1}},
		"more numbers":         {sigs(0, 1, 2), []uint32{1, 1, 1, 1}},
		"numbers alone":        {nil, []uint32{1}},
	} {
		if err := c.Count(d.Context(), tt.sigs, tt.n); !errors.Is(err, bulkhead.ErrMalformed) {
			d.Errorf("%s: %v, want ErrMalformed", name, err)
		}
		unchanged(name)
	}
	if err := c.Look(d.Context(), append(sigs(0), invalid), make([]bulkhead.Look, 2), everything); !errors.Is(err,
		bulkhead.ErrMalformed) {
		d.Errorf("look at an invalid signature: %v, want ErrMalformed", err)
	}
}

func testCounterWhite(d desk) {
	white := d.suite.White
	if !white.Valid() {
		d.Skip("the suite names no whitelisted signature")
	}
	c := bulkhead.CounterOf(d.house)
	all := []bulkhead.Signature{sig(0), white}
	if err := c.Count(d.Context(), all, []uint32{5, 5}); err != nil {
		d.Fatal(err)
	}
	if got := d.look(c, everything, all[1:]); got[0] != (bulkhead.Look{}) {
		d.Errorf("whitelisted: %+v, want nothing known", got[0])
	}
	if got := d.look(c, bulkhead.Counts, all[:1]); got[0].Sightings != 5 {
		d.Errorf("beside a whitelisted one: %+v, want 5 sightings", got[0])
	}
}

// testCountAndReport: both are counted. Whether a crash or an error leaves neither is for the tests of the house.
func testCountAndReport(d desk) {
	c := bulkhead.CounterOf(d.house)
	if _, ok := c.(bulkhead.CountReporter); !ok {
		d.Skip("it counts and reports in two steps")
	}
	r := bulkhead.Report{Signatures: sigs(1), Vote: bulkhead.Spam, Reporter: d.suite.Reporter}
	got, err := bulkhead.CountAndReport(d.Context(), c, sigs(0, 1, 0), []uint32{1, 20, 300}, r)
	if err != nil || got != (bulkhead.Receipt{Counted: 1, Listed: 1}) {
		d.Fatalf("receipt %+v, %v; want one vote that lists", got, err)
	}
	if n, f := d.finding(0).Sightings, d.finding(1); n != 301 || f.Sightings != 20 || f.Judged != bulkhead.JudgedSpam {
		d.Errorf("%d sightings and %+v, want 301, and 20 of a signature that is listed", n, f)
	}
	if got, err := bulkhead.CountAndReport(d.Context(), c, nil, nil, r); err != nil ||
		got != (bulkhead.Receipt{Duplicate: 1}) {
		d.Errorf("the vote again, and nothing to count: %+v, %v", got, err)
	}
}
