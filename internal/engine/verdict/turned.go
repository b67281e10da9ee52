package verdict

import "github.com/bulkhead-mail/bulkhead"

// unreported returns the probability that an unreported signature looks like f: f's error without
// the part due to revocations.
func unreported(f *bulkhead.Finding, e *Evidence) float64 {
	if e.Turned > 0 {
		return e.Unreported
	}
	return f.Error
}

// turned is the probability that an error of the filters has turned the judgement of a text: a
// revocation filter hides that it is listed, or a spam filter hides that it was revoked.
type turned struct {
	hidden  float64 // the text is judged not spam, and the listing of one of its signatures is hidden
	again   float64 // it is judged spam, and each of the signatures behind this judgement was revoked once
	decided bool    // a scheme judges it spam
}

// turned returns the probabilities that an error of the filters has turned the text's judgement.
// Hardly any mail has a revoked signature.
func (j *Decider) turned(findings []bulkhead.Finding, evidence []Evidence) (t turned) {
	any := false
	for i := range evidence {
		any = any || evidence[i].Turned > 0
	}
	if !any {
		return t
	}
	for i := range findings {
		scheme := findings[i].Signature.Scheme()
		if classOf(scheme) == classWhole && first(findings[:i], scheme) {
			t.add(turnedWhole(findings[i:], evidence[i:]))
		}
	}
	for _, scheme := range bandSchemes {
		t.bands(bandMatch(scheme, j.Policy.NearMatch), findings, evidence, scheme)
	}
	return t
}

// add adds the result of one scheme: its judgement, and the probability p that an error has turned
// it. A scheme that is spam without a turn makes the text spam. Of the schemes with hidden
// listings, only one may have been listed, since the remaining signatures may belong to a revoked
// text.
func (t *turned) add(j bulkhead.Judgement, p float64) {
	switch {
	case j != bulkhead.JudgedSpam:
		t.hidden = max(t.hidden, p)
	case t.decided:
		t.again = min(t.again, p)
	default:
		t.again, t.decided = p, true
	}
}

// turnedWhole returns the judgement by the signatures of the first finding's scheme, and the
// probability that an error has turned it. The judgement is spam only if all of the signatures are
// spam. If several are hidden, an error must have hidden each of them.
func turnedWhole(findings []bulkhead.Finding, evidence []Evidence) (bulkhead.Judgement, float64) {
	scheme := findings[0].Signature.Scheme()
	parts, hidden, listed := 0, 0, 0
	var again, revoked float64 // probabilities for one of them
	for i := range findings {
		f, e := &findings[i], &evidence[i]
		if f.Signature.Scheme() != scheme {
			continue
		}
		parts++
		switch {
		case f.Judged == bulkhead.JudgedSpam:
			listed++
			again = max(again, e.Turned)
		case e.Turned > 0:
			hidden++
			revoked = e.Turned
		}
	}
	switch {
	case listed == parts:
		return bulkhead.JudgedSpam, again
	case listed+hidden == parts:
		return bulkhead.Unjudged, coincidence(parts, hidden, revoked)
	}
	return bulkhead.Unjudged, 0 // it was not spam in any case
}

// bands adds the result of the bands of one scheme, of which match must be listed.
func (t *turned) bands(match int, findings []bulkhead.Finding, evidence []Evidence, scheme bulkhead.Scheme) {
	var listed, again, hidden, revoked int
	var isAgain, isHidden float64 // the probability of a single error
	for i := range findings {
		f, e := &findings[i], &evidence[i]
		if f.Signature.Scheme() != scheme {
			continue
		}
		if e.Off {
			revoked++
		}
		switch {
		case f.Judged == bulkhead.JudgedSpam && e.Turned > 0:
			listed++
			again++
			isAgain = e.Turned
		case f.Judged == bulkhead.JudgedSpam:
			listed++
		case e.Turned > 0:
			hidden++
			isHidden = e.Turned
		}
	}
	switch need := listed - match + 1; {
	case need > again && need > 0:
		t.add(bulkhead.JudgedSpam, 0)
	case need > 0: // errors listed at least need of the revoked bands
		t.add(bulkhead.JudgedSpam, coincidence(revoked, need, isAgain))
	case listed+hidden >= match: // errors hid the missing bands of a matching text
		t.add(bulkhead.Unjudged, coincidence(match, match-listed, isHidden))
	}
}
