package learned

import (
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// A batch is the state in which the changes of one batch are decided.
type batch struct {
	out   *Changes
	gen   *Spec // that takes the changes; nil before the first
	now   uint64
	keyID uint64
	texts map[learn.Token]status // that the batch has changed
	share uint32                 // after the last report of the batch
	shown uint64
	keys  []filter.Key
	n     []uint32
}

// A status is what is known of a message.
type status struct {
	reportedIn uint64 // generation with a report that was not taken back; 0: none
	delivered  bool
	seen       bool // in this batch
}

// Begin begins the decisions on a batch of reports, which go to out. now is the time in Unix seconds.
// keyID identifies the secret of the tokens.
func (b *Book) Begin(out *Changes, now, keyID uint64) {
	*out = Changes{Of: out.Of[:0]}
	b.batch = batch{out: out, now: now, keyID: keyID, keys: b.batch.keys, n: b.batch.n}
}

// Deliver counts a message that was delivered to a person, once.
func (b *Book) Deliver(text learn.Token, tokens []learn.Token, who lesson.Person) {
	if s := b.status(text); len(tokens) > 0 && !s.delivered && b.ready() {
		s.delivered = true
		b.decide(Change{What: Delivered, Gen: b.batch.gen.Start, Text: text, Tokens: tokens, Who: who}, s)
	}
}

// Remember remembers the tokens of a message that does not count as delivered, for votes on it.
func (b *Book) Remember(text learn.Token, tokens []learn.Token) {
	if len(tokens) > 0 && b.messages.find(text, b.batch.keyID) == nil && b.ready() {
		s := b.status(text)
		s.seen = true
		b.decide(Change{What: Seen, Gen: b.batch.gen.Start, Text: text, Tokens: tokens}, s)
	}
}

// Report counts a message that a person called spam, once until the report is taken back. Without
// tokens, it takes the tokens of the delivered message if these are remembered. A message that the node has
// not seen was delivered elsewhere: it counts as delivered, too, or each such report would be taken for the
// report of a message among those that the node has delivered.
func (b *Book) Report(text learn.Token, tokens []learn.Token, who lesson.Person) {
	tokens = b.tokensOf(text, tokens)
	s := b.status(text)
	if len(tokens) == 0 || s.reportedIn != 0 || !b.ready() {
		return
	}
	c := Change{What: Reported, Gen: b.batch.gen.Start, Text: text, Tokens: tokens, Who: who}
	counts := b.Counts(tokens, b.batch.keyID)
	b.addOthers(counts, tokens, true)
	if shown, ok := learn.Shown(counts); ok {
		x := &b.batch
		if x.shown == 0 {
			x.share, x.shown = uint32(b.share.Load()), b.shown.Load()
		}
		x.shown++
		x.share = uint32(learn.Averaged(float64(x.share)*unit, shown, x.shown) / unit)
		c.Share = x.share
	}
	s.reportedIn = c.Gen
	b.decide(c, s)
	if !s.seen && b.messages.find(text, b.batch.keyID) == nil {
		b.Deliver(text, tokens, who)
	}
}

// Withdraw takes a report back, in the generation that has it. As in [Book.Report], remembered tokens
// replace the given ones.
func (b *Book) Withdraw(text learn.Token, tokens []learn.Token) {
	tokens = b.tokensOf(text, tokens)
	s := b.status(text)
	if len(tokens) == 0 || s.reportedIn == 0 {
		return
	}
	c := Change{What: Withdrawn, Gen: s.reportedIn, Text: text, Tokens: tokens}
	s.reportedIn = 0
	b.decide(c, s)
}

func (b *Book) decide(c Change, s status) {
	x := &b.batch
	if x.texts == nil {
		x.texts = make(map[learn.Token]status)
	}
	x.texts[c.Text] = s
	c.fresh = true
	x.out.Of = append(x.out.Of, c)
}

// tokensOf returns the tokens with which a message was learnt, or else those given.
func (b *Book) tokensOf(text learn.Token, tokens []learn.Token) []learn.Token {
	if had := b.messages.find(text, b.batch.keyID); had != nil {
		return had
	}
	return tokens
}

// status returns what is known of a message under the secret of the batch.
func (b *Book) status(text learn.Token) (s status) {
	if s, ok := b.batch.texts[text]; ok {
		return s
	}
	var n [3]uint32
	var room [3]filter.Key
	keys := keysOf(room[:0], []learn.Token{text})
	for _, g := range b.Live() {
		if g.Geometry.KeyID != b.batch.keyID {
			continue
		}
		if withdrawn := g.ask(keys, n[:])[0]; n[0] > withdrawn && s.reportedIn == 0 {
			s.reportedIn = g.Start
		}
		s.delivered = s.delivered || n[1] > 0
	}
	return s
}

// ready makes sure that there is a generation to take changes.
func (b *Book) ready() bool {
	x := &b.batch
	if x.gen != nil {
		return true
	}
	live := b.Live()
	if len(live) > 0 && live[0].Geometry.KeyID == x.keyID && !b.full(live[0]) {
		x.gen = &live[0].Spec
		return true
	}
	start := x.now
	if len(live) > 0 {
		start = max(start, live[0].Start+1)
	}
	spec, err := b.spec(start, x.keyID)
	if err != nil { // the memory is too small for an array
		return false
	}
	x.gen, x.out.Open = &spec, &spec
	return true
}

// Counts returns the counts of tokens of one secret.
func (b *Book) Counts(tokens []learn.Token, keyID uint64) []learn.Counts {
	x := &b.batch
	x.keys = keysOf(x.keys[:0], tokens)
	if cap(x.n) < len(x.keys) {
		x.n = make([]uint32, len(x.keys))
	}
	counts := make([]learn.Counts, len(tokens))
	for _, g := range b.Live() {
		if g.Geometry.KeyID == keyID {
			g.add(counts, x.keys, x.n[:cap(x.n)])
		}
	}
	return counts
}

// Apply applies the changes of the journal entry with the given index. counted is set if the book was
// restored from a checkpoint that includes the entry: then only pages that lack it change.
func (b *Book) Apply(index uint64, c *Changes, counted bool) error {
	if c.Open != nil {
		if err := b.open(*c.Open); err != nil {
			return err
		}
	}
	var keys []filter.Key
	var n []uint32
	// All changes of an entry to one array are made at once: a page takes an entry only once.
	for _, g := range b.Live() {
		keys = keys[:0]
		for i := range c.Of {
			x := &c.Of[i]
			if x.Gen != g.Start || x.What == Seen {
				continue
			}
			kind := uint8(x.What)
			for _, t := range x.Tokens {
				keys = append(keys, t.Key().With(kind))
			}
			keys = append(keys, x.Text.Key().With(kind))
			if !counted {
				g.count(x.What)
			}
		}
		for len(n) < len(keys) {
			n = append(n, 1)
		}
		if len(keys) > 0 {
			g.Counts.AddBatch(index, keys, n[:len(keys)], nil)
		}
	}
	if counted {
		return nil
	}
	for i := range c.Of {
		x := &c.Of[i]
		if x.Share > 0 {
			b.share.Store(uint64(x.Share))
			b.shown.Add(1)
		}
		if x.What != Seen && b.opts.Learnt != nil {
			b.opts.Learnt(lesson.Learnt{Start: x.Gen, KeyID: b.keyID(x.Gen), Text: x.Text, Who: x.Who, Tokens: x.Tokens,
				Old: !x.fresh})
		}
		if x.What != Withdrawn {
			b.messages.add(x.Text, b.keyID(x.Gen), x.Tokens)
		}
	}
	return nil
}

func (b *Book) keyID(start uint64) uint64 {
	if g := b.find(start); g != nil {
		return g.Geometry.KeyID
	}
	return 0
}

func (g *Generation) count(w What) {
	switch w {
	case Reported:
		g.reported.Add(1)
	case Withdrawn:
		g.withdrawn.Add(1)
	case Delivered:
		g.delivered.Add(1)
	}
}
