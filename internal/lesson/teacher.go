package lesson

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

const (
	// LeastRound is the least number of messages of a generation between two rounds of it. The words of a single
	// message therefore never go out together.
	LeastRound = 50
	// maxFirsts bounds the tokens of a generation that one person's mail has had so far. Beyond it, the
	// oldest are forgotten, and have to come twice again.
	maxFirsts = 1 << 20
)

// A Person stands for a person in whose mail a token was: a recipient, or the account of a voter. A
// recipient and an account may be one person, so they do not count as two. 0: unknown.
type Person uint32

// PersonOf returns the person with a hashed name. mailbox is set for a recipient.
func PersonOf(hash uint64, mailbox bool) Person {
	p := Person(hash)<<2 | 2
	if mailbox {
		p |= 1
	}
	return p
}

// other reports whether q is certainly another person than p.
func (p Person) other(q Person) bool { return p != q && p != 0 && q != 0 && p&1 == q&1 }

// A Learnt is a message that a node has learnt from.
type Learnt struct {
	Start, KeyID uint64 // of the generation that counts it
	Text         learn.Token
	Who          Person
	Tokens       []learn.Token
	// Old is set for a message of the journal of an earlier process or of another node. Rounds may have taught it
	// already, so it does not count for the next one.
	Old bool
}

// A Source has the counts of the node's generations.
type Source interface {
	// Entries returns the counts of all messages and of tokens in a generation. ok is false if the
	// generation is gone.
	Entries(start uint64, tokens []learn.Token) (all Entry, entries []Entry, ok bool)
}

// A Teacher decides which counts of a node go out. Its methods may be called concurrently.
type Teacher struct {
	source Source

	mu    sync.Mutex
	table uint64
	gens  []*taught // newest first
}

// A taught is what is taught of one generation.
type taught struct {
	mark    Mark
	pending int // messages since the last round
	sent    map[learn.Token]sentEntry
	ready   map[learn.Token]struct{} // tokens that may go out, and have changed since the last round
	// Tokens of one message or person so far. The older ones are forgotten first.
	first, former map[learn.Token]first
}

type sentEntry struct {
	Entry
	round uint32 // of its last change
}

// A first is the first message with a token.
type first struct {
	text uint32
	who  Person
}

// NewTeacher returns a teacher of what source counts.
func NewTeacher(source Source) *Teacher { return &Teacher{source: source, table: rand.Uint64() | 1} }

func newTaught(m Mark) *taught {
	return &taught{mark: m, sent: make(map[learn.Token]sentEntry), ready: make(map[learn.Token]struct{}),
		first: make(map[learn.Token]first)}
}

func (t *Teacher) generation(start, keyID uint64) *taught {
	i, ok := slices.BinarySearchFunc(t.gens, start, func(g *taught, s uint64) int { return cmp.Compare(s, g.mark.Start) })
	if !ok {
		t.gens = slices.Insert(t.gens, i, newTaught(Mark{Start: start, KeyID: keyID}))
		t.gens = t.gens[:min(len(t.gens), MaxGenerations)]
	}
	if i >= len(t.gens) {
		return nil // older than all that are kept
	}
	return t.gens[i]
}

// Learnt notes a message that the node has just counted.
func (t *Teacher) Learnt(m Learnt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.generation(m.Start, m.KeyID)
	if g == nil {
		return
	}
	if !m.Old {
		g.pending++
	}
	for _, k := range m.Tokens {
		if _, ok := g.sent[k]; ok || g.second(k, m) {
			g.ready[k] = struct{}{}
		}
	}
}

// second reports whether a token was in a message of another person before.
func (g *taught) second(k learn.Token, m Learnt) bool {
	if _, ok := g.ready[k]; ok {
		return true
	}
	if m.Who == 0 {
		return false
	}
	f, ok := g.first[k]
	if !ok {
		f, ok = g.former[k]
	}
	switch {
	case !ok:
		if len(g.first) >= maxFirsts/2 {
			g.first, g.former = make(map[learn.Token]first), g.first
		}
		g.first[k] = first{uint32(m.Text), m.Who}
		return false
	case f.text == uint32(m.Text) || !f.who.other(m.Who):
		return false
	}
	delete(g.first, k)
	delete(g.former, k)
	return true
}

