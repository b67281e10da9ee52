package lesson

import (
	"maps"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// Combine hands out the combination of all origins that count, if anything has changed since the last
// one. It reports whether it did.
func (c *Class) Combine() bool {
	c.mu.Lock()
	if !c.changed {
		c.mu.Unlock()
		return false
	}
	c.changed = false
	var members []member
	for _, id := range slices.Sorted(maps.Keys(c.origins)) {
		o := c.origins[id]
		if o.weight > 0 && o.table != 0 && !o.condemns() {
			// A table is replaced, never changed, so it can be read without the lock.
			members = append(members, o.member())
		}
	}
	c.mu.Unlock()
	c.set(combine(members))
	return true
}

// A member is one origin of a combination.
type member struct {
	totals learn.Counts
	tables []table
}

// A table is the entries of one generation, of which none counts more than all its messages.
type table struct {
	all     Entry
	entries []Entry
}

func (o *origin) member() member {
	m := member{totals: o.totals()}
	for _, g := range o.gens {
		if g.Round > 0 {
			m.tables = append(m.tables, table{g.All, g.entries})
		}
	}
	return m
}

// combine returns what several origins know together. It walks through their tables in the order of the
// tokens.
func combine(members []member) *learn.Others {
	out := &learn.Others{Of: make(map[learn.Token]learn.Known), Number: len(members)}
	all := make([]learn.Counts, len(members))
	reported, delivered := make([]float64, len(members)), make([]float64, len(members))
	for i, m := range members {
		all[i], reported[i], delivered[i] = m.totals, m.totals.Reported, m.totals.Delivered
	}
	reported, delivered = learn.Scales(reported), learn.Scales(delivered)
	out.Totals = learn.Together(all, reported, delivered)
	for {
		token, any := learn.Token(0), false
		for _, m := range members {
			for _, t := range m.tables {
				if len(t.entries) > 0 && (!any || t.entries[0].Token < token) {
					token, any = t.entries[0].Token, true
				}
			}
		}
		if !any {
			return out
		}
		for i, m := range members {
			all[i] = learn.Counts{}
			for k := range m.tables {
				t := &m.tables[k]
				if len(t.entries) > 0 && t.entries[0].Token == token {
					add(&all[i], t.next())
				}
			}
		}
		if sum := learn.Together(all, reported, delivered); sum != (learn.Known{}) {
			out.Of[token] = sum
		}
	}
}

// next removes the first entry and returns it, with counts of at most all messages.
func (t *table) next() Entry {
	e := t.entries[0]
	t.entries = t.entries[1:]
	return Entry{e.Token, min(e.Reported, t.all.Reported), e.Withdrawn, min(e.Delivered, t.all.Delivered)}
}
