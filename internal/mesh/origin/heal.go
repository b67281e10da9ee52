package origin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

const (
	healPages = 16               // pages requested from a peer at once
	healWait  = 10 * time.Second // how long to wait for a peer's answer
	healBeats = 20               // heartbeats after the last page came back, until the other pages are given up
	healHeard = 4                // the same, once all peers have answered
	maxPasts  = 1024             // statements of the node's own past that wait until it publishes again
)

// A cure is the sender's progress in recovering the pages that the node has lost.
type cure struct {
	began, last time.Time // last: when a page last came back
	again       time.Time // when peers were last asked anew for pages that they lacked
	asked       map[wire.Hint]*asked
	answered    map[wire.Hint]map[lostPage]bool
	by          map[string]int // recovered pages by peer
	pasts       []wire.Past

	reads   chan *memory            // the node's messages that brokers have stored
	read    map[wire.Transport]bool // brokers that were asked for them
	reading bool
}

// A lostPage names a page of an own array.
type lostPage struct {
	wire.Ref
	page uint64
}

// An asked holds the pages that were requested from a peer and not answered yet.
type asked struct {
	at    time.Time
	pages map[lostPage]bool
}

func newCure(now time.Time) *cure {
	return &cure{began: now, last: now, again: now, reads: make(chan *memory, 1), read: make(map[wire.Transport]bool),
		asked: make(map[wire.Hint]*asked), answered: make(map[wire.Hint]map[lostPage]bool), by: make(map[string]int)}
}

// heal asks peers for the pages that the node's store has lost, if any, until they are back or
// given up. It returns false if ctx ends before. Until then the node publishes nothing: its peers
// hold more of its counts than it does, and must not replace them with less.
//
// For a page that no peer has in its former state, the node searches its own published messages
// that a broker has stored. No source is trusted: the engine verifies pages by its own sums, and
// the node its own signature. Once all pages are back, the node continues where it was, and its
// peers notice nothing. Otherwise it begins a new incarnation with the pages that it has.
func (s *Sender) heal(ctx context.Context) bool {
	if !s.healing.Load() {
		return true
	}
	if s.recovery != nil {
		return s.recover(ctx)
	}
	c := newCure(time.Now())
	s.opts.Log.Warn("pages of this node's arrays are lost",
		"consequence", "peers are asked for their replicas, and nothing is published until they are back")
	tick := time.NewTicker(s.opts.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			if s.treat(ctx, c) {
				return true
			}
		case x := <-c.reads:
			s.remind(ctx, c, x)
		case <-s.hello:
			clear(c.asked) // a reconnected broker may have lost the requests
			if !c.reading {
				clear(c.read)
			}
			for _, p := range s.book.List() {
				s.question(&wire.Message{To: p.Key.Hint()})
			}
		case w := <-s.wants:
			s.question(w)
		case p := <-s.pasts:
			if len(c.pasts) < maxPasts {
				c.pasts = append(c.pasts, p)
			}
		case m := <-s.asks:
			if m.Kind == wire.KindPages {
				s.refill(ctx, m)
			}
		case m := <-s.fills:
			s.take(ctx, c, m)
			if a := c.asked[m.From]; a != nil && len(a.pages) == 0 {
				delete(c.asked, m.From)
				if s.treat(ctx, c) {
					return true
				}
			}
		}
	}
}

