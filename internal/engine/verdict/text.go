package verdict

import (
	"math"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A class is the role of a signature for the text of its message.
type class uint8

const (
	classWhole    class = iota // the whole text: decides alone
	classBand                  // one of several bands: enough of them decide
	classPart                  // a part of the text: informs
	classProperty              // not of the text
)

func classOf(s bulkhead.Scheme) class {
	switch s {
	case bulkhead.Exact, bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody,
		bulkhead.DCCFuz1, bulkhead.DCCFuz2, bulkhead.RspamdText:
		return classWhole
	case bulkhead.Near, bulkhead.RspamdShingle:
		return classBand
	case bulkhead.RazorE8, bulkhead.Part:
		return classPart
	}
	return classProperty
}

// bandSchemes are the schemes of bands.
var bandSchemes = [...]bulkhead.Scheme{bulkhead.Near, bulkhead.RspamdShingle}

// shingleMatch is the number of the 20 bands of 32 rspamd shingles that must agree, see
// rspamd.Match.
const shingleMatch = 3

// bandMatch returns the number of bands of a scheme that must agree.
func bandMatch(s bulkhead.Scheme, near int) int {
	if s == bulkhead.RspamdShingle {
		return shingleMatch
	}
	return near
}

// A text is the combined result of the signatures of a message's text: the signatures of the whole
// text, or enough bands of one scheme.
type text struct {
	sightings, spam, ham uint32
	judged               bulkhead.Judgement
	exact                bool // judged spam by a sum of the whole text: no changed copy
	confidence           int
	first                time.Time
	error                float64 // the probability that an unreported text looks like this

	scheme    bulkhead.Scheme // scheme that gave the judgement
	bulkBy    bulkhead.Scheme // scheme with the most sightings
	bands     int             // number of bands of scheme that agree; 0 if scheme has no bands
	quoted    bool            // it was found in what the message quotes or forwards
	contested bool

	good   uint32  // deliveries of the whole text from senders of good standing
	copies float64 // deliveries before today of exact copies
	weight
}

// A weight is the evidence for and against a listing.
type weight struct {
	strength float64 // in promotion weights
	reported float64 // votes of roots for spam
	contexts float64 // links and senders it was reported with
	old, new float64 // settled deliveries, and recent ones
	days     float64 // with deliveries, before today
}

// history returns the weighted number of deliveries, like [Evidence.history].
func (w *weight) history() float64 { return w.old + 0.25*w.new }

// each combines two weights, number by number.
func (w *weight) each(o weight, f func(a, b float64) float64) {
	w.strength, w.reported, w.contexts = f(w.strength, o.strength), f(w.reported, o.reported), f(w.contexts, o.contexts)
	w.old, w.new, w.days = f(w.old, o.old), f(w.new, o.new), f(w.days, o.days)
}

func (p Policy) weight(e *Evidence) weight {
	return weight{p.Strength(e, 1), e.reported(), float64(e.Contexts), e.settled(), e.recent(), float64(e.Days)}
}

// text combines the findings and evidence of the text.
func (j *Decider) text(findings []bulkhead.Finding, evidence []Evidence) text {
	p := j.Policy
	t := text{error: 1}
	own := slices.ContainsFunc(findings, func(f bulkhead.Finding) bool { return f.Signature.Scheme() == bulkhead.Exact })
	for i := range findings {
		scheme := findings[i].Signature.Scheme()
		if classOf(scheme) == classWhole && first(findings[:i], scheme) {
			whole, w := p.weakest(findings[i:], evidence[i:])
			if own && countsAll(scheme) {
				w.old, w.new = 0, 0
			}
			t.whole(&whole, w)
		}
	}
	for i := range findings {
		scheme := findings[i].Signature.Scheme()
		if classOf(scheme) == classWhole {
			t.good = max(t.good, evidence[i].Good)
		}
		if scheme == bulkhead.Exact {
			t.copies = float64(evidence[i].Old)
			// The revocation of the text outweighs reports of a client that sends only a digest.
			t.exact = t.exact && findings[i].Judged != bulkhead.Revoked
		}
	}
	for _, scheme := range bandSchemes {
		j.banded(&t, findings, evidence, scheme)
	}
	if t.judged == bulkhead.Unjudged && t.sightings|t.spam|t.ham == 0 {
		t.error = 0 // nothing was found, which is certain: a filter never forgets
	}
	return t
}

// shingled reports whether the text is listed by shingles of rspamd alone. They are of all lines, also of those that a
// reply quotes.
func (t *text) shingled() bool {
	return t.judged == bulkhead.JudgedSpam && t.scheme == bulkhead.RspamdShingle && !t.exact
}

// countsAll reports whether doors count a sum each time that they see it, as DCC does: spam too, and again for
// the same recipient. Such counts are no deliveries.
func countsAll(s bulkhead.Scheme) bool {
	return s == bulkhead.DCCBody || s == bulkhead.DCCFuz1 || s == bulkhead.DCCFuz2
}

// whole adds the finding of a signature of the whole text.
func (t *text) whole(f *bulkhead.Finding, w weight) {
	t.counts(f.Signature.Scheme(), f.Sightings, f.Spam, f.Ham)
	if f.Known() {
		t.first = earliest(t.first, f.First)
		t.error = min(t.error, f.Error)
	}
	t.judge(f.Signature.Scheme(), f.Judged, f.Confidence, 0, w)
	// Deliveries of an unlisted digest are also deliveries of the text.
	t.old, t.new = max(t.old, w.old), max(t.new, w.new)
	t.contested = t.contested || f.Contested
}

func (t *text) counts(by bulkhead.Scheme, sightings, spam, ham uint32) {
	if sightings > t.sightings {
		t.bulkBy = by
	}
	t.sightings, t.spam, t.ham = max(t.sightings, sightings), max(t.spam, spam), max(t.ham, ham)
}

// exactly reports whether texts with the same signature of a scheme are the same. Razor and Pyzor
// sum only some of the lines, and rspamd sums the parts that it can read, so different texts can
// share their signatures.
func exactly(s bulkhead.Scheme) bool {
	return s == bulkhead.Exact || s == bulkhead.DCCBody
}

// judge adds a judgement. Signatures of the whole text come first and take precedence
// over bands, even if revoked.
func (t *text) judge(by bulkhead.Scheme, j bulkhead.Judgement, confidence, bands int, w weight) {
	wins := j == bulkhead.JudgedSpam && t.judged != bulkhead.JudgedSpam || j != bulkhead.Unjudged &&
		t.judged == bulkhead.Unjudged
	if bands > 0 && t.judged == bulkhead.Revoked {
		wins = false
	}
	if wins {
		t.judged, t.scheme, t.bands = j, by, bands
	}
	t.confidence = max(t.confidence, confidence)
	if t.judged == bulkhead.Revoked {
		t.confidence = 0
		return
	}
	if j == bulkhead.JudgedSpam {
		t.exact = t.exact || exactly(by)
		t.weight.each(w, math.Max)
	}
}

// coincidence returns an upper bound of the probability that match of n independent signatures are
// wrong at once, if each is wrong with probability p.
func coincidence(n, match int, p float64) float64 {
	ways := 1.0
	for i := range match {
		ways *= float64(n-i) / float64(i+1)
	}
	return min(1, ways*math.Pow(p, float64(match)))
}

// banded adds the findings of all bands of one scheme: the match-th largest count and
// the match-th most confident listing represent the text.
func (j *Decider) banded(t *text, findings []bulkhead.Finding, evidence []Evidence, scheme bulkhead.Scheme) {
	match := bandMatch(scheme, j.Policy.NearMatch)
	b := &j.tops
	b.reset(match)
	bands, listed, revoked := 0, 0, 0
	var first time.Time
	chance := 1.0
	for i := range findings {
		f := &findings[i]
		if f.Signature.Scheme() != scheme {
			continue
		}
		bands++
		if !f.Known() {
			continue
		}
		b.counts(f)
		switch f.Judged {
		case bulkhead.JudgedSpam:
			listed++
			b.listed(f, j.Policy.weight(&evidence[i]))
		case bulkhead.Revoked:
			revoked++
		}
		first = earliest(first, f.First)
		chance = min(chance, unreported(f, &evidence[i]))
	}
	s, v, h := uint32(b.sightings.nth()), uint32(b.spam.nth()), uint32(b.ham.nth())
	if s|v|h == 0 && listed < match && revoked < match {
		return
	}
	t.counts(scheme, s, v, h)
	t.first = earliest(t.first, first)
	t.error = min(t.error, coincidence(bands, match, chance))
	switch {
	case listed >= match:
		t.judge(scheme, bulkhead.JudgedSpam, int(b.sure.nth()), listed, b.weight())
	case revoked >= match:
		t.judge(scheme, bulkhead.Revoked, 0, revoked, weight{})
	}
}

// first reports whether none of the findings before is of the scheme.
func first(before []bulkhead.Finding, scheme bulkhead.Scheme) bool {
	for i := range before {
		if before[i].Signature.Scheme() == scheme {
			return false
		}
	}
	return true
}

// weakest combines the findings of the scheme of the first finding. A scheme that signs every part
// of a message (razor/e4) represents the message only as far as all its signatures agree: footers
// added by lists are parts of much mail.
func (p Policy) weakest(findings []bulkhead.Finding, evidence []Evidence) (bulkhead.Finding, weight) {
	w, all := findings[0], p.weight(&evidence[0])
	w.Error = unreported(&findings[0], &evidence[0])
	for i := range findings[1:] {
		f := &findings[1+i]
		if f.Signature.Scheme() != w.Signature.Scheme() {
			continue
		}
		w.Sightings, w.Spam, w.Ham = min(w.Sightings, f.Sightings), min(w.Spam, f.Spam), min(w.Ham, f.Ham)
		w.Confidence, w.Error = min(w.Confidence, f.Confidence), min(w.Error, unreported(f, &evidence[1+i]))
		if f.Judged == bulkhead.Unjudged || f.Judged == bulkhead.Revoked && w.Judged == bulkhead.JudgedSpam {
			w.Judged = f.Judged
		}
		all.each(p.weight(&evidence[1+i]), math.Min)
	}
	return w, all
}
