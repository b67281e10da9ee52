package learn

import (
	"math"
	"slices"
)

// The constants of the score. docs/learning.md describes their effects.
const (
	LeastReports = 10 // reports of the network from which a message has a score
	FirstReports = 50 // reports from which a score alone makes a message suspected

	prior = 1 // weight of the assumption that an unknown feature means nothing
	// familiar is the share of a message's features that a score above 0 rests on. The words of a language
	// that is new to a node are unknown, and the style alone, which spam imitates, would decide.
	familiar = 0.5

	certain    = 0.1 // distance of a feature from 1/2 from which it is used
	leastHam   = 0.1 // of the delivered messages, the least share that is taken for wanted
	LeastShare = 0.02
	leastSeen  = 4    // reports of a feature from which it shows the share that is reported
	quantile   = 0.9  // of these features
	pace       = 0.05 // weight of the latest report in the share
)

// Counts are the numbers of messages with a feature.
type Counts struct{ Reported, Delivered float64 }

// Totals are the numbers of all messages that were learnt, and the share of delivered spam that is
// reported, from [LeastShare] to 1.
type Totals struct {
	Counts
	Share float64
}

// A Result is the score of a message.
type Result struct {
	// Score is from -1, like mail that is never reported, to 1, like reported mail. It is 0 if there
	// is too little to judge by.
	Score float64
	Used  int // features that the score rests on
}

func (t *Totals) share() float64 { return min(1, max(LeastShare, t.Share)) }

// A Judge is what the probabilities of all features have in common.
type Judge struct {
	reported, wanted float64 // messages
	share            float64 // of the spam
	weight           float64 // of a wanted message
}

// Judge returns the judge of the features of a message.
func (t *Totals) Judge() Judge {
	j := Judge{reported: t.Reported, share: t.share()}
	j.wanted = max(t.Delivered-t.Reported/j.share, leastHam*t.Delivered)
	j.weight = min(1, j.reported/j.wanted)
	return j
}

// ham returns the estimated number of wanted messages among those with a feature: the delivered ones,
// less the spam that the reports stand for. Reports come by chance, so they stand for one standard
// deviation less than their number. Otherwise a rare kind of wanted mail would be lost in the spam
// that looks like it.
func (j *Judge) ham(c Counts) float64 {
	return max(0, c.Delivered-(c.Reported-math.Sqrt(c.Reported))/j.share)
}

// Probability returns the probability that a message with a feature is spam, from 0 to 1, and 1/2 for
// an unknown feature.
func (j *Judge) Probability(c Counts) float64 {
	s, h := c.Reported, j.ham(c)
	if j.reported <= 0 || j.wanted <= 0 || s+h <= 0 {
		return 0.5
	}
	p := s * j.wanted / (s*j.wanted + h*j.reported)
	n := s + h*j.weight
	return (0.5*prior + n*p) / (prior + n)
}

// Score returns the score of a message from the counts of its features, see [Combine].
func Score(t *Totals, counts []Counts) Result { return Combine(t, t.Probabilities(counts)) }

// Probabilities returns the [Judge.Probability] of each feature.
func (t *Totals) Probabilities(counts []Counts) []float64 {
	j := t.Judge()
	out := make([]float64, len(counts))
	for i, c := range counts {
		out[i] = j.Probability(c)
	}
	return out
}

// Combine combines the probabilities of the features of a message by Fisher's method. Below [LeastReports]
// reports, and before anything was delivered, it abstains.
func Combine(t *Totals, features []float64) Result {
	if t.Reported < LeastReports || t.Delivered <= 0 {
		return Result{}
	}
	spam, ham := product{rest: 1}, product{rest: 1}
	n := 0
	for _, f := range features {
		if math.Abs(f-0.5) < certain {
			continue
		}
		n++
		spam.times(1 - f)
		ham.times(f)
	}
	if n == 0 {
		return Result{}
	}
	out := Result{Score: tail(-ham.logarithm(), n) - tail(-spam.logarithm(), n), Used: n}
	if out.Score > 0 && float64(n) < familiar*float64(len(features)) {
		return Result{}
	}
	return out
}

// A product is of many numbers from 0 to 1. It takes a logarithm only when it comes near the smallest number.
type product struct{ log, rest float64 }

func (p *product) times(x float64) {
	if p.rest *= x; p.rest < 1e-200 {
		p.log, p.rest = p.logarithm(), 1
	}
}

func (p *product) logarithm() float64 { return p.log + math.Log(p.rest) }

// tail returns the probability that a chi-square value of 2k degrees of freedom is 2m or more.
func tail(m float64, k int) float64 {
	if m <= 0 {
		return 1
	}
	const most = 700 // beyond it e^-m is no normal number
	if m > most {
		sum, log := 0.0, math.Log(m)
		term := -m
		for i := range k {
			if i > 0 {
				term += log - math.Log(float64(i))
			}
			sum += math.Exp(term)
		}
		return min(1, sum)
	}
	term := math.Exp(-m)
	sum := term
	for i := 1; i < k; i++ {
		term *= m / float64(i)
		sum += term
	}
	return min(1, sum)
}

// Shown returns the share of delivered spam that the features of a reported message show to be
// reported. ok is false if too little is known of its features.
func Shown(counts []Counts) (share float64, ok bool) {
	var all []float64
	for _, c := range counts {
		if c.Reported >= leastSeen {
			all = append(all, c.Reported/max(c.Reported, c.Delivered))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[int(quantile*float64(len(all)-1))], true
}

// Averaged returns the share after the n-th report that showed one, n from 1 on: the mean of the
// first shares, and then a moving average.
func Averaged(share, shown float64, n uint64) float64 {
	weight := max(pace, 1/float64(max(n, 1)))
	return max(LeastShare, share+weight*(shown-share))
}
