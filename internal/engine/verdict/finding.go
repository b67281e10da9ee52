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
	NearMatch int     // bands of bulkhead/near that must agree to speak for a message, 1 or more
	Mature    bool    // see [Mature]
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
	f.Error = o.Finding(f)
}

// confidence returns how certain votes are that a signature marks spam, in 0..100: the
// share of the spam weight in all weight, with a quarter of the promotion weight against
// it as a prior. A signature that is not listed stays below 50, a revoked one is 0.
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
