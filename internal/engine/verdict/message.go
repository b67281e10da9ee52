package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
)

// class says how a signature speaks for the message that bears it.
type class uint8

const (
	classWhole    class = iota // the whole message: decides alone
	classBand                  // one of several bands: enough of them decide
	classPart                  // a part of the message: informs
	classProperty              // sender, address, URL: informs
)

func classOf(s bulkhead.Scheme) class {
	switch s {
	case bulkhead.Exact, bulkhead.RazorE4, bulkhead.PyzorDigest, bulkhead.DCCBody,
		bulkhead.DCCFuz1, bulkhead.DCCFuz2, bulkhead.RspamdText:
		return classWhole
	case bulkhead.Near, bulkhead.RspamdShingle:
		return classBand
	case bulkhead.RazorE8:
		return classPart
	}
	return classProperty
}

// shingleMatch is how many of the 20 bands that stand for 32 rspamd shingles
// must agree: rspamd.Match, which says why.
const shingleMatch = 3

// Message fills in what v says of the message as a whole: what the findings of
// the signatures of the whole message say, or enough bands of one scheme. The
// findings are complete, and v.Threshold and v.Whitelisted are set. Reasons are
// left out if terse.
func (p Policy) Message(v *bulkhead.Verdict, terse bool) {
	c := collect(v, p.NearMatch)
	v.Sightings, v.SpamVotes, v.HamVotes = c.sightings, c.spam, c.ham
	v.Judged, v.Confidence = c.judged, c.confidence
	v.Bulk = v.Sightings >= v.Threshold
	v.First = c.first.time()
	v.Error = c.error
	if !terse {
		v.Reasons = reasons(v, c)
	}
}

// A collected verdict is the findings of a message put together: what the
// signatures of the whole message say, or enough bands of one scheme.
type collected struct {
	sightings, spam, ham uint32
	judged               bulkhead.Judgement
	confidence           int
	first                firstSeen
	error                float64

	scheme    bulkhead.Scheme // that judged
	bulkBy    bulkhead.Scheme // that counted most
	bands     int             // of scheme, that agree; 0 if it is not of bands
	contested bool
}

// bandMatch returns how many bands of a scheme must agree.
func bandMatch(s bulkhead.Scheme, near int) int {
	if s == bulkhead.RspamdShingle {
		return shingleMatch
	}
	return near
}

func collect(v *bulkhead.Verdict, nearMatch int) collected {
	var c collected
	c.error = 1
	for i := range v.Findings {
		if f := &v.Findings[i]; classOf(f.Signature.Scheme()) == classWhole && first(v.Findings[:i], f.Signature.Scheme()) {
			whole := weakest(v.Findings[i:])
			c.whole(&whole)
		}
	}
	for _, scheme := range []bulkhead.Scheme{bulkhead.Near, bulkhead.RspamdShingle} {
		c.banded(v.Findings, scheme, bandMatch(scheme, nearMatch))
	}
	if c.judged == bulkhead.Unjudged && c.sightings|c.spam|c.ham == 0 {
		c.error = 0 // nothing is known: a filter never forgets, so nothing is wrong
	}
	return c
}

// whole takes the finding of a signature that stands for the whole message.
func (c *collected) whole(f *bulkhead.Finding) {
	c.counts(f.Signature.Scheme(), f.Sightings, f.Spam, f.Ham)
	if f.Known() {
		c.first.see(f.First)
		c.error = min(c.error, f.Error)
	}
	c.judge(f.Signature.Scheme(), f.Judged, f.Confidence, 0)
	c.contested = c.contested || f.Contested
}

func (c *collected) counts(by bulkhead.Scheme, sightings, spam, ham uint32) {
	if max(sightings, spam) > max(c.sightings, c.spam) {
		c.bulkBy = by
	}
	c.sightings, c.spam, c.ham = max(c.sightings, sightings), max(c.spam, spam), max(c.ham, ham)
}

// judge takes a judgement. Signatures of the whole message come first and say
// more than bands: what they say, revoked included, stands.
func (c *collected) judge(by bulkhead.Scheme, j bulkhead.Judgement, confidence, bands int) {
	wins := j == bulkhead.JudgedSpam && c.judged != bulkhead.JudgedSpam || j != bulkhead.Unjudged && c.judged == bulkhead.Unjudged
	if bands > 0 && c.judged == bulkhead.Revoked {
		wins = false
	}
	if wins {
		c.judged, c.scheme, c.bands = j, by, bands
	}
	c.confidence = max(c.confidence, confidence)
	if c.judged == bulkhead.Revoked {
		c.confidence = 0
	}
}

// coincidence bounds the probability that match of n independent signatures
// are wrong at once, if each is with probability p.
func coincidence(n, match int, p float64) float64 {
	ways := 1.0
	for i := range match {
		ways *= float64(n-i) / float64(i+1)
	}
	return min(1, ways*math.Pow(p, float64(match)))
}

// banded takes the findings of all bands of one scheme: the match-th largest
// count and the match-th most confident listing speak for the message.
func (c *collected) banded(findings []bulkhead.Finding, scheme bulkhead.Scheme, match int) {
	var sightings, spam, ham, sure top
	sightings.n, spam.n, ham.n, sure.n = match, match, match, match
	bands, listed, revoked := 0, 0, 0
	var first firstSeen
	chance := 1.0
	for i := range findings {
		f := &findings[i]
		if f.Signature.Scheme() != scheme {
			continue
		}
		bands++
		sightings.add(f.Sightings)
		spam.add(f.Spam)
		ham.add(f.Ham)
		if f.Judged == bulkhead.JudgedSpam {
			listed++
			sure.add(uint32(f.Confidence))
		}
		if f.Judged == bulkhead.Revoked {
			revoked++
		}
		if f.Known() {
			first.see(f.First)
			chance = min(chance, f.Error)
		}
	}
	s, p, h := sightings.nth(), spam.nth(), ham.nth()
	if s|p|h == 0 && listed < match && revoked < match {
		return
	}
	c.counts(scheme, s, p, h)
	c.first.see(first.time())
	c.error = min(c.error, coincidence(bands, match, chance))
	switch {
	case listed >= match:
		c.judge(scheme, bulkhead.JudgedSpam, int(sure.nth()), listed)
	case revoked >= match:
		c.judge(scheme, bulkhead.Revoked, 0, revoked)
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

// weakest puts together the findings of the first one's scheme. A scheme that
// signs every part of a message (razor/e4) speaks for the message only as far
// as all its signatures do: footers that a list adds are parts of much mail.
func weakest(findings []bulkhead.Finding) bulkhead.Finding {
	w := findings[0]
	for i := range findings[1:] {
		f := &findings[1+i]
		if f.Signature.Scheme() != w.Signature.Scheme() {
			continue
		}
		w.Sightings, w.Spam, w.Ham = min(w.Sightings, f.Sightings), min(w.Spam, f.Spam), min(w.Ham, f.Ham)
		w.Confidence, w.Error = min(w.Confidence, f.Confidence), min(w.Error, f.Error)
		if f.Judged == bulkhead.Unjudged || f.Judged == bulkhead.Revoked && w.Judged == bulkhead.JudgedSpam {
			w.Judged = f.Judged
		}
	}
	return w
}
