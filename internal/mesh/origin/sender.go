package origin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

const (
	maxHistory   = 16 << 20         // cost of the rounds kept for peers that missed some
	maxOutbox    = 16 << 20         // bytes of deltas that wait for a broker
	imageRest    = 2 * time.Second  // between two images of one array, or two resends of its rounds, at least
	longRest     = 30 * time.Second // and at most
	slowLink     = 2000             // bytes a second
	refreshShare = 4                // an array's image is stored again after rounds of that many times its bytes
	refreshLeast = 256 << 10        // but not before that many bytes of rounds
	renewRest    = 10 * time.Minute
	maxRenewals  = 8 // new incarnations in that time
)

// A Sender publishes the adds to the node's own arrays, and answers asks. Its exported methods
// may be called concurrently while Run runs, except those that its start needs. Only its own goroutine
// uses the fields below the channels.
type Sender struct {
	opts  *member.Options
	book  *member.Book
	state *member.State
	buses []wire.Transport
	done  sync.WaitGroup // waits for the readings that the sender has begun

	loss

	requests

	sent

	budgets

	seq      uint64
	arrays   map[wire.Ref]*ownArray
	history  int // cost of all rounds in arrays
	order    []wire.Ref
	outbox   []outbox               // by bus
	wanted   map[wire.Ref]wire.Hint // requested images by requesting peer; the zero hint: the node itself
	renewals []time.Time            // new incarnations of this process
	headed   time.Time              // when the last head was published
	headDue  bool                   // a head was requested since
}

// A loss is what the sender knows of data that the node has lost.
type loss struct {
	healing    atomic.Bool // the node publishes nothing, and waits for lost data: see heal
	renewed    bool        // this process has begun a new incarnation
	recovering atomic.Bool // the node takes its arrays back: see recover
	recovery   *recovery   // nil unless recovering; only the sender's goroutine uses it
}

// requests are the channels by which other goroutines reach the sender.
type requests struct {
	asks  chan *wire.Message
	fills chan *wire.Message // pages that this node has lost
	hello chan struct{}      // requests a head
	wants chan *wire.Message // questions to other nodes
	pasts chan wire.Past
}

// sent counts what the sender has published since the start.
type sent struct {
	published, rounds, bytes, pages, dropped atomic.Uint64
}

// Sent is what a sender has published since the start.
type Sent struct {
	Messages uint64
	Rounds   uint64 // in the messages
	Bytes    uint64 // of the messages
	Pages    uint64 // of images
	Dropped  uint64 // messages that no broker accepted in time
}

// Sent returns what has been published since the start.
func (s *Sender) Sent() Sent {
	return Sent{Messages: s.published.Load(), Rounds: s.rounds.Load(), Bytes: s.bytes.Load(), Pages: s.pages.Load(),
		Dropped: s.dropped.Load()}
}

// Healing reports whether the node publishes nothing until lost data is back.
func (s *Sender) Healing() bool { return s.healing.Load() }

// ownArray is the sender's state of one of the node's arrays.
type ownArray struct {
	rounds    []wire.Round // the latest ones, without a gap
	announced bool
	imaged    time.Time // when its images were last published
	imagedTo  wire.Hint // the peer that asked for them; zero for the node itself
	image     int       // their bytes
	since     int       // bytes of rounds published since
	resent    time.Time // when rounds were last sent again
	// resentFrom is the version from which they were, resentTo the peer that asked for them, and resentRest how long
	// they may be on their way to it.
	resentFrom uint64
	resentTo   wire.Hint
	resentRest time.Duration
	due        bool      // rounds were requested since
	dueFrom    uint64    // from this version
	dueTo      wire.Hint // by this peer
}

type outbox struct {
	queue []queued
	bytes int
}

type queued struct {
	topic  wire.Topic
	msg    []byte
	arrays []wire.Ref // of its rounds
}