// Round ends a round of each generation that has counted enough messages since its last one. It reports whether
// there was one.
func (t *Teacher) Round() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.gens, (*taught).due) {
		return false
	}
	t.gens = slices.DeleteFunc(t.gens, func(g *taught) bool { return !g.round(t.source) })
	return true
}

func (g *taught) due() bool { return g.pending >= LeastRound }

// round takes the counts of the tokens that are ready, if a round is due. It returns false if the generation is
// gone.
func (g *taught) round(source Source) bool {
	if !g.due() {
		_, _, ok := source.Entries(g.mark.Start, nil)
		return ok
	}
	g.pending = 0
	tokens := make([]learn.Token, 0, len(g.ready))
	for k := range g.ready {
		tokens = append(tokens, k)
	}
	slices.Sort(tokens)
	all, entries, ok := source.Entries(g.mark.Start, tokens)
	if !ok {
		return false
	}
	next := g.mark.Round + 1
	changed := all != g.mark.All
	for _, e := range entries {
		if had, ok := g.sent[e.Token]; !ok || had.Entry != e {
			g.sent[e.Token] = sentEntry{e, next}
			changed = true
		}
	}
	clear(g.ready)
	if changed {
		g.mark.Round, g.mark.All = next, all
	}
	return true
}

// Answer returns the lessons that a peer lacks, as of the last round. It always returns at least one.
func (t *Teacher) Answer(s *Study) []*Lesson {
	t.mu.Lock()
	defer t.mu.Unlock()
	live := make([]Mark, 0, len(t.gens))
	for _, g := range t.gens {
		if g.mark.Round > 0 {
			live = append(live, g.mark)
		}
	}
	var out []*Lesson
	of := 0
	for _, g := range t.gens {
		if g.mark.Round == 0 {
			continue
		}
		since := uint32(0)
		for _, m := range s.Held {
			if m.Start == g.mark.Start && s.Table == t.table && m.Round <= g.mark.Round {
				since = m.Round
			}
		}
		if since < g.mark.Round {
			out = append(out, g.since(since, of, t.table, live)...)
		}
		of++
	}
	if len(out) == 0 {
		out = append(out, &Lesson{Table: t.table, Live: live})
	}
	return out
}

// since returns the lessons of the rounds after one. They have the order of the tokens, which the
// secret of the network determines: it shows nothing of the messages.
func (g *taught) since(since uint32, of int, table uint64, live []Mark) []*Lesson {
	var all []Entry
	for _, e := range g.sent {
		if e.round > since {
			all = append(all, e.Entry)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Token, b.Token) })
	return partsOf(all, Lesson{Table: table, Live: live, Of: of, Since: since})
}

// A TeacherState describes what a node teaches.
type TeacherState struct {
	Features int // tokens that were taught, in all generations
	Waiting  int // messages since the last rounds
}

// Taught returns what the node teaches.
func (t *Teacher) Taught() (s TeacherState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.gens {
		s.Waiting += g.pending
		s.Features += len(g.sent)
	}
	return s
}

// saved returns all that was taught, as lessons.
func (t *Teacher) saved() []*Lesson { return t.Answer(&Study{}) }

// restore takes what saved returned. The counts may have risen since, so all tokens are read again in the
// next round.
func (t *Teacher) restore(lessons []*Lesson) {
	for _, l := range lessons {
		t.table = l.Table
		for _, m := range l.Live {
			if g := t.generation(m.Start, m.KeyID); g != nil {
				g.mark = m
			}
		}
		if l.Parts == 0 {
			continue
		}
		m := l.Live[l.Of]
		if g := t.generation(m.Start, m.KeyID); g != nil {
			for _, e := range l.Entries {
				g.sent[e.Token], g.ready[e.Token] = sentEntry{e, m.Round}, struct{}{}
			}
		}
	}
}
