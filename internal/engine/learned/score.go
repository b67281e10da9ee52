package learned

import (
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A Score is the score of a message, with its basis.
type Score struct {
	learn.Result
	Reports  float64 // messages reported so far
	features []string
	counts   []learn.Counts
	spam     []float64 // the probability of each feature
	totals   learn.Totals
}

// buffers are the memory of a look-up that is used again.
type buffers struct {
	tokens []learn.Token
	keys   []filter.Key
	n      []uint32
}

var spare = sync.Pool{New: func() any { return new(buffers) }}

// Score scores a message by its features. The present secret of the network is the first of secrets, and
// ids has their IDs. A generation of any other secret is left out.
func (b *Book) Score(secrets []filter.Secret, ids []uint64, features []string) Score {
	s := Score{totals: b.totals()}
	s.Reports = s.totals.Reported
	if len(features) == 0 || s.Reports < learn.LeastReports {
		return s
	}
	buf := spare.Get().(*buffers)
	defer spare.Put(buf)
	buf.tokens, s.features = learn.Select(buf.tokens, secrets[0], features)
	s.counts = make([]learn.Counts, len(s.features))
	for i, id := range ids {
		ready := false
		for _, g := range b.Live() {
			if g.Geometry.KeyID != id {
				continue
			}
			if !ready {
				buf.of(secrets[i], s.features, i == 0)
				ready = true
			}
			g.add(s.counts, buf.keys, buf.n)
		}
		if i > 0 && !ready {
			continue // no generation is of that secret, and hardly one of a peer
		}
		b.addOthers(s.counts, buf.tokens, i == 0)
	}
	s.spam = s.totals.Probabilities(s.counts)
	s.Result = learn.Combine(&s.totals, s.spam)
	return s
}

// Without returns the score that the message would have if n fewer messages with each of its features
// had been reported.
func (s *Score) Without(n float64) float64 {
	totals := s.totals
	totals.Reported = max(0, totals.Reported-n)
	counts := slices.Clone(s.counts)
	for i := range counts {
		counts[i].Reported = max(0, counts[i].Reported-n)
	}
	return learn.Score(&totals, counts).Score
}

// of sets the tokens and the keys of features under a secret. present is set if the tokens are of that secret already.
func (b *buffers) of(secret filter.Secret, features []string, present bool) {
	if !present {
		b.tokens = b.tokens[:0]
		for _, f := range features {
			b.tokens = append(b.tokens, learn.Of(secret, f))
		}
	}
	b.keys = keysOf(b.keys[:0], b.tokens)
	b.n = slices.Grow(b.n[:0], len(b.keys))[:len(b.keys)]
}

// A weighed is a feature with its weight in a score.
type weighed struct {
	feature string
	weight  float64
}

func (w weighed) before(other weighed) bool {
	return w.weight > other.weight || w.weight == other.weight && w.feature < other.feature
}

// Words returns up to n of the features that speak most for the score, in words, the weightiest first.
func (s *Score) Words(n int) []string {
	all := make([]weighed, 0, n+1)
	for i, p := range s.spam {
		w := p - 0.5
		if s.Result.Score < 0 {
			w = -w
		}
		if w <= 0 || len(all) == n && w < all[n-1].weight {
			continue // most of them
		}
		all = append(all, weighed{s.features[i], w})
		for k := len(all) - 1; k > 0 && all[k].before(all[k-1]); k-- {
			all[k], all[k-1] = all[k-1], all[k]
		}
		all = all[:min(len(all), n)]
	}
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = w.feature
	}
	return out
}