// New returns a sender for the arrays of the engine in o. It publishes nothing before Run.
func New(o *member.Options, b *member.Book, st *member.State) *Sender {
	return &Sender{
		opts: o, book: b, state: st, requests: requests{asks: make(chan *wire.Message, 256), fills: make(chan *wire.Message,
			16), hello: make(chan struct{}, 1),
			wants: make(chan *wire.Message, 64), pasts: make(chan wire.Past, 64)},
		arrays: make(map[wire.Ref]*ownArray), wanted: make(map[wire.Ref]wire.Hint), budgets: newBudgets(),
	}
}

// Use makes the sender publish on another bus.
func (s *Sender) Use(b wire.Transport) {
	s.buses = append(s.buses, b)
	s.outbox = append(s.outbox, outbox{})
}

// Start makes the node an origin, at once or when its lost pages are back. It precedes Record and Run.
func (s *Sender) Start(ctx context.Context) error {
	lost, err := s.opts.Engine.Wounds(ctx)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	if hold, err := s.startRecovery(); err != nil || hold {
		s.healing.Store(hold)
		return err
	}
	same, known := s.state.Continues(lost.Store)
	salvaged := lost.Store != "" && same && s.opts.Role != member.Subscribe
	if salvaged && known && len(lost.Pages) > 0 {
		s.healing.Store(true)
		return nil
	}
	err = s.begin(salvaged && lost.Whole)
	if err == nil && lost.Store != "" {
		s.forgetWounds(ctx)
	}
	return err
}

// begin gives this process a boot number: see [member.State.Begin].
func (s *Sender) begin(whole bool) (err error) {
	s.renewed, err = s.state.Begin(s.opts.Engine.Own(), whole)
	return err
}

// Record makes the engine record its adds, if they are published.
func (s *Sender) Record(ctx context.Context) error {
	if s.opts.Role == member.Subscribe || s.healing.Load() {
		return nil
	}
	if err := s.opts.Engine.Record(ctx, true); err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return nil
}

// Greet requests a head soon, so that peers learn what to ask for.
func (s *Sender) Greet() {
	select {
	case s.hello <- struct{}{}:
	default:
	}
}

// Want sends an origin an ask for missing arrays. If the sender is busy, the ask is dropped, and the
// receiver tries again.
func (s *Sender) Want(ask *wire.Message) {
	select {
	case s.wants <- ask:
	default:
	}
}

// Ask hands the sender a peer's request. A request that cannot be answered in time is dropped, and
// the peer asks again.
func (s *Sender) Ask(m *wire.Message) {
	select {
	case s.asks <- m:
	default:
	}
}

// Run publishes and answers until ctx ends. It is called once.
func (s *Sender) Run(ctx context.Context) {
	defer s.done.Wait()
	if !s.heal(ctx) {
		return
	}
	tick := time.NewTicker(s.opts.Interval)
	defer tick.Stop()
	head := time.NewTicker(s.opts.Heartbeat)
	defer head.Stop()
	if s.renewed {
		s.imageAll()
	}
	for {
		select {
		case <-ctx.Done():
			s.last()
			return
		case <-tick.C:
			s.flush()
			s.publish(ctx)
			s.images(ctx)
			if s.headDue {
				s.headSoon(ctx)
			}
		case <-head.C:
			s.head(ctx)
			s.study()
			if s.recovery != nil && !s.goOn(ctx, nil) {
				return
			}
		case m := <-s.fills:
			if s.recovery != nil && !s.goOn(ctx, m) {
				return
			}
		case <-s.hello:
			s.flush()
			s.headSoon(ctx)
			s.study()
			for _, p := range s.book.List() {
				s.question(&wire.Message{To: p.Key.Hint()})
			}
		case w := <-s.wants:
			s.question(w)
		case p := <-s.pasts:
			s.recalled(p)
		case m := <-s.asks:
			s.answer(ctx, m)
		}
	}
}

// last publishes the adds since the last interval, so that a stopping node holds nothing back.
func (s *Sender) last() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.flush()
	s.publish(ctx)
}

