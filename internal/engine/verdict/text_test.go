package verdict

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// drawFinding draws what may be known of a signature of the text.
func drawFinding(t *rapid.T, s bulkhead.Signature) (bulkhead.Finding, Evidence) {
	few := rapid.Uint32Range(0, 3)
	f := bulkhead.Finding{
		Signature: s, Sightings: few.Draw(t, "sightings"), Spam: few.Draw(t, "spam"), Ham: few.Draw(t, "ham"),
		Judged: rapid.SampledFrom([]bulkhead.Judgement{bulkhead.Unjudged, bulkhead.JudgedSpam, bulkhead.JudgedSpam,
			bulkhead.Revoked}).Draw(t, "judged"),
		Error: rapid.SampledFrom([]float64{1, 0.3, 0.01}).Draw(t, "error"), Contested: rapid.Bool().Draw(t, "contested"),
		First: time.Unix(86400*rapid.Int64Range(1, 9).Draw(t, "first"), 0),
	}
	switch f.Judged {
	case bulkhead.JudgedSpam:
		f.Confidence = rapid.IntRange(50, 100).Draw(t, "sure")
	case bulkhead.Unjudged:
		f.Confidence = rapid.IntRange(0, 49).Draw(t, "unsure")
	}
	if !f.Known() {
		f.First = time.Time{}
	}
	old := few.Draw(t, "old")
	return f, Evidence{
		Votes: trust.Balance{Spam: 100 * rapid.Int64Range(0, 4).Draw(t, "weight"),
			Ham: 50 * rapid.Int64Range(0, 2).Draw(t, "weight against")},
		Peers: Peers{Spam: rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "peers")},
		Old:   old, Late: min(old, few.Draw(t, "late")),
		New: few.Draw(t, "new"), Contexts: few.Draw(t, "contexts"), Good: few.Draw(t, "good"),
	}
}

// drawText draws the findings of a text. The findings of one scheme may be adjacent or not.
func drawText(t *rapid.T) (findings []bulkhead.Finding, evidence []Evidence) {
	schemes := append(bulkhead.Schemes(), bulkhead.Near, bulkhead.Near, bulkhead.RspamdShingle, bulkhead.RspamdShingle,
		bulkhead.RazorE4, bulkhead.Exact)
	few := rapid.SampledFrom(schemes)
	if rapid.Bool().Draw(t, "bands only") {
		few = rapid.SampledFrom([]bulkhead.Scheme{bulkhead.Near, bulkhead.RspamdShingle})
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "findings") {
		s := bulkhead.MustSignature(few.Draw(t, "scheme"), []byte(fmt.Sprint("sum", i)))
		f, e := drawFinding(t, s)
		findings, evidence = append(findings, f), append(evidence, e)
	}
	return findings, evidence
}

// A voice is what one scheme says of the text: one that signs the whole of it as little
// as any of its findings, bands as much as match of them.
type voice struct {
	bulkhead.Finding
	weight
	bands int
}

// each returns a number of all findings.
func each[T any, N any](all []T, of func(T) N) (out []N) {
	for _, x := range all {
		out = append(out, of(x))
	}
	return out
}

// nth returns the n-th largest number, counted from 1; 0 if there are fewer.
func nth(n int, all []float64) float64 {
	all = slices.Clone(all)
	slices.Sort(all)
	if len(all) < n {
		return 0
	}
	return all[len(all)-n]
}

