package engine

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
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
		o.keys += g.Spam.Keys() + g.Revoked.Keys()
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
		addList(o.Odds, g.Spam, g.Revoked)
	}
	for _, r := range view.remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.Tally {
			addCounts(o.Odds, g.Counts.Keys(), g.Counts)
		}
		for _, g := range r.Block {
			addList(o.Odds, orNone(g.Spam), orNone(g.Revoked))
		}
	}
	for _, m := range view.remote.Counts {
		addCounts(o.Odds, m.Counts.Keys(), m.Counts)
	}
	for _, l := range view.remote.Lists {
		for _, g := range l.Block {
			for _, spam := range g.Spam {
				addList(o.Odds, spam, nil)
			}
			for _, revoked := range g.Revoked {
				addList(o.Odds, nil, revoked)
			}
		}
	}
	e.odds.Store(o)
}

// A bitset is a filter of a blocklist.
type bitset interface {
	Keys() uint64
	Stats() filter.Stats
}

// orNone returns b as a bitset, nil if the origin has not sent the array.
func orNone(b *filter.Bits) bitset {
	if b == nil {
		return nil
	}
	return b
}

// addList adds the odds of the filters of one generation of a blocklist, those that are
// there and not empty.
func addList(o *verdict.Odds, spam, revoked bitset) {
	if spam != nil && spam.Keys() > 0 {
		o.AddSpam(spam.Stats().Ghost)
	}
	if revoked != nil && revoked.Keys() > 0 {
		o.AddRevoked(revoked.Stats().Ghost)
	}
}

// addCounts adds the odds of a counting array that is not empty.
func addCounts(o *verdict.Odds, keys uint64, array verdict.Tailer) {
	if keys > 0 {
		o.AddCounts(array)
	}
}
