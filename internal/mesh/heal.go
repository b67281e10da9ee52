package mesh

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

const (
	healPages = 16               // pages that a peer is asked for at once
	healWait  = 10 * time.Second // for its answer
	healBeats = 20               // heartbeats since the last page came back, until the others are given up
	healHeard = 4                // the same, once all peers have answered
	maxPasts  = 1024             // statements of the node's own past that wait until it speaks again
)

// A cure is what the sender does about the pages that the node has lost.
type cure struct {
	began, last time.Time // last: when a page came back
	again       time.Time // when peers were asked anew for what they had not
	asked       map[hint]*asked
	answered    map[hint]map[lostPage]bool
	by          map[string]int // pages that came back, by peer
	pasts       []past

	reads   chan *memory // what brokers have stored of the node
	read    map[bus]bool // which have been asked for that
	reading bool
}

// A lostPage names a page of an own array.
type lostPage struct {
	ref
	page uint64
}

// An asked is the pages that a peer was asked for and has not answered.
type asked struct {
	at    time.Time
	pages map[lostPage]bool
}

// heal asks peers for the pages that the node's store has lost, if there are any, until they
// are back or given up; it returns false if ctx ends before. Meanwhile the node publishes
// nothing: its peers hold more of its counts than it does, and must not take less for all.
//
// What no peer has as it was, it looks for in what it had published, and a broker has
// stored. Nobody is believed: the engine knows what the pages were by sums of its own, and
// the node its own signature. Once all are back the node goes on where it was, and its peers have noticed nothing. Otherwise it
// begins a new incarnation with what it has.
func (s *sender) heal(ctx context.Context) bool {
	if !s.m.healing.Load() {
		return true
	}
	now := time.Now()
	c := &cure{began: now, last: now, again: now, reads: make(chan *memory, 1), read: make(map[bus]bool), asked: make(map[hint]*asked), answered: make(map[hint]map[lostPage]bool), by: make(map[string]int)}
	s.m.opts.Log.Warn("pages of this node's arrays are lost: peers are asked for their replicas, and told nothing until they are back")
	tick := time.NewTicker(s.m.opts.Interval)
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
			clear(c.asked) // a broker is back that may have lost that
			if !c.reading {
				clear(c.read)
			}
			for _, p := range s.m.peerList() {
				s.question(wish{origin: p.key.hint()})
			}
		case w := <-s.wants:
			s.question(w)
		case p := <-s.pasts:
			if len(c.pasts) < maxPasts {
				c.pasts = append(c.pasts, p)
			}
		case m := <-s.asks:
			if m.kind == kindPages {
				s.refill(ctx, m)
			}
		case m := <-s.fills:
			s.take(ctx, c, m)
			if a := c.asked[m.from]; a != nil && len(a.pages) == 0 {
				delete(c.asked, m.from)
				if s.treat(ctx, c) {
					return true
				}
			}
		}
	}
}

// treat asks peers for what is missing, and reports whether that is over.
func (s *sender) treat(ctx context.Context, c *cure) bool {
	lost, err := s.m.opts.Engine.Wounds(ctx)
	if err != nil {
		return false
	}
	peers := s.m.peerList()
	all := true // have answered about all pages
	for i, p := range peers {
		h := p.key.hint()
		if a := c.asked[h]; a != nil && time.Since(a.at) < healWait {
			all = false
			continue
		}
		// Each begins elsewhere, so that they do not all send the same.
		begin := i * len(lost.Pages) / len(peers)
		list := c.next(h, slices.Concat(lost.Pages[begin:], lost.Pages[:begin]))
		if len(list) > 0 {
			all = false
			s.askPages(c, h, list)
		}
	}
	if len(lost.Pages) > 0 && (all || time.Since(c.began) >= s.m.opts.Heartbeat) {
		s.readOwn(ctx, c, &lost)
	}
	if !slices.ContainsFunc(s.m.buses, func(b bus) bool { return b.status().Connected }) {
		c.last = time.Now() // nobody would hear the node, whatever it said
	}
	beats := func(n time.Duration) bool { return time.Since(c.last) >= n*s.m.opts.Heartbeat }
	if len(lost.Pages) == 0 || !c.reading && (len(peers) == 0 || beats(healBeats) || all && beats(healHeard)) {
		s.endHealing(ctx, c, &lost)
		return true
	}
	if all && time.Since(c.again) >= s.m.opts.Heartbeat {
		c.again = time.Now()
		clear(c.answered) // they may have received it meanwhile
	}
	return false
}