// treat asks peers for the missing pages, and reports whether healing is over.
func (s *Sender) treat(ctx context.Context, c *cure) bool {
	lost, err := s.opts.Engine.Wounds(ctx)
	if err != nil {
		return false
	}
	peers := s.book.List()
	all := true // all peers have answered about all pages
	for i, p := range peers {
		h := p.Key.Hint()
		if a := c.asked[h]; a != nil && time.Since(a.at) < healWait {
			all = false
			continue
		}
		// Each peer starts at another page, so that they do not all send the same pages.
		begin := i * len(lost.Pages) / len(peers)
		list := c.next(h, slices.Concat(lost.Pages[begin:], lost.Pages[:begin]))
		if len(list) > 0 {
			all = false
			s.askPages(c, h, list)
		}
	}
	if len(lost.Pages) > 0 && (all || time.Since(c.began) >= s.opts.Heartbeat) {
		s.readOwn(ctx, c, &lost)
	}
	if !slices.ContainsFunc(s.buses, func(b wire.Transport) bool { return b.Connected() }) {
		c.last = time.Now() // no peer can receive the requests
	}
	beats := func(n time.Duration) bool { return time.Since(c.last) >= n*s.opts.Heartbeat }
	if len(lost.Pages) == 0 || !c.reading && (len(peers) == 0 || beats(healBeats) || all && beats(healHeard)) {
		s.endHealing(ctx, c, &lost)
		return true
	}
	if all && time.Since(c.again) >= s.opts.Heartbeat {
		c.again = time.Now()
		clear(c.answered) // peers may have received the pages by now
	}
	return false
}

// next returns the pages, all of one array, to request next from a peer.
func (c *cure) next(h wire.Hint, lost []engine.Wound) (list []engine.Wound) {
	for _, w := range lost {
		if c.answered[h][pageOf(&w)] || len(list) > 0 && (w.Array != list[0].Array || w.Start != list[0].Start) {
			continue
		}
		if list = append(list, w); len(list) == healPages {
			break
		}
	}
	return list
}

func pageOf(w *engine.Wound) lostPage {
	return lostPage{wire.Ref{Array: w.Array, Start: w.Start}, uint64(w.Page)}
}

func (s *Sender) askPages(c *cure, h wire.Hint, list []engine.Wound) {
	a := &asked{at: time.Now(), pages: make(map[lostPage]bool)}
	m := &wire.Message{Kind: wire.KindPages, To: h,
		Lost: wire.LostPages{Ref: wire.Ref{Array: list[0].Array, Start: list[0].Start}, Geometry: list[0].Geometry}}
	for i := range list {
		a.pages[pageOf(&list[i])] = true
		m.Lost.List = append(m.Lost.List, uint64(list[i].Page))
	}
	c.asked[h] = a
	s.sendTo(h, m)
}

// sendTo sends a message to one node.
func (s *Sender) sendTo(h wire.Hint, m *wire.Message) {
	s.send(wire.Topic{Kind: wire.KindAsk, Origin: h, Key: s.opts.Identity.Hint().String()}, m)
}

// take replaces lost pages with the pages of a peer's replica.
func (s *Sender) take(ctx context.Context, c *cure, m *wire.Message) {
	p, ok := s.book.Find(m.From)
	a := c.asked[m.From]
	if !ok || a == nil {
		return
	}
	for i, page := range m.Lost.Pages {
		x := lostPage{m.Lost.Ref, m.Lost.List[i]}
		if !a.pages[x] {
			continue
		}
		delete(a.pages, x)
		if c.answered[m.From] == nil {
			c.answered[m.From] = make(map[lostPage]bool)
		}
		c.answered[m.From][x] = true
		if len(page) == 0 {
			continue
		}
		switch err := s.opts.Engine.Heal(ctx, p.ID, x.Array, x.Start, page); {
		case err == nil:
			c.by[p.Label()]++
			c.last = time.Now()
		case errors.Is(err, bulkhead.ErrMalformed):
			s.book.Refuse(m.From, member.ReasonAbsurd, err.Error())
		case errors.Is(err, engine.ErrOtherPage): // the peer has more or less of the page, or another peer was faster
			s.opts.Log.Debug("page of a replica not taken", "peer", p.Label(), "err", err)
		default:
			delete(c.answered[m.From], x)
		}
	}
}

// Refilled hands the sender pages that a peer has sent. Pages are dropped if the sender does not
// wait for them.
func (s *Sender) Refilled(m *wire.Message) {
	if !s.healing.Load() && !s.recovering.Load() {
		return
	}
	select {
	case s.fills <- m:
	default:
	}
}