// plainWhole is what the findings of a scheme that signs the whole text say together.
func plainWhole(p Policy, findings []bulkhead.Finding, evidence []Evidence) voice {
	v := voice{Finding: findings[0], weight: p.weight(&evidence[0])}
	least := func(of func(f bulkhead.Finding) uint32) uint32 { return slices.Min(each(findings, of)) }
	v.Sightings = least(func(f bulkhead.Finding) uint32 { return f.Sightings })
	v.Spam = least(func(f bulkhead.Finding) uint32 { return f.Spam })
	v.Ham = least(func(f bulkhead.Finding) uint32 { return f.Ham })
	v.Confidence = slices.Min(each(findings, func(f bulkhead.Finding) int { return f.Confidence }))
	v.Error = slices.Min(each(findings, func(f bulkhead.Finding) float64 { return f.Error }))
	judged := each(findings, func(f bulkhead.Finding) bulkhead.Judgement { return f.Judged })
	switch {
	case slices.Contains(judged, bulkhead.Unjudged):
		v.Judged = bulkhead.Unjudged
	case slices.Contains(judged, bulkhead.Revoked):
		v.Judged = bulkhead.Revoked
	}
	for i := range evidence {
		v.weight.each(p.weight(&evidence[i]), math.Min)
	}
	return v
}

// plainBands returns the combined result of bands, and whether there is one.
func plainBands(p Policy, match int, findings []bulkhead.Finding, evidence []Evidence) (v voice, says bool) {
	var known, listed []bulkhead.Finding
	var weights []weight
	revoked := 0
	v.Error = 1
	for i, f := range findings {
		if !f.Known() {
			continue
		}
		known = append(known, f)
		v.Error = min(v.Error, f.Error)
		if v.First.IsZero() || f.First.Before(v.First) {
			v.First = f.First
		}
		switch f.Judged {
		case bulkhead.JudgedSpam:
			listed, weights = append(listed, f), append(weights, p.weight(&evidence[i]))
		case bulkhead.Revoked:
			revoked++
		}
	}
	v.Sightings = uint32(nth(match, each(known, func(f bulkhead.Finding) float64 { return float64(f.Sightings) })))
	v.Spam = uint32(nth(match, each(known, func(f bulkhead.Finding) float64 { return float64(f.Spam) })))
	v.Ham = uint32(nth(match, each(known, func(f bulkhead.Finding) float64 { return float64(f.Ham) })))
	switch {
	case len(listed) >= match:
		v.Judged, v.bands = bulkhead.JudgedSpam, len(listed)
		v.Confidence = int(nth(match, each(listed, func(f bulkhead.Finding) float64 { return float64(f.Confidence) })))
		v.weight = weight{
			nth(match, each(weights, func(w weight) float64 { return w.strength })),
			nth(match, each(weights, func(w weight) float64 { return w.reported })),
			nth(match, each(weights, func(w weight) float64 { return w.contexts })),
			nth(match, each(weights, func(w weight) float64 { return w.old })),
			nth(match, each(weights, func(w weight) float64 { return w.new })),
			nth(match, each(weights, func(w weight) float64 { return w.days })),
		}
	case revoked >= match:
		v.Judged, v.bands = bulkhead.Revoked, revoked
	}
	// All ways to choose the bands that are wrong.
	ways := 1.0
	for i := range match {
		ways = ways * float64(len(findings)-i) / float64(i+1)
	}
	v.Error = min(1, ways*math.Pow(v.Error, float64(match)))
	return v, v.Known()
}

