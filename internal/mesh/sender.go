package mesh

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

const (
	maxHistory   = 16 << 20        // cost of the rounds kept for peers that missed some
	maxOutbox    = 16 << 20        // bytes of deltas that wait for a broker
	imageRest    = 2 * time.Second // between two images of one array, or two resends of its rounds
	headRest     = time.Second     // between two heads
	refreshShare = 4               // an array's image is stored again after rounds of that many times its bytes
	refreshLeast = 256 << 10       // but not before that many bytes of rounds
	renewRest    = 10 * time.Minute
	maxRenewals  = 8 // new incarnations in that time
	twinRest     = 3 // heartbeats without another server that uses the node's key
)

// The sender publishes the adds to the node's own arrays, and answers asks. Only its own goroutine
// uses the fields below the channels.
type sender struct {
	m     *Mesh
	asks  chan *message
	fills chan *message // pages that this node has lost
	hello chan struct{} // requests a head
	wants chan wish
	pasts chan past

	published, rounds, bytes, pages, dropped atomic.Uint64

	seq     uint64
	arrays  map[ref]*ownArray
	history int // cost of all rounds in arrays
	order   []ref
	outbox  []outbox     // by bus
	wanted  map[ref]hint // requested images by requesting peer; the zero hint: the node itself
	draws   map[hint]*draw
	refills map[hint]*draw // of pages that peers have lost themselves
	renewed []time.Time    // new incarnations of this process
	headed  time.Time      // when the last head was published
	headDue bool           // a head was requested since
}

// ownArray is the sender's state of one of the node's arrays.
type ownArray struct {
	rounds    []round // the latest ones, without a gap
	announced bool
	imaged    time.Time // when its images were last published
	image     int       // their bytes
	since     int       // bytes of rounds published since
	resent    time.Time // when rounds were last sent again
	due       bool      // rounds were requested since
	dueFrom   uint64    // from this version
	dueTo     hint      // by this peer
}

type outbox struct {
	queue []queued
	bytes int
}

type queued struct {
	topic  topic
	msg    []byte
	arrays []ref // of its rounds
}

func newSender(m *Mesh) *sender {
	return &sender{
		m: m, asks: make(chan *message, 256), fills: make(chan *message, 16), hello: make(chan struct{}, 1),
		wants: make(chan wish, 64), pasts: make(chan past, 64),
		arrays: make(map[ref]*ownArray), wanted: make(map[ref]hint), draws: make(map[hint]*draw),
		refills: make(map[hint]*draw),
	}
}

// greet requests a head soon, so that peers learn what to ask for.
func (s *sender) greet(context.Context) {
	select {
	case s.hello <- struct{}{}:
	default:
	}
}

// A wish lists what the receiver lacks of an origin.
type wish struct {
	origin hint
	life   uint64 // incarnation of the versions
	boot   uint64 // newest boot of it seen
	arrays []arrayHead
	proofs [][]byte // the origin's statements that it may have forgotten
}

// want requests missing arrays of an origin. If the sender is busy, the request is dropped, and the
// receiver tries again.
func (s *sender) want(w wish) {
	select {
	case s.wants <- w:
	default:
	}
}

// ask hands the sender a peer's request. A request that cannot be answered in time is dropped, and
// the peer asks again.
func (s *sender) ask(m *message) {
	select {
	case s.asks <- m:
	default:
	}
}

