package origin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A node whose store is gone asks its peers which of its arrays they hold, and takes all their pages
// back. Before that it publishes nothing, so that peers do not take its empty arrays for its counts.
// There are no sums of the pages, so only peers are asked that may list anything alone, or all if the
// administrator wants that.

// maxArrays is the largest number of arrays that a peer may hold of one node.
const maxArrays = 4096

// A recovery is the sender's progress in taking back its arrays from peers.
type recovery struct {
	record  member.Recovery
	last    time.Time // when something last came back, or a broker was first reached
	sources map[wire.Hint]*source
	pages   int
	from    map[string]bool // labels of the peers whose pages were taken
}

// A source is what one peer holds of the node.
type source struct {
	asked   time.Time
	arrays  map[wire.Ref]filter.Geometry // arrays named so far
	number  int                          // of arrays; below 0 it is unknown
	left    []wire.LostPages             // requests to come
	pending map[lostPage]bool            // pages of the last request
	done    bool
}

// startRecovery reports whether the node has to take its arrays back.
func (s *Sender) startRecovery() (bool, error) {
	record, wanted, err := member.ReadRecovery(s.opts.Dir)
	if err != nil || !wanted || s.opts.Role == member.Subscribe {
		return false, err
	}
	s.recovery = &recovery{record: record, last: time.Now(), sources: make(map[wire.Hint]*source),
		from: make(map[string]bool)}
	s.recovering.Store(true)
	asked, others := s.sources()
	if len(others) > 0 {
		s.opts.Log.Warn("peers whose weight is below 1 are not asked for the counts of the lost store", "peers", len(others),
			"hint", "to ask them, too, stop the node, run \"bulkhead restore --from-peers\", and start it")
	}
	if len(asked) == 0 {
		return false, nil // peers may be added while the node runs
	}
	s.opts.Log.Warn("the store of this node is lost", "peers", len(asked),
		"consequence", "peers are asked for what it has shared; nothing is shared until they have answered")
	return true, nil
}

// sources returns the peers that are asked, and the others.
func (s *Sender) sources() (asked, others []*member.Peer) {
	for _, p := range s.book.List() {
		if s.recovery.record.All || p.Weight >= member.FullWeight {
			asked = append(asked, p)
		} else {
			others = append(others, p)
		}
	}
	return asked, others
}

// recover takes the node's arrays back from peers until all have answered, or nothing more comes.
// Peers that have not answered by then are asked while the node runs. It returns false if ctx ends
// before.
func (s *Sender) recover(ctx context.Context) bool {
	tick := time.NewTicker(s.opts.Interval)
	defer tick.Stop()
	s.askSources()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			s.askSources()
		case <-s.hello:
			for _, x := range s.recovery.sources {
				x.asked = time.Time{} // a reconnected broker may have lost the requests
			}
			for _, p := range s.book.List() {
				s.question(&wire.Message{To: p.Key.Hint()})
			}
			s.askSources()
		case w := <-s.wants:
			s.question(w)
		case <-s.pasts: // the new incarnation that follows needs no proof
		case m := <-s.asks:
			if m.Kind == wire.KindPages {
				s.refill(ctx, m)
			}
		case m := <-s.fills:
			s.takeBack(ctx, m)
		}
		if !slices.ContainsFunc(s.buses, func(b wire.Transport) bool { return b.Connected() }) {
			s.recovery.last = time.Now() // no peer can receive the requests
		}
		if s.complete() || !s.amid() && time.Since(s.recovery.last) >= healHeard*s.opts.Heartbeat {
			s.endHold(ctx)
			return true
		}
	}
}

// amid reports whether a peer has named arrays and not sent all of them. Publishing them would have
// peers replace what they hold by a part of it.
func (s *Sender) amid() bool {
	asked, _ := s.sources()
	return slices.ContainsFunc(asked, func(p *member.Peer) bool {
		x := s.recovery.sources[p.Key.Hint()]
		return x != nil && !x.done && len(x.arrays) > 0
	})
}

// endHold lets the node publish, in a new incarnation: its arrays are not those that it had.
func (s *Sender) endHold(ctx context.Context) {
	err := s.begin(false)
	if !s.renewed {
		err = errors.Join(err, s.state.Renew(s.opts.Engine.Own(), 0))
		s.renewed = true
	}
	s.healing.Store(false)
	err = errors.Join(err, s.opts.Engine.Record(ctx, true))
	s.imageAll()
	if s.complete() {
		s.endRecovery(err)
	} else {
		s.opts.Log.Warn("sharing before all peers have answered", "pages_back", s.recovery.pages, "err", err,
			"consequence", "they are asked again while the node runs")
	}
	s.Greet()
}

