package lesson

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

const (
	entryBytes = 24 // of memory
	// An origin is left out while its counts alone would condemn more than mostHits of the node's own
	// wanted mail, by a lower bound of 95 %. Half of the trials is forgotten after maxTrials.
	mostHits  = 0.01
	maxTrials = 1000
	condemned = 0.99
)

// A Class is what a node holds of what its peers teach. Its methods may be called concurrently.
type Class struct {
	limit uint64                     // bytes
	known func(keyID uint64) bool    // secrets of the network
	set   func(others *learn.Others) // receives what all of them know

	mu      sync.Mutex
	origins map[string]*origin
	changed bool // since the last combination
	dirty   bool // since it was saved
	next    int  // origin that is tried next
}

// An origin is what is held of one peer.
type origin struct {
	weight float64
	table  uint64
	gens   []*studied // newest first
	full   bool       // its share of the memory is used up
	owed   int        // generations that it may still teach, until it is asked again
	tried  float64    // wanted messages of this node
	hits   float64    // that it alone would condemn
}

type studied struct {
	Mark
	to      uint32 // round that the parts lead to
	next    uint32 // part that is expected
	entries []Entry
	parts   []Entry // of the parts before next
	grown   int     // tokens in parts that entries lacks
}

// maxOwed is the number of generations that an origin may teach after two questions: an answer may come after the
// next question. Each costs as much as the origin has taught before.
const maxOwed = 2 * MaxGenerations

// NewClass returns a class without peers. limit bounds its memory, in bytes. set is called with each
// new combination.
func NewClass(limit uint64, known func(keyID uint64) bool, set func(*learn.Others)) *Class {
	return &Class{limit: limit, known: known, set: set, origins: make(map[string]*origin)}
}

// Keep sets the peers that count, by their keys, with their weights. The counts of all others are dropped. A
// peer of weight 0 is studied, and does not count.
func (c *Class) Keep(weights map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.origins)
	maps.DeleteFunc(c.origins, func(id string, _ *origin) bool { _, ok := weights[id]; return !ok })
	c.changed = c.changed || len(c.origins) != before
	for id, w := range weights {
		o := c.origins[id]
		if o == nil {
			o = &origin{owed: maxOwed}
			c.origins[id] = o
		}
		c.changed = c.changed || (o.weight > 0) != (w > 0)
		o.weight = w
	}
	c.dirty = c.dirty || c.changed
}

// Forget drops the generations of an origin for which drop returns true.
func (c *Class) Forget(id string, drop func(start uint64) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.origins[id]; o != nil {
		n := len(o.gens)
		o.gens = slices.DeleteFunc(slices.Clone(o.gens), func(g *studied) bool { return drop(g.Start) })
		if len(o.gens) != n {
			c.changed, c.dirty = true, true
		}
	}
}

// Rename gives an origin another key.
func (c *Class) Rename(from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.origins[from]; o != nil {
		delete(c.origins, from)
		c.origins[to], c.dirty = o, true
	}
}

// Study returns the question to an origin, which may then answer it.
func (c *Class) Study(id string) *Study {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Study{}
	if o := c.origins[id]; o != nil {
		s.Table = o.table
		o.owed = min(o.owed+MaxGenerations, maxOwed)
		for _, g := range o.gens {
			s.Held = append(s.Held, Mark{Start: g.Start, Round: g.Round})
		}
	}
	return s
}

// Take takes a lesson of an origin. It returns an error that wraps [bulkhead.ErrOverLimit] if the
// origin's share of the memory is used up, or if it teaches more often than it is asked, and one that wraps
// [bulkhead.ErrForbidden] if the origin is no peer. It then keeps the counts that it has. A part that does not
// continue the parts before is left out. The counts of a generation change when its last part has come.
func (c *Class) Take(id string, l *Lesson) error { return c.take(id, l, false) }

// take is Take. A lesson from the node's own disk needs no question.
func (c *Class) take(id string, l *Lesson, own bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.origins[id]
	if o == nil {
		return fmt.Errorf("%w: lesson: %.80q is no peer", bulkhead.ErrForbidden, id)
	}
	if o.table != l.Table {
		*o = origin{weight: o.weight, table: l.Table, tried: o.tried, hits: o.hits, owed: o.owed}
		c.changed, c.dirty = true, true
	}
	live := func(start uint64) bool {
		return slices.ContainsFunc(l.Live, func(m Mark) bool { return m.Start == start })
	}
	if n := len(o.gens); n > 0 {
		o.gens = slices.DeleteFunc(o.gens, func(g *studied) bool { return !live(g.Start) })
		c.changed = c.changed || len(o.gens) != n
	}
	if l.Parts == 0 || !c.known(l.Live[l.Of].KeyID) {
		return nil
	}
	g := o.generation(l.Live[l.Of])
	if l.Part == 0 {
		g.restart()
		g.to = l.Live[l.Of].Round
	}
	if l.Since > g.Round || l.Part != g.next || g.to != l.Live[l.Of].Round || g.KeyID != l.Live[l.Of].KeyID ||
		len(g.parts) > 0 && len(l.Entries) > 0 && l.Entries[0].Token <= g.parts[len(g.parts)-1].Token {
		return nil // a part was lost; the next study asks for it again
	}
	if o.owed == 0 && !own {
		g.restart()
		return fmt.Errorf("%w: lesson: an origin teaches more often than it is asked", bulkhead.ErrOverLimit)
	}
	for _, e := range l.Entries {
		if _, ok := g.find(e.Token); !ok {
			g.grown++
		}
	}
	g.parts = append(g.parts, l.Entries...)
	if g.next++; g.grown > 0 && uint64(o.entries()) > c.quota() {
		g.restart()
		o.full = true
		return fmt.Errorf("%w: lesson: an origin teaches more than %d tokens", bulkhead.ErrOverLimit, c.quota())
	}
	if g.next < l.Parts {
		return nil
	}
	g.entries = merge(g.entries, g.parts)
	g.restart()
	g.Mark = l.Live[l.Of]
	c.changed, c.dirty, o.full = true, true, false
	if !own {
		o.owed--
	}
	return nil
}

