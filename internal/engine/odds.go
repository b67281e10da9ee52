package engine

import (
	"sort"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// oddsEvery is how often the odds follow the arrays.
const oddsEvery = 2 * time.Second

// oddsAt are the counts for which odds are kept. The odds of a count between
// two of them are those of the lower one: never too small.
var oddsAt = []uint32{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000, filter.Many}

// odds is how likely the filters are, at their present fill, to show of a
// signature that nobody reported what they show of another.
type odds struct {
	exact bool
	// counts[i] is the probability of a count of oddsAt[i] or more.
	counts []float64
	spam   float64 // probability of a place on the blocklist
	keys   uint64  // in all arrays, when this was measured
	view   *view   // of that time: who counts, and what is merged
}

// tailer is what odds asks of a counting array: for each count, the
// probability that an absent key shows it or more.
type tailer interface {
	Tail(counts []uint32) []float64
}

// refreshOdds measures the odds anew if the arrays have changed.
func (e *Engine) refreshOdds() {
	view := e.view.Load()
	o := &odds{exact: e.opts.Exact, counts: make([]float64, len(oddsAt)), view: view}
	for _, g := range view.tally {
		o.keys += g.counts.Keys()
	}
	for _, g := range view.block {
		o.keys += g.spam.Keys()
	}
	for _, r := range view.remote {
		for _, x := range r.arrays {
			o.keys += x.replicated().Keys()
		}
	}
	if old := e.odds.Load(); old != nil && old.keys == o.keys && old.view == view {
		return
	}
	if o.exact {
		e.odds.Store(o)
		return
	}
	for _, g := range view.tally {
		o.addCounts(g.counts.Keys(), g.counts.(tailer))
	}
	for _, g := range view.block {
		if g.spam.Keys() > 0 {
			o.spam = min(1, o.spam+g.spam.Stats().Ghost)
		}
	}
	for _, r := range view.remote {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.tally {
			o.addCounts(g.counts.Keys(), g.counts)
		}
		for _, g := range r.block {
			if g.spam != nil && g.spam.Keys() > 0 {
				o.spam = min(1, o.spam+g.spam.Stats().Ghost)
			}
		}
	}
	for _, m := range view.mergedCounts {
		o.addCounts(m.counts.Keys(), m.counts)
	}
	for _, m := range view.merged {
		if m.array == ArraySpam {
			o.spam = min(1, o.spam+m.cells.Stats().Ghost)
		}
	}
	e.odds.Store(o)
}

// addCounts adds the odds of one array: that any of several is wrong is at most
// the sum.
func (o *odds) addCounts(keys uint64, array tailer) {
	if keys == 0 {
		return
	}
	for i, p := range array.Tail(oddsAt) {
		o.counts[i] = min(1, o.counts[i]+p)
	}
}

// leastOdds stands for odds that are too small to measure: they are never 0 in
// a filter that holds anything.
const leastOdds = 1e-30

// finding returns the probability that an unreported signature is shown as f
// shows this one, or worse. All that f shows would have to be wrong at once, so
// the rarest part bounds it.
func (o *odds) finding(f *bulkhead.Finding) float64 {
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

func (o *odds) atLeast(n uint32) float64 {
	i := sort.Search(len(oddsAt), func(i int) bool { return oddsAt[i] > n })
	return o.counts[i-1]
}
