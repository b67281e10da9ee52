package check

import (
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
)

// Odds are the error probabilities of the arrays at one moment.
type Odds struct {
	*verdict.Odds
	keys uint64    // keys in all arrays at the time of the measurement
	view view.View // the view at that time: origins that count, and merged arrays
}

// A meter measures the odds.
type meter struct {
	odds     atomic.Pointer[Odds]
	mu       sync.Mutex
	measured map[any]measure // guarded by mu: results for the arrays that the odds cover
}

// Odds returns the last measured odds.
func (c *Checker) Odds() *Odds { return c.meter.odds.Load() }

// Measure measures the odds again if arrays have changed. It measures only changed arrays, since a
// measurement reads megabytes of an array.
func (c *Checker) Measure() {
	m := &c.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	now := c.current.View()
	o := &Odds{Odds: new(verdict.Odds), keys: keysIn(now), view: now}
	if old := m.odds.Load(); old != nil && old.keys == o.keys && old.view == now {
		return
	}
	if c.opts.Exact {
		o.Odds = verdict.Exact()
		m.odds.Store(o)
		return
	}
	gauge := gauge{known: m.measured, next: make(map[any]measure, len(m.measured))}
	gauge.addOwn(o.Odds, now.Books)
	gauge.addRemote(o.Odds, now.Remote)
	m.measured = gauge.next
	m.odds.Store(o)
}

// keysIn returns the number of keys in all arrays that the odds cover.
func keysIn(v view.View) (keys uint64) {
	for _, g := range v.Tally.Live {
		keys += g.Counts.Keys()
	}
	for _, g := range v.Block.Live {
		keys += g.Spam.Keys() + g.Revoked.Keys()
	}
	return keys + v.Remote.Keys()
}

// addOwn adds the odds of the node's own arrays.
func (g *gauge) addOwn(o *verdict.Odds, own *view.Books) {
	for _, t := range own.Tally.Live {
		g.addCounts(o, t.Counts.(counts))
	}
	for _, b := range own.Block.Live {
		g.addList(o, b.Spam, b.Revoked)
	}
}

// addRemote adds the odds of the arrays of peers that count.
func (g *gauge) addRemote(o *verdict.Odds, remote *replica.View) {
	for _, r := range remote.Origins {
		if r.Weight == 0 {
			continue
		}
		for _, t := range r.Tally {
			g.addCounts(o, t.Counts)
		}
		for _, b := range r.Block {
			g.addList(o, orNone(b.Spam), orNone(b.Revoked))
		}
	}
	for _, m := range remote.Counts {
		g.addCounts(o, m.Counts)
	}
	for _, l := range remote.Lists {
		for _, b := range l.Block {
			for _, spam := range b.Spam {
				g.addList(o, spam, nil)
			}
			for _, revoked := range b.Revoked {
				g.addList(o, nil, revoked)
			}
		}
	}
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
