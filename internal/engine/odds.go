package engine

import (
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// oddsEvery is the interval at which the odds are measured again.
const oddsEvery = 2 * time.Second

// odds are the error probabilities of the arrays at one moment.
type odds struct {
	*verdict.Odds
	keys uint64 // keys in all arrays at the time of the measurement
	view view   // the view at that time: origins that count, and merged arrays
}

// refreshOdds measures the odds again if arrays have changed. It measures only changed arrays,
// since a measurement reads megabytes of an array.
func (e *Engine) refreshOdds() {
	e.measuring.Lock()
	defer e.measuring.Unlock()
	view := e.view()
	o := &odds{Odds: new(verdict.Odds), view: view}
	gauge := gauge{known: e.measured, next: make(map[any]measure, len(e.measured))}
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
		gauge.addCounts(o.Odds, g.Counts.(counts))
	}
	for _, g := range view.block.Live {
		gauge.addList(o.Odds, g.Spam, g.Revoked)
	}
	for _, r := range view.remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, g := range r.Tally {
			gauge.addCounts(o.Odds, g.Counts)
		}
		for _, g := range r.Block {
			gauge.addList(o.Odds, orNone(g.Spam), orNone(g.Revoked))
		}
	}
	for _, m := range view.remote.Counts {
		gauge.addCounts(o.Odds, m.Counts)
	}
	for _, l := range view.remote.Lists {
		for _, g := range l.Block {
			for _, spam := range g.Spam {
				gauge.addList(o.Odds, spam, nil)
			}
			for _, revoked := range g.Revoked {
				gauge.addList(o.Odds, nil, revoked)
			}
		}
	}
	e.measured = gauge.next
	e.odds.Store(o)
}

// A measure is the result of measuring an array when it had the given number of keys.
type measure struct {
	keys  uint64
	tail  verdict.Tail // of a counting array
	ghost float64      // of a filter
}

// A gauge measures arrays. It reuses the results for unchanged arrays.
type gauge struct {
	known, next map[any]measure
}

func (g *gauge) measure(array interface{ Keys() uint64 }, read func(*measure)) measure {
	m, ok := g.known[array]
	if keys := array.Keys(); !ok || m.keys != keys {
		m = measure{keys: keys}
		read(&m)
	}
	g.next[array] = m
	return m
}

// A counts is a counting array.
type counts interface {
	Keys() uint64
	verdict.Tailer
}

// A bitset is a filter of a blocklist.
type bitset interface {
	Keys() uint64
	Stats() arrays.Stats
}

// orNone returns b as a bitset, or nil if the origin has not sent the array.
func orNone(b *arrays.Bits) bitset {
	if b == nil {
		return nil
	}
	return b
}

// addList adds the odds of the filters of one generation of a blocklist. It skips missing and empty
// filters.
func (g *gauge) addList(o *verdict.Odds, spam, revoked bitset) {
	ghost := func(b bitset) float64 {
		return g.measure(b, func(m *measure) { m.ghost = b.Stats().Ghost }).ghost
	}
	if spam != nil && spam.Keys() > 0 {
		o.AddSpam(ghost(spam))
	}
	if revoked != nil && revoked.Keys() > 0 {
		o.AddRevoked(ghost(revoked))
	}
}

// addCounts adds the odds of a counting array that is not empty.
func (g *gauge) addCounts(o *verdict.Odds, array counts) {
	if array.Keys() > 0 {
		o.AddTail(g.measure(array, func(m *measure) { m.tail = verdict.TailOf(array) }).tail)
	}
}