// sign returns the message with the node's stamp and signature.
func (s *Sender) sign(m *wire.Message) []byte {
	s.seq++
	incarnation, boot := s.state.Life()
	m.Stamp = wire.Stamp{Incarnation: incarnation, Boot: boot, Seq: s.seq}
	m.Stamp.At = max(uint64(max(s.opts.Now().UnixMilli(), 0)), m.Stamp.Boot)
	m.From, m.KeyID = s.opts.Identity.Hint(), s.opts.KeyID
	return wire.AppendMessage(nil, m, s.opts.Identity)
}

// send publishes a message on every bus. A delta waits for a disconnected bus. Heads, asks and
// images do not, because they would be stale by then.
func (s *Sender) send(t wire.Topic, m *wire.Message) {
	msg := s.sign(m)
	s.published.Add(1)
	s.bytes.Add(uint64(len(msg)))
	for i, b := range s.buses {
		o := &s.outbox[i]
		if len(o.queue) == 0 {
			err := b.Publish(t, msg)
			if errors.Is(err, wire.ErrTooLarge) {
				s.tooLarge(len(msg), m.Arrays())
				continue
			}
			if err == nil || t.Kind != wire.KindDelta {
				if err != nil {
					s.dropped.Add(1)
				}
				continue
			}
		}
		if t.Kind != wire.KindDelta {
			continue
		}
		o.queue = append(o.queue, queued{t, msg, m.Arrays()})
		o.bytes += len(msg)
		for o.bytes > maxOutbox && len(o.queue) > 0 {
			o.bytes -= len(o.queue[0].msg)
			o.queue = slices.Delete(o.queue, 0, 1)
			s.dropped.Add(1) // receivers find the gap
		}
	}
}

// flush sends the messages that wait for a bus.
func (s *Sender) flush() {
	for i, b := range s.buses {
		o := &s.outbox[i]
		for len(o.queue) > 0 {
			first := &o.queue[0]
			err := b.Publish(first.topic, first.msg)
			if errors.Is(err, wire.ErrTooLarge) {
				s.tooLarge(len(first.msg), first.arrays)
			} else if err != nil {
				break
			}
			o.bytes -= len(o.queue[0].msg)
			o.queue = slices.Delete(o.queue, 0, 1)
		}
	}
}

// tooLarge drops a message that a bus will never accept. Its rounds are forgotten, and peers that
// Ask for them are sent images.
func (s *Sender) tooLarge(size int, arrays []wire.Ref) {
	if s.dropped.Add(1) == 1 {
		s.opts.Log.Warn("message too large for the broker", "bytes", size, "hint", "raise its max_payload to 1 MB")
	}
	for _, r := range arrays {
		if a := s.arrays[r]; a != nil {
			s.drop(a, len(a.rounds))
		}
	}
}

func (s *Sender) own() wire.Topic {
	return wire.Topic{Kind: wire.KindDelta, Origin: s.opts.Identity.Hint()}
}

// publish sends the adds to the node's arrays since the last call. It returns the states up to
// which it has sent them; adds during the call are not included.
func (s *Sender) publish(ctx context.Context) []engine.ArrayState {
	if s.opts.Role == member.Subscribe {
		return s.opts.Engine.Own()
	}
	parts, own, err := s.opts.Engine.TakeRounds(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, bulkhead.ErrReadOnly) {
			s.opts.Log.Error("own rounds not published", "err", err,
				"consequence", "peers will request images")
		}
		return s.opts.Engine.Own()
	}
	slices.SortFunc(parts, func(a, b engine.Part) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Array, b.Array), cmp.Compare(a.From, b.From))
	})
	var m wire.Message
	size := 0
	for i := range parts {
		p := &parts[i]
		x := wire.Ref{Array: p.Array, Start: p.Start}
		r := wire.Round{Ref: x, From: p.From, To: p.To, Geometry: p.Geometry, Lineage: s.state.Lineage(x), Data: p.Round}
		s.remember(&r)
		if size > 0 && size+len(r.Data) > s.opts.MessageBytes {
			s.deltas(m.Rounds)
			m.Rounds, size = nil, 0
		}
		m.Rounds = append(m.Rounds, r)
		size += len(r.Data)
	}
	s.deltas(m.Rounds)
	return own
}

