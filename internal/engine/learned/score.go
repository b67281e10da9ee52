package learned

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A Score is the score of a message, with its basis.
type Score struct {
	learn.Result
	Reports float64 // messages reported so far
	chosen  []learn.Chosen
	counts  []learn.Counts
	totals  learn.Totals
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
	s.chosen = learn.Select(secrets[0], features)
	s.counts = make([]learn.Counts, len(s.chosen))
	buf := spare.Get().(*buffers)
	defer spare.Put(buf)
	for i, id := range ids {
		ready := false
		for _, g := range b.Live() {
			if g.Geometry.KeyID != id {
				continue
			}
			if !ready {
				buf.of(secrets[i], s.chosen, i == 0)
				ready = true
			}
			g.add(s.counts, buf.keys, buf.n)
		}
		if i > 0 && !ready {
			continue // no generation is of that secret, and hardly one of a peer
		}
		if !ready {
			buf.of(secrets[i], s.chosen, true)
		}
		b.addOthers(s.counts, buf.tokens, i == 0)
	}
	s.Result = learn.Score(&s.totals, s.counts)
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

// of sets the keys of features under a secret. present is set if it is the secret of the tokens.
func (b *buffers) of(secret filter.Secret, chosen []learn.Chosen, present bool) {
	b.tokens = b.tokens[:0]
	for i := range chosen {
		t := chosen[i].Token
		if !present {
			t = learn.Of(secret, chosen[i].Feature)
		}
		b.tokens = append(b.tokens, t)
	}
	b.keys = keysOf(b.keys[:0], b.tokens)
	b.n = slices.Grow(b.n[:0], len(b.keys))[:len(b.keys)]
}

// Words returns up to n of the features that speak most for the score, in words, the weightiest first.
func (s *Score) Words(n int) []string {
	type weighed struct {
		feature string
		weight  float64
	}
	all := make([]weighed, 0, n+1)
	judge := s.totals.Judge()
	for i := range s.counts {
		w := judge.Probability(s.counts[i]) - 0.5
		if s.Result.Score < 0 {
			w = -w
		}
		if w <= 0 || len(all) == n && w < all[n-1].weight {
			continue // most of them
		}
		one := weighed{s.chosen[i].Feature, w}
		at, _ := slices.BinarySearchFunc(all, one, func(a, b weighed) int {
			if a.weight != b.weight {
				return cmp.Compare(b.weight, a.weight)
			}
			return strings.Compare(a.feature, b.feature)
		})
		all = slices.Insert(all, at, one)
		all = all[:min(len(all), n)]
	}
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = w.feature
	}
	return out
}
