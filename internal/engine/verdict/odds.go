package verdict

import (
	"sort"

	"github.com/bulkhead-mail/bulkhead"
)

// levels are the counts for which odds are stored. A count between two levels has the odds of the
// lower level, which are never too small.
var levels = [...]uint32{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000, 10_000, 100_000,
	1_000_000, bulkhead.Many}

// Odds are the probabilities that the filters, at their present fill, show values for an unreported
// signature, and revocations of a signature that was not revoked. They may be read by several
// goroutines at once while nothing is added.
type Odds struct {
	exact bool
	// counts[i] is the probability of a count of levels[i] or more.
	counts Tail
	spam   float64 // probability of a place on the blocklist
	// revoked is the probability that a revocation filter has a listed signature that was not
	// revoked.
	revoked float64
}

// Exact returns the odds of exact storage, which makes no errors.
func Exact() *Odds { return &Odds{exact: true} }

// A Tailer is a counting array. Tail returns, for each of the counts in ascending order, the
// probability that an absent key shows at least that count.
type Tailer interface {
	Tail(counts []uint32) []float64
}

// A Tail is the odds of one counting array: the probabilities that an absent key shows one
// of levels, or more.
type Tail [len(levels)]float64

// TailOf measures the odds of a counting array.
func TailOf(array Tailer) Tail { return Tail(array.Tail(levels[:])) }

// AddTail adds the odds of one counting array: the probability that any of several is
// wrong is at most the sum.
func (o *Odds) AddTail(t Tail) {
	for i, p := range t {
		o.counts[i] = min(1, o.counts[i]+p)
	}
}

// AddSpam adds the probability, in 0..1, that one spam filter has an unreported signature.
func (o *Odds) AddSpam(ghost float64) { o.spam = min(1, o.spam+ghost) }

// AddRevoked adds the probability, in 0..1, that one revocation filter has a signature that was not
// revoked.
func (o *Odds) AddRevoked(ghost float64) { o.revoked = min(1, o.revoked+ghost) }

// Revoked returns the probability that a listed signature without a revocation appears as revoked.
func (o *Odds) Revoked() float64 { return o.revoked }

// leastOdds stands for odds that are too small to measure. Odds are never 0 in a filter that is not
// empty.
const leastOdds = 1e-30

// Finding returns the probability that an unreported signature looks like f, or worse.
// All values of f would have to be wrong at once, so the least probable one is a bound.
func (o *Odds) Finding(f *bulkhead.Finding) float64 {
	if o.exact || !f.Known() {
		return 0
	}
	p := 1.0
	for _, n := range []uint32{f.Sightings, f.Spam, f.Ham} {
		if n > 0 {
			p = min(p, o.atLeast(n))
		}
	}
	if f.Judged != bulkhead.Unjudged {
		p = min(p, o.spam)
	}
	return max(p, leastOdds)
}

// Count returns the probability that an unreported signature shows at least the count.
func (o *Odds) Count(n uint32) float64 {
	if o.exact || n == 0 {
		return 0
	}
	return max(o.atLeast(n), leastOdds)
}

func (o *Odds) atLeast(n uint32) float64 {
	i := sort.Search(len(levels), func(i int) bool { return levels[i] > n })
	return o.counts[i-1]
}