// complete reports whether all peers that are asked have sent what they hold.
func (s *Sender) complete() bool {
	asked, _ := s.sources()
	return len(asked) > 0 && !slices.ContainsFunc(asked, func(p *member.Peer) bool {
		x := s.recovery.sources[p.Key.Hint()]
		return x == nil || !x.done
	})
}

// endRecovery logs the outcome. The next start does not ask peers again.
func (s *Sender) endRecovery(err error) {
	r := s.recovery
	from := make([]string, 0, len(r.from))
	for label := range r.from {
		from = append(from, label)
	}
	slices.Sort(from)
	err = errors.Join(err, member.ForgetRecovery(s.opts.Dir))
	s.recovery = nil
	s.recovering.Store(false)
	if r.pages == 0 {
		s.opts.Log.Warn("peers hold nothing of the lost store", "err", err)
		return
	}
	s.opts.Log.Warn("the counts that this node had shared are back", "pages", r.pages,
		"generations_of_tally", len(r.record.Tally), "generations_of_blocklist", len(r.record.Block), "from", from,
		"err", err)
}

// askSources sends the next request to each peer that has answered the last one, or has not for a
// while.
func (s *Sender) askSources() {
	asked, _ := s.sources()
	for _, p := range asked {
		h := p.Key.Hint()
		x := s.recovery.sources[h]
		if x == nil {
			x = &source{arrays: make(map[wire.Ref]filter.Geometry), number: -1}
			s.recovery.sources[h] = x
		}
		if !x.done && time.Since(x.asked) >= healWait {
			s.askSource(h, x)
		}
	}
}

// askSource sends a peer the request that is due.
func (s *Sender) askSource(h wire.Hint, x *source) {
	x.asked = time.Now()
	switch {
	case x.number < 0 || len(x.arrays) < x.number:
		own := s.opts.Engine.Own()
		if len(own) == 0 {
			return
		}
		// Without page numbers: a question for all arrays. The shape is any valid one.
		s.sendTo(h, &wire.Message{Kind: wire.KindPages, To: h,
			Lost: wire.LostPages{Ref: wire.Ref{Array: own[0].Array, Start: own[0].Start}, Geometry: own[0].Geometry}})
	case len(x.left) > 0:
		next := x.left[0]
		x.pending = make(map[lostPage]bool)
		for _, page := range next.List {
			x.pending[lostPage{next.Ref, page}] = true
		}
		s.sendTo(h, &wire.Message{Kind: wire.KindPages, To: h, Lost: next})
	default:
		x.done = true
	}
}

// takeBack takes a peer's answer.
func (s *Sender) takeBack(ctx context.Context, m *wire.Message) {
	p, ok := s.book.Find(m.From)
	x := s.recovery.sources[m.From]
	if !ok || x == nil || x.done {
		return
	}
	if x.number < 0 || len(x.arrays) < x.number {
		if !named(m) || m.Lost.List[0] > maxArrays {
			return
		}
		if x.number = int(m.Lost.List[0]); x.number > 0 {
			x.arrays[m.Lost.Ref] = m.Lost.Geometry
		}
		s.recovery.last = time.Now()
		if len(x.arrays) >= x.number {
			x.left = s.adopt(ctx, p.Label(), x.arrays)
			s.askSource(m.From, x)
		}
		return
	}
	if named(m) {
		return // the answer to a question that was asked again
	}
	for i, page := range m.Lost.Pages {
		at := lostPage{m.Lost.Ref, m.Lost.List[i]}
		if !x.pending[at] {
			continue
		}
		if len(page) > 0 {
			if err := s.opts.Engine.TakeBack(ctx, p.ID, at.Array, at.Start, page); err != nil {
				s.book.Refuse(m.From, member.ReasonAbsurd, err.Error())
			} else {
				s.recovery.pages++
				s.recovery.from[p.Label()] = true
			}
		}
		delete(x.pending, at)
		s.recovery.last = time.Now()
	}
	if len(x.pending) == 0 && len(x.left) > 0 {
		x.left = x.left[1:]
		s.askSource(m.From, x)
	}
}

// nameMark is the only byte in place of a page where a peer names an array. No page is that short.
const nameMark = 'n'

// named reports whether an answer names an array, with the number of all arrays in place of a page's.
func named(m *wire.Message) bool {
	return len(m.Lost.List) == 1 && len(m.Lost.Pages[0]) == 1 && m.Lost.Pages[0][0] == nameMark
}