// restart drops parts that have come.
func (g *studied) restart() { g.next, g.parts, g.grown = 0, nil, 0 }

// quota returns the number of entries that one origin may have.
func (c *Class) quota() uint64 { return c.limit / entryBytes / uint64(max(1, len(c.origins))) }

// entries returns the number of tokens, with those in parts of a generation that is not complete.
func (o *origin) entries() (n int) {
	for _, g := range o.gens {
		n += len(g.entries) + g.grown
	}
	return n
}

func (o *origin) generation(m Mark) *studied {
	i, ok := slices.BinarySearchFunc(o.gens, m.Start, func(g *studied, s uint64) int { return cmp.Compare(s, g.Start) })
	if !ok {
		o.gens = slices.Insert(o.gens, i, &studied{Mark: Mark{Start: m.Start, KeyID: m.KeyID}})
	}
	return o.gens[i]
}

// merge returns entries with later ones in place of the ones with the same tokens. Both ascend.
func merge(entries, later []Entry) []Entry {
	out := make([]Entry, 0, len(entries)+len(later))
	for len(entries) > 0 && len(later) > 0 {
		switch c := cmp.Compare(entries[0].Token, later[0].Token); {
		case c < 0:
			out, entries = append(out, entries[0]), entries[1:]
			continue
		case c == 0:
			entries = entries[1:]
		}
		out, later = append(out, later[0]), later[1:]
	}
	return slices.Clip(append(append(out, entries...), later...))
}

// totals returns the numbers of all messages of an origin.
func (o *origin) totals() (sum learn.Counts) {
	for _, g := range o.gens {
		add(&sum, g.All)
	}
	return sum
}

// add adds what one generation counted.
func add(sum *learn.Counts, e Entry) {
	sum.Reported += max(0, float64(e.Reported)-float64(e.Withdrawn))
	sum.Delivered += float64(e.Delivered)
}

// Try judges a message that the node takes for wanted by the counts of one origin alone, each time of the
// next one. The tokens are under the secret with the given ID, and share is the node's share of reported
// spam. An origin that condemns too many of these messages is left out of the combination.
func (c *Class) Try(tokens []learn.Token, keyID uint64, share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := slices.Sorted(maps.Keys(c.origins))
	if len(ids) == 0 || len(tokens) == 0 {
		return
	}
	c.next++
	o := c.origins[ids[c.next%len(ids)]]
	totals := learn.Totals{Counts: o.totals(), Share: share}
	if totals.Reported < learn.LeastReports {
		return
	}
	before := o.condemns()
	counts := make([]learn.Counts, len(tokens))
	for _, g := range o.gens {
		if g.KeyID != keyID {
			continue
		}
		for i, t := range tokens {
			if e, ok := g.find(t); ok {
				add(&counts[i], e)
			}
		}
	}
	if o.tried++; learn.Score(&totals, counts).Score >= condemned {
		o.hits++
	}
	if o.tried >= maxTrials {
		o.tried, o.hits = o.tried/2, o.hits/2
	}
	c.changed = c.changed || o.condemns() != before
}

func (g *studied) find(t learn.Token) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(g.entries, t, func(e Entry, t learn.Token) int { return cmp.Compare(e.Token, t) })
	if !ok {
		return Entry{}, false
	}
	return g.entries[i], true
}

// condemns reports whether the origin alone would condemn too many of the node's wanted messages.
func (o *origin) condemns() bool {
	low, _ := interval.Wilson(int(o.hits), int(o.tried))
	return low > mostHits
}

// An OriginState describes what is held of one peer.
type OriginState struct {
	ID        string
	Reported  float64 // messages
	Delivered float64 // messages
	Features  int     // tokens, in all generations
	Tried     int     // wanted messages of this node
	Hits      int     // that its counts alone would condemn
	Condemns  bool    // these are too many, so it is left out
	Full      bool    // its share of the memory is used up
}

// State returns what is held of each peer that teaches, in the order of their keys.
func (c *Class) State() (out []OriginState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.origins)) {
		o := c.origins[id]
		if o.table == 0 {
			continue
		}
		sum := o.totals()
		out = append(out, OriginState{ID: id, Reported: sum.Reported, Delivered: sum.Delivered, Features: o.entries(),
			Tried: int(o.tried), Hits: int(o.hits), Condemns: o.condemns(), Full: o.full})
	}
	return out
}