// plainText puts the voices together: what whole texts say stands, and of equals the
// worse.
func plainText(p Policy, findings []bulkhead.Finding, evidence []Evidence) text {
	var wholes, banded []voice
	want := text{error: 1}
	for _, scheme := range bulkhead.Schemes() {
		var fs []bulkhead.Finding
		var es []Evidence
		for i, f := range findings {
			if f.Signature.Scheme() == scheme {
				fs, es = append(fs, f), append(es, evidence[i])
			}
		}
		if len(fs) == 0 {
			continue
		}
		switch scheme {
		case bulkhead.Near, bulkhead.RspamdShingle:
			match := map[bulkhead.Scheme]int{bulkhead.Near: p.NearMatch, bulkhead.RspamdShingle: 3}[scheme]
			if v, says := plainBands(p, match, fs, es); says {
				v.Signature = fs[0].Signature
				banded = append(banded, v)
			}
		case bulkhead.Exact, bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.DCCFuz1, bulkhead.DCCFuz2,
			bulkhead.RspamdText:
			v := plainWhole(p, fs, es)
			dcc := scheme == bulkhead.DCCBody || scheme == bulkhead.DCCFuz1 || scheme == bulkhead.DCCFuz2
			exact := func(f bulkhead.Finding) bool { return f.Signature.Scheme() == bulkhead.Exact }
			if dcc && slices.ContainsFunc(findings, exact) {
				v.weight.old, v.weight.new = 0, 0
			}
			wholes = append(wholes, v)
			for _, e := range es {
				want.good = max(want.good, e.Good)
				if scheme == bulkhead.Exact {
					want.copies = float64(e.Old)
				}
			}
		}
	}
	for _, v := range append(wholes, banded...) {
		want.sightings, want.spam, want.ham = max(want.sightings, v.Sightings), max(want.spam, v.Spam), max(want.ham, v.Ham)
		if v.Known() {
			want.error = min(want.error, v.Error)
			want.first = earliest(want.first, v.First)
		}
	}
	is := func(j bulkhead.Judgement) func(voice) bool { return func(v voice) bool { return v.Judged == j } }
	for _, all := range [][]voice{wholes, banded[:min(1, len(banded))], banded} {
		switch {
		case want.judged != bulkhead.Unjudged:
		case slices.ContainsFunc(all, is(bulkhead.JudgedSpam)):
			want.judged = bulkhead.JudgedSpam
		case slices.ContainsFunc(all, is(bulkhead.Revoked)):
			want.judged = bulkhead.Revoked
		}
	}
	for _, v := range append(wholes, banded...) {
		switch {
		case want.judged == v.Judged:
			want.confidence = max(want.confidence, v.Confidence)
		case want.judged == bulkhead.Unjudged:
			want.confidence = max(want.confidence, v.Confidence)
		}
		if want.judged == bulkhead.JudgedSpam && v.Judged == bulkhead.JudgedSpam {
			want.weight.each(v.weight, math.Max)
			want.exact = want.exact || v.Signature.Scheme() == bulkhead.Exact || v.Signature.Scheme() == bulkhead.DCCBody
		}
	}
	for _, f := range findings {
		want.exact = want.exact && (f.Signature.Scheme() != bulkhead.Exact || f.Judged != bulkhead.Revoked)
	}
	for _, v := range wholes {
		want.old, want.new = max(want.old, v.weight.old), max(want.new, v.weight.new)
		want.contested = want.contested || v.Contested
	}
	if want.judged == bulkhead.Unjudged && want.sightings+want.spam+want.ham == 0 {
		want.error = 0
	}
	return want
}

// TestTextAgainstPlain compares what is put together of the findings of a text with the
// same said plainly.
func TestTextAgainstPlain(t *testing.T) {
	// the same one for all: nothing of one text is left in the next
	d := Decider{Policy: Policy{Promotion: 1, NearMatch: 2}}
	rapid.Check(t, func(t *rapid.T) {
		findings, evidence := drawText(t)
		got, want := d.text(findings, evidence), plainText(d.Policy, findings, evidence)
		if !near(got.error, want.error) && got.error != want.error {
			t.Fatalf("error %v, want %v", got.error, want.error)
		}
		// Which scheme is named matters to the reasons alone.
		if got.judged != bulkhead.Unjudged {
			match := 0
			for i := range findings {
				if f := &findings[i]; f.Signature.Scheme() == got.scheme && f.Judged == got.judged {
					match++
				}
			}
			if match == 0 || got.bands > 0 && match != got.bands {
				t.Fatalf("judged by %d bands of %v, of which %d say so", got.bands, got.scheme, match)
			}
		}
		got.error, want.error = 0, 0
		got.scheme, got.bands, got.bulkBy = 0, 0, 0
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v; of %+v, %+v", got, want, findings, evidence)
		}
	})
}