// next returns the pages of one array that a peer is asked for next.
func (c *cure) next(h hint, lost []engine.Wound) (list []engine.Wound) {
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

func pageOf(w *engine.Wound) lostPage { return lostPage{ref{w.Array, w.Start}, uint64(w.Page)} }

func (s *sender) askPages(c *cure, h hint, list []engine.Wound) {
	a := &asked{at: time.Now(), pages: make(map[lostPage]bool)}
	m := &message{kind: kindPages, to: h, lost: lostPages{ref: ref{list[0].Array, list[0].Start}, geometry: list[0].Geometry}}
	for i := range list {
		a.pages[pageOf(&list[i])] = true
		m.lost.list = append(m.lost.list, uint64(list[i].Page))
	}
	c.asked[h] = a
	s.sendTo(h, m)
}

// sendTo sends a message to one node.
func (s *sender) sendTo(h hint, m *message) {
	s.send(topic{kind: kindAsk, origin: h, key: s.m.opts.Identity.public.hint().String()}, m)
}

// take puts pages of a peer's replica in the place of those that are lost.
func (s *sender) take(ctx context.Context, c *cure, m *message) {
	p, ok := s.m.find(m.from)
	a := c.asked[m.from]
	if !ok || a == nil {
		return
	}
	for i, page := range m.lost.pages {
		x := lostPage{m.lost.ref, m.lost.list[i]}
		if !a.pages[x] {
			continue
		}
		delete(a.pages, x)
		if c.answered[m.from] == nil {
			c.answered[m.from] = make(map[lostPage]bool)
		}
		c.answered[m.from][x] = true
		if len(page) == 0 {
			continue
		}
		switch err := s.m.opts.Engine.Heal(ctx, p.ID, x.array, x.start, page); {
		case err == nil:
			c.by[p.label()]++
			c.last = time.Now()
		case errors.Is(err, bulkhead.ErrMalformed):
			s.m.receiver.refuse(m.from, reasonAbsurd, err.Error())
		case errors.Is(err, engine.ErrOtherPage): // it has more by now, or less, or another peer was faster
			s.m.opts.Log.Debug("page of a replica not taken", "peer", p.label(), "err", err)
		default:
			delete(c.answered[m.from], x)
		}
	}
}

// refilled hands the sender pages that a peer was asked for. If it does not wait for them,
// they are dropped.
func (s *sender) refilled(m *message) {
	if !s.m.healing.Load() {
		return
	}
	select {
	case s.fills <- m:
	default:
	}
}

// endHealing lets the node speak again.
func (s *sender) endHealing(ctx context.Context, c *cure, lost *engine.Wounds) {
	err := s.m.live(lost.Whole && len(lost.Pages) == 0)
	s.m.forgetWounds(ctx)
	s.m.healing.Store(false)
	err = errors.Join(err, s.m.opts.Engine.Record(ctx, true))
	healed := 0
	for _, n := range c.by {
		healed += n
	}
	from := slices.Sorted(maps.Keys(c.by))
	after := time.Since(c.began).Round(time.Second)
	if s.m.renewed {
		s.m.opts.Log.Warn("sharing again, in a new incarnation: not all that was lost came back, and counts stay low", "pages_healed", healed, "from", from, "pages_missing", len(lost.Pages), "after", after, "err", err)
	} else {
		s.m.opts.Log.Info("all pages are back, and sharing goes on", "pages_healed", healed, "from", from, "after", after, "err", err)
	}
	for len(s.fills) > 0 {
		<-s.fills
	}
	for _, p := range c.pasts {
		s.recalled(p)
	}
	s.greet(ctx)
}

// forgetWounds has the engine give up what is still missing: the peers are told what there is.
func (m *Mesh) forgetWounds(ctx context.Context) {
	if err := m.opts.Engine.EndHealing(ctx); err != nil && ctx.Err() == nil {
		m.opts.Log.Warn("lost pages are still kept account of", "err", err)
	}
}

// refill sends a peer pages of its own arrays that it has lost, as they are in the replica.
func (s *sender) refill(ctx context.Context, m *message) {
	p, ok := s.m.find(m.from)
	if !ok {
		return
	}
	x := &m.lost
	most, cost := float64(drawLeast), 0
	for _, a := range s.m.opts.Engine.Replica(p.ID) {
		most += 2 * float64(min(a.Geometry.Bytes(), 1024+8*a.Keys)+pageHead*uint64(a.Geometry.Pages()))
		if a.Merged && a.Array == x.array && a.Start == x.start {
			cost = int(a.Geometry.Bytes()) // all of it is read for any page
		}
	}
	if !may(s.refills, m.from, most) {
		s.m.receiver.refuse(m.from, reasonAsks, "")
		return
	}
	list := make([]int, len(x.list))
	for i, page := range x.list {
		list[i] = int(min(page, maxPage))
	}
	pages, err := s.m.opts.Engine.ReplicaPages(ctx, p.ID, x.array, x.start, x.geometry, list)
	if errors.Is(err, engine.ErrGap) {
		pages, err = make([][]byte, len(list)), nil // it has none
	}
	if err != nil {
		s.m.opts.Log.Debug("pages that a peer has lost not sent", "peer", p.label(), "err", err)
		return
	}
	out, size := &message{}, 0
	flush := func() {
		if len(out.lost.list) > 0 {
			s.sendTo(m.from, out)
		}
		cost += size
	}
	begin := func() {
		out = &message{kind: kindRefill, to: m.from, lost: lostPages{ref: x.ref, geometry: x.geometry}}
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
		out.lost.list, out.lost.pages = append(out.lost.list, x.list[i]), append(out.lost.pages, page)
		size += len(page)
	}
	flush()
	s.chargeTo(s.refills, m.from, cost)
}

const (
	maxRefill = maxAsk - 32<<10 // bytes of pages in one message
	maxPage   = 1 << 30         // is in no array
	pageHead  = 64              // bytes of a page that holds nothing
)
