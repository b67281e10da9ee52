package engine

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// oddsEvery is how often the odds follow the arrays.
const oddsEvery = 2 * time.Second

// odds are the error probabilities of the arrays at one moment.
type odds struct {
	*verdict.Odds
	keys uint64 // in all arrays, when this was measured
	view view   // of that time: who counts, and what is merged
}

// refreshOdds measures the odds anew if the arrays have changed.
func (e *Engine) refreshOdds() {
	view := e.view()
	o := &odds{Odds: new(verdict.Odds), view: view}
	for _, g := range view.tally.Live {
		o.keys += g.Counts.Keys()
	}
	for _, g := range view.block.Live {
		o.keys += g.Spam.Keys()
	}
	o.keys += view.remote.Keys()
	if old := e.odds.Load(); old != nil && old.keys == o.keys && old.view == view {
		return
	}
	if e.opts.Exact {
		o.Odds = verdict.Exact()
		e.odds.Store(o)
		return
	}
	for _, g := range view.tally.Live {
		addCounts(o.Odds, g.Counts.Keys(), g.Counts.(verdict.Tailer))
	}
	for _, g := range view.block.Live {
		if g.Spam.Keys() > 0 {
			o.AddSpam(g.Spam.Stats().Ghost)
		}
	}
	for _, r := range view.remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.Tally {
			addCounts(o.Odds, g.Counts.Keys(), g.Counts)
		}
		for _, g := range r.Block {
			if g.Spam != nil && g.Spam.Keys() > 0 {
				o.AddSpam(g.Spam.Stats().Ghost)
			}
		}
	}
	for _, m := range view.remote.Counts {
		addCounts(o.Odds, m.Counts.Keys(), m.Counts)
	}
	for _, l := range view.remote.Lists {
		for _, g := range l.Block {
			for _, spam := range g.Spam {
				o.AddSpam(spam.Stats().Ghost)
			}
		}
	}
	e.odds.Store(o)
}

// addCounts adds the odds of a counting array that is not empty.
func addCounts(o *verdict.Odds, keys uint64, array verdict.Tailer) {
	if keys > 0 {
		o.AddCounts(array)
	}
}