// adopt opens the generations of the arrays that a peer holds, and returns the requests for their
// pages. Generations that the node has counted in since it lost its store stay as they are.
func (s *Sender) adopt(ctx context.Context, peer string,
	arrays map[wire.Ref]filter.Geometry) (list []wire.LostPages) {
	starts := make(map[bool]map[uint64]map[engine.Array]filter.Geometry) // by whether it is the tally
	for _, tally := range []bool{true, false} {
		starts[tally] = make(map[uint64]map[engine.Array]filter.Geometry)
	}
	for ref, g := range arrays {
		of := starts[ref.Array == engine.ArrayCounts]
		if of[ref.Start] == nil {
			of[ref.Start] = make(map[engine.Array]filter.Geometry)
		}
		of[ref.Start][ref.Array] = g
	}
	for tally, of := range starts {
		adopted := &s.recovery.record.Block
		if tally {
			adopted = &s.recovery.record.Tally
		}
		for start, shapes := range of {
			if err := s.adoptOne(ctx, adopted, start, shapes); err != nil {
				s.opts.Log.Warn("a generation that a peer holds is not taken back", "peer", peer, "generation", start, "err", err)
				continue
			}
			for array, g := range shapes {
				list = append(list, allPages(wire.Ref{Array: array, Start: start}, g)...)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b wire.LostPages) int { return cmp.Compare(b.Start, a.Start) }) // the newest first
	return list
}

var errCounting = errors.New("the node has counted in a generation of that start since")

// adoptOne opens a generation unless an earlier answer did.
func (s *Sender) adoptOne(ctx context.Context, adopted *[]uint64, start uint64,
	shapes map[engine.Array]filter.Geometry) error {
	if !slices.Contains(*adopted, start) {
		for _, a := range s.opts.Engine.Own() {
			if _, same := shapes[a.Array]; same && a.Start == start {
				return errCounting
			}
		}
		// Recorded first: after a crash the generation must not be taken for one of the new store.
		*adopted = append(*adopted, start)
		if err := s.recovery.record.Save(s.opts.Dir); err != nil {
			return err
		}
	}
	return s.opts.Engine.Adopt(ctx, start, shapes)
}

// allPages returns requests for all pages of an array.
func allPages(r wire.Ref, g filter.Geometry) (list []wire.LostPages) {
	for page := range g.Pages() {
		if page%healPages == 0 {
			list = append(list, wire.LostPages{Ref: r, Geometry: g})
		}
		last := &list[len(list)-1]
		last.List = append(last.List, uint64(page))
	}
	return list
}

// goOn asks peers that have not answered yet, while the node shares, and takes an answer m if it is not
// nil. When a peer has arrays of the node, the node stops publishing until it has them. goOn returns
// false if ctx ends before.
func (s *Sender) goOn(ctx context.Context, m *wire.Message) bool {
	if m != nil {
		s.takeBack(ctx, m)
	} else {
		s.askSources()
	}
	switch {
	case s.amid():
		s.healing.Store(true)
		s.recovery.last = time.Now()
		s.opts.Log.Warn("a peer holds counts of the lost store",
			"consequence", "nothing is shared until they are back")
		return s.recover(ctx)
	case s.complete():
		s.endRecovery(nil)
	}
	return true
}

// inventory names to a peer the arrays that this node holds of it, in a message each, with their
// number.
func (s *Sender) inventory(h wire.Hint, id string, g filter.Geometry, ref wire.Ref) {
	seen := make(map[wire.Ref]filter.Geometry)
	var order []wire.Ref
	for _, origin := range s.lives(id) {
		for _, a := range s.opts.Engine.Replica(origin) {
			r := wire.Ref{Array: a.Array, Start: a.Start}
			if _, known := seen[r]; !known && a.Version > 0 && len(order) < maxArrays {
				seen[r] = a.Geometry
				order = append(order, r)
			}
		}
	}
	send := func(r wire.Ref, g filter.Geometry) {
		s.sendTo(h, &wire.Message{Kind: wire.KindRefill, To: h,
			Lost: wire.LostPages{Ref: r, Geometry: g, List: []uint64{uint64(len(order))}, Pages: [][]byte{{nameMark}}}})
	}
	for _, r := range order {
		send(r, seen[r])
	}
	if len(order) == 0 {
		send(ref, g)
	}
}

// lives returns the origins of a peer's replicas: of its present incarnation, and of former ones, the
// newest first.
func (s *Sender) lives(id string) []string {
	out := []string{id}
	for _, f := range slices.Backward(s.opts.Engine.FormerIncarnations(id)) {
		out = append(out, f.ID)
	}
	return out
}
