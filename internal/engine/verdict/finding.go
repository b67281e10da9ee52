package verdict

import (
	"math"

	"github.com/bulkhead-mail/bulkhead"
)

// Unit is the weight 1 in the unit of a balance of votes. The value is part of
// the data on disk, where weights are counted in hundredths.
const Unit = 100

// A Policy has the administrator's settings for verdicts.
type Policy struct {
	Promotion float64 // weight from which votes list a signature, above 0
	NearMatch int     // bands of bulkhead/near that must agree to represent a message, 1 or more
	Mature    bool    // see [Mature]
	Step      Step
}

// Finding fills in the fields that follow from f's counts and the evidence: the
// judgement, the confidence, whether voters disagree, and the error. o may be used by
// several goroutines at once.
func (p Policy) Finding(f *bulkhead.Finding, e *Evidence, o *Odds) {
	f.Judged = p.judged(f.Signature.Scheme().Facet(), e)
	heardSpam, heardHam := e.Votes.Heard(p.Units())
	spam := float64(heardSpam) + Unit*e.Peers.Spam
	ham := float64(heardHam) + Unit*e.Peers.Revoked
	f.Confidence = confidence(f.Judged, spam, ham, float64(p.Units()))
	f.Contested = spam > 0 && ham > 0 && ham >= spam/4 && spam >= ham/4
	p.errors(f, e, o)
}

// errors fills in f's error and its two parts.
func (p Policy) errors(f *bulkhead.Finding, e *Evidence, o *Odds) {
	e.Unreported, e.Turned = o.Finding(f), 0
	switch {
	case f.Judged == bulkhead.JudgedSpam && e.Off:
		e.Turned = o.spam // listed again, or only ever revoked
	case f.Judged != bulkhead.JudgedSpam && p.hidden(f.Signature.Scheme().Facet(), e):
		e.Turned = o.revoked
	}
	f.Error = min(1, e.Unreported+e.Turned)
}

// hidden reports whether a signature that is not judged spam would be without its
// revocations.
func (p Policy) hidden(f bulkhead.Facet, e *Evidence) bool {
	if e.Own != ListedRevoked && e.Own != Revoked && e.Peers.Revoked == 0 {
		return false
	}
	without := *e
	without.Own = e.Own.unrevoked()
	without.Peers = Peers{Spam: e.Peers.Spam + e.Peers.Hidden}
	return p.judged(f, &without) == bulkhead.JudgedSpam
}

// confidence returns the certainty of the votes that a signature marks spam, in 0..100. It is the
// share of the spam weight in all weight, with a quarter of the promotion weight as a prior against
// it. It is below 50 for a signature that is not listed, and 0 for a revoked one.
func confidence(judged bulkhead.Judgement, spam, ham, promotion float64) int {
	if judged == bulkhead.Revoked {
		return 0
	}
	c := 100 * spam / (spam + ham + promotion/4)
	if judged != bulkhead.JudgedSpam {
		c = min(c, 49)
	}
	return int(math.Round(c))
}