// endHealing lets the node publish again.
func (s *Sender) endHealing(ctx context.Context, c *cure, lost *engine.Wounds) {
	err := s.begin(lost.Whole && len(lost.Pages) == 0)
	s.forgetWounds(ctx)
	s.healing.Store(false)
	err = errors.Join(err, s.opts.Engine.Record(ctx, true))
	healed := 0
	for _, n := range c.by {
		healed += n
	}
	from := slices.Sorted(maps.Keys(c.by))
	after := time.Since(c.began).Round(time.Second)
	if s.renewed {
		s.opts.Log.Warn("sharing again, in a new incarnation", "pages_healed", healed, "from", from,
			"pages_missing", len(lost.Pages), "after", after, "err", err,
			"consequence", "the counts of the missing pages stay low")
	} else {
		s.opts.Log.Info("all pages are back, and sharing goes on", "pages_healed", healed, "from", from, "after", after,
			"err", err)
	}
	for len(s.fills) > 0 {
		<-s.fills
	}
	for _, p := range c.pasts {
		s.recalled(p)
	}
	s.Greet()
}

// forgetWounds makes the engine give up the pages that are still missing. The present content is
// then published.
func (s *Sender) forgetWounds(ctx context.Context) {
	if err := s.opts.Engine.EndHealing(ctx); err != nil && ctx.Err() == nil {
		s.opts.Log.Warn("lost pages are still kept account of", "err", err)
	}
}

// refill sends a peer the lost pages of its own arrays, as they are in the replica.
func (s *Sender) refill(ctx context.Context, m *wire.Message) {
	p, ok := s.book.Find(m.From)
	if !ok {
		return
	}
	x := &m.Lost
	most, cost := float64(drawLeast), 0
	for _, life := range s.lives(p.ID) {
		for _, a := range s.opts.Engine.Replica(life) {
			most += 2 * float64(min(a.Geometry.Bytes(), 1024+8*a.Keys)+pageHead*uint64(a.Geometry.Pages()))
			if a.Merged && a.Array == x.Array && a.Start == x.Start {
				cost = int(a.Geometry.Bytes()) // reading any page reads the whole merged array
			}
		}
	}
	if !may(s.refills, m.From, most) {
		s.book.Refuse(m.From, member.ReasonAsks, "")
		return
	}
	if len(x.List) == 0 {
		s.inventory(m.From, p.ID, x.Geometry, x.Ref)
		return
	}
	list := make([]int, len(x.List))
	for i, page := range x.List {
		list[i] = int(min(page, maxPage))
	}
	var pages [][]byte
	err := error(engine.ErrGap)
	for _, life := range s.lives(p.ID) {
		if pages, err = s.opts.Engine.ReplicaPages(ctx, life, x.Array, x.Start, x.Geometry, list); err == nil {
			break
		}
	}
	if errors.Is(err, engine.ErrGap) {
		pages, err = make([][]byte, len(list)), nil // no replica has such a page
	}
	if err != nil {
		s.opts.Log.Debug("pages that a peer has lost not sent", "peer", p.Label(), "err", err)
		return
	}
	out, size := &wire.Message{}, 0
	flush := func() {
		if len(out.Lost.List) > 0 {
			s.sendTo(m.From, out)
		}
		cost += size
	}
	begin := func() {
		out = &wire.Message{Kind: wire.KindRefill, To: m.From, Lost: wire.LostPages{Ref: x.Ref, Geometry: x.Geometry}}
		size = 0
	}
	begin()
	for i, page := range pages {
		if len(page) > maxRefill {
			page = nil
		}
		if size > 0 && size+len(page) > maxRefill {
			flush()
			begin()
		}
		out.Lost.List, out.Lost.Pages = append(out.Lost.List, x.List[i]), append(out.Lost.Pages, page)
		size += len(page)
	}
	flush()
	s.chargeTo(s.refills, m.From, cost)
}

const (
	maxRefill = wire.MaxAsk - 32<<10 // bytes of pages in one message
	maxPage   = 1 << 30              // larger than any array
	pageHead  = 64                   // size in bytes of an empty page
)