func (s *Sender) deltas(rounds []wire.Round) {
	if len(rounds) == 0 {
		return
	}
	s.rounds.Add(uint64(len(rounds)))
	s.send(s.own(), &wire.Message{Kind: wire.KindDelta, Rounds: rounds})
}

// remember keeps a round for peers that miss it, and forgets the oldest rounds.
func (s *Sender) remember(r *wire.Round) {
	a := s.arrays[r.Ref]
	if a == nil {
		a = &ownArray{}
		s.arrays[r.Ref] = a
	}
	// The first round has the geometry for a peer without the array, and shows a peer with a
	// replica whether the replica is still part of the array. A round under a former secret always
	// has both: a peer that never had that secret cannot use it.
	r.Announce = !a.announced || r.From == 0 || r.Geometry.KeyID != s.opts.KeyID
	a.announced = true
	a.since += len(r.Data)
	if n := len(a.rounds); n > 0 && a.rounds[n-1].To != r.From {
		s.drop(a, n)
	}
	a.rounds = append(a.rounds, *r)
	s.order = append(s.order, r.Ref)
	s.history += r.Cost()
	for s.history > maxHistory && len(s.order) > 0 {
		if old := s.arrays[s.order[0]]; old != nil && len(old.rounds) > 0 {
			s.drop(old, 1)
		}
		s.order = s.order[1:]
	}
}

func (s *Sender) drop(a *ownArray, n int) {
	for _, r := range a.rounds[:n] {
		s.history -= r.Cost()
	}
	clear(a.rounds[:n])
	a.rounds = a.rounds[n:]
}

// headSoon publishes a head now, or some time after the last one, so that one head serves every
// peer that asks.
func (s *Sender) headSoon(ctx context.Context) {
	if s.headDue = time.Since(s.headed) < member.HeadRest; !s.headDue {
		s.head(ctx)
	}
}

// head publishes the versions of all arrays of the node, after the rounds that lead to them, so
// that no receiver sees a gap where there is none.
func (s *Sender) head(ctx context.Context) {
	own := s.publish(ctx)
	s.headed, s.headDue = time.Now(), false
	s.forgetDraws()
	m := &wire.Message{Kind: wire.KindHead, Name: s.opts.Name, Proof: s.opts.Identity.Proof(),
		Organisations: s.book.Contained(),
		Floors:        [2]uint64{wire.AllExpired, wire.AllExpired}}
	if s.opts.Role != member.Subscribe {
		m.Floors = [2]uint64{s.opts.Engine.Floor(engine.ArrayCounts), s.opts.Engine.Floor(engine.ArraySpam)}
		live := make(map[wire.Ref]bool)
		for _, a := range own {
			r := wire.Ref{Array: a.Array, Start: a.Start}
			live[r] = true
			if a.Version > 0 {
				m.Heads = append(m.Heads, wire.ArrayHead{Ref: r, Version: a.Version, Geometry: a.Geometry,
					Lineage: s.state.Lineage(r)})
			}
		}
		maps.DeleteFunc(s.arrays, func(r wire.Ref, a *ownArray) bool {
			if !live[r] {
				s.drop(a, len(a.rounds))
			}
			return !live[r]
		})
		s.order = slices.DeleteFunc(s.order, func(r wire.Ref) bool { return !live[r] })
	}
	if len(m.Heads) > wire.MaxParts {
		// To receivers that see only the head, an array that it omits is gone.
		slices.SortFunc(m.Heads, func(a, b wire.ArrayHead) int { return cmp.Compare(b.Start, a.Start) })
		for _, h := range m.Heads[wire.MaxParts:] {
			f := &m.Floors[wire.FloorIndex(h.Array)]
			*f = max(*f, h.Start+1)
		}
		m.Heads = m.Heads[:wire.MaxParts]
	}
	s.send(wire.Topic{Kind: wire.KindHead, Origin: s.opts.Identity.Hint()}, m)
}