func (s *sender) run(ctx context.Context) {
	s.outbox = make([]outbox, len(s.m.buses))
	if !s.heal(ctx) {
		return
	}
	tick := time.NewTicker(s.m.opts.Interval)
	defer tick.Stop()
	head := time.NewTicker(s.m.opts.Heartbeat)
	defer head.Stop()
	if s.m.renewed {
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
		case <-s.hello:
			s.flush()
			s.headSoon(ctx)
			for _, p := range s.m.peerList() {
				s.question(wish{origin: p.key.hint()})
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
func (s *sender) last() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.flush()
	s.publish(ctx)
}

// sign returns the message with the node's stamp and signature.
func (s *sender) sign(m *message) []byte {
	s.seq++
	s.m.mu.Lock()
	m.stamp = stamp{incarnation: s.m.state.Incarnation, boot: s.m.state.Boot, seq: s.seq}
	s.m.mu.Unlock()
	m.stamp.at = max(uint64(max(s.m.opts.Now().UnixMilli(), 0)), m.stamp.boot)
	m.from, m.keyID = s.m.opts.Identity.public.hint(), s.m.opts.KeyID
	return appendMessage(nil, m, s.m.opts.Identity)
}

// send publishes a message on every bus. A delta waits for a disconnected bus. Heads, asks and
// images do not, because they would be stale by then.
func (s *sender) send(t topic, m *message) {
	msg := s.sign(m)
	s.published.Add(1)
	s.bytes.Add(uint64(len(msg)))
	for i, b := range s.m.buses {
		o := &s.outbox[i]
		if len(o.queue) == 0 {
			err := b.publish(t, msg)
			if errors.Is(err, errTooLarge) {
				s.tooLarge(len(msg), m.arrays())
				continue
			}
			if err == nil || t.kind != kindDelta {
				if err != nil {
					s.dropped.Add(1)
				}
				continue
			}
		}
		if t.kind != kindDelta {
			continue
		}
		o.queue = append(o.queue, queued{t, msg, m.arrays()})
		o.bytes += len(msg)
		for o.bytes > maxOutbox && len(o.queue) > 0 {
			o.bytes -= len(o.queue[0].msg)
			o.queue = slices.Delete(o.queue, 0, 1)
			s.dropped.Add(1) // receivers find the gap
		}
	}
}

// flush sends the messages that wait for a bus.
func (s *sender) flush() {
	for i, b := range s.m.buses {
		o := &s.outbox[i]
		for len(o.queue) > 0 {
			first := &o.queue[0]
			err := b.publish(first.topic, first.msg)
			if errors.Is(err, errTooLarge) {
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
// ask for them are sent images.
func (s *sender) tooLarge(size int, arrays []ref) {
	if s.dropped.Add(1) == 1 {
		s.m.opts.Log.Warn("message too large for the broker; raise its max_payload to 1 MB", "bytes", size)
	}
	for _, r := range arrays {
		if a := s.arrays[r]; a != nil {
			s.drop(a, len(a.rounds))
		}
	}
}

// arrays returns the arrays of the rounds in m.
func (m *message) arrays() (out []ref) {
	for i := range m.rounds {
		out = append(out, m.rounds[i].ref)
	}
	return out
}

// errTooLarge reports that a bus never accepts a message of that size.
var errTooLarge = errors.New("mesh: message is larger than the broker accepts")

func (s *sender) own() topic { return topic{kind: kindDelta, origin: s.m.opts.Identity.public.hint()} }

// publish sends the adds to the node's arrays since the last call. It returns the states up to
// which it has sent them; adds during the call are not included.
func (s *sender) publish(ctx context.Context) []engine.ArrayState {
	if s.m.opts.Role == Subscribe {
		return s.m.opts.Engine.Own()
	}
	parts, own, err := s.m.opts.Engine.TakeRounds(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, bulkhead.ErrReadOnly) {
			s.m.opts.Log.Error("own rounds not published; peers will request images", "err", err)
		}
		return s.m.opts.Engine.Own()
	}
	sort.Slice(parts, func(i, j int) bool { // slices.SortFunc of a large struct is 19 kB of program
		a, b := &parts[i], &parts[j]
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Array, b.Array), cmp.Compare(a.From, b.From)) < 0
	})
	var m message
	size := 0
	for i := range parts {
		p := &parts[i]
		x := ref{p.Array, p.Start}
		r := round{ref: x, from: p.From, to: p.To, geometry: p.Geometry, lineage: s.lineage(x), data: p.Round}
		s.remember(&r)
		if size > 0 && size+len(r.data) > s.m.opts.imageBytes {
			s.deltas(m.rounds)
			m.rounds, size = nil, 0
		}
		m.rounds = append(m.rounds, r)
		size += len(r.data)
	}
	s.deltas(m.rounds)
	return own
}

func (s *sender) deltas(rounds []round) {
	if len(rounds) == 0 {
		return
	}
	s.rounds.Add(uint64(len(rounds)))
	s.send(s.own(), &message{kind: kindDelta, rounds: rounds})
}

// remember keeps a round for peers that miss it, and forgets the oldest rounds.
func (s *sender) remember(r *round) {
	a := s.arrays[r.ref]
	if a == nil {
		a = &ownArray{}
		s.arrays[r.ref] = a
	}
	// The first round has the geometry for a peer without the array, and shows a peer with a
	// replica whether the replica is still part of the array. A round under a former secret always
	// has both: a peer that never had that secret cannot use it.
	r.announce = !a.announced || r.from == 0 || r.geometry.KeyID != s.m.opts.KeyID
	a.announced = true
	a.since += len(r.data)
	if n := len(a.rounds); n > 0 && a.rounds[n-1].to != r.from {
		s.drop(a, n)
	}
	a.rounds = append(a.rounds, *r)
	s.order = append(s.order, r.ref)
	s.history += r.cost()
	for s.history > maxHistory && len(s.order) > 0 {
		if old := s.arrays[s.order[0]]; old != nil && len(old.rounds) > 0 {
			s.drop(old, 1)
		}
		s.order = s.order[1:]
	}
}

func (s *sender) drop(a *ownArray, n int) {
	for _, r := range a.rounds[:n] {
		s.history -= r.cost()
	}
	clear(a.rounds[:n])
	a.rounds = a.rounds[n:]
}

// headSoon publishes a head now, or some time after the last one, so that one head serves every
// peer that asks.
func (s *sender) headSoon(ctx context.Context) {
	if s.headDue = time.Since(s.headed) < headRest; !s.headDue {
		s.head(ctx)
	}
}

// head publishes the versions of all arrays of the node, after the rounds that lead to them, so
// that no receiver sees a gap where there is none.
func (s *sender) head(ctx context.Context) {
	own := s.publish(ctx)
	s.headed, s.headDue = time.Now(), false
	s.forgetDraws()
	m := &message{kind: kindHead, name: s.m.opts.Name, proof: s.m.opts.Identity.proof, organisations: s.m.contains(),
		floors: [2]uint64{allExpired, allExpired}}
	if s.m.opts.Role != Subscribe {
		m.floors = [2]uint64{s.m.opts.Engine.Floor(engine.ArrayCounts), s.m.opts.Engine.Floor(engine.ArraySpam)}
		live := make(map[ref]bool)
		for _, a := range own {
			r := ref{a.Array, a.Start}
			live[r] = true
			if a.Version > 0 {
				m.heads = append(m.heads, arrayHead{ref: r, version: a.Version, geometry: a.Geometry, lineage: s.lineage(r)})
			}
		}
		maps.DeleteFunc(s.arrays, func(r ref, a *ownArray) bool {
			if !live[r] {
				s.drop(a, len(a.rounds))
			}
			return !live[r]
		})
		s.order = slices.DeleteFunc(s.order, func(r ref) bool { return !live[r] })
	}
	if len(m.heads) > maxParts {
		// To receivers that see only the head, an array that it omits is gone.
		sort.Slice(m.heads, func(a, b int) bool {
			return m.heads[a].start > m.heads[b].start
		}) // slices.SortFunc of a large struct adds 17 kB of code
		for _, h := range m.heads[maxParts:] {
			f := &m.floors[floorOf(h.array)]
			*f = max(*f, h.start+1)
		}
		m.heads = m.heads[:maxParts]
	}
	s.send(topic{kind: kindHead, origin: s.m.opts.Identity.public.hint()}, m)
}

// allExpired is a floor of a node that lists none of its arrays.
const allExpired = 1 << 62

// floorOf returns the index of the floor in a head that applies to an array.
func floorOf(a engine.Array) int {
	if a == engine.ArrayCounts {
		return 0
	}
	return 1
}

// lineage returns the lineage of an own array.
func (s *sender) lineage(r ref) lineage {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.m.state.lineage(r)
}
