package mesh

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// A memBroker is a broker that deliberately loses, repeats and reorders messages.
type memBroker struct {
	mu     sync.Mutex
	rng    *rand.Rand
	buses  map[*memBus]bool
	deltas []storedMsg
	images map[wire.Topic]storedMsg

	loss, repeat float64                     // probabilities
	edit         float64                     // probability that a message is changed in flight
	changed      int                         // changed messages
	delay        time.Duration               // longest time in flight
	slow         map[wire.Kind]time.Duration // additional time, by the kind of message
	bytes        uint64
	largest      int // bytes of the largest accepted message; 0: no limit

	breaks, drops int // of the next connection, as in memBus
}

type storedMsg struct {
	at    time.Time
	topic wire.Topic
	msg   []byte
}

func newMemBroker(rng *rand.Rand) *memBroker {
	return &memBroker{rng: rng, buses: make(map[*memBus]bool), images: make(map[wire.Topic]storedMsg),
		slow: make(map[wire.Kind]time.Duration)}
}

func (k *memBroker) faults(loss, repeat float64, delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loss, k.repeat, k.delay = loss, repeat, delay
}

// edits makes the broker change messages with a probability.
func (k *memBroker) edits(edit float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.edit = edit
}

// edited returns a message as the broker delivers or stores it: with a bit flipped, cut off,
// longer, or another stored message. The caller holds k.mu.
func (k *memBroker) edited(msg []byte) []byte {
	if k.edit == 0 || k.rng.Float64() >= k.edit || len(msg) == 0 {
		return msg
	}
	k.changed++
	switch k.rng.IntN(4) {
	case 0:
		return msg[:k.rng.IntN(len(msg))]
	case 1:
		return append(slices.Clone(msg), msg[:k.rng.IntN(len(msg))]...)
	case 2:
		if len(k.deltas) > 0 {
			return k.deltas[k.rng.IntN(len(k.deltas))].msg
		}
	}
	out := slices.Clone(msg)
	out[k.rng.IntN(len(out))] ^= 1 << k.rng.IntN(8)
	return out
}

// hold delays all messages of a kind by the given time.
func (k *memBroker) hold(what wire.Kind, slow time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slow[what] = slow
}

// limit makes the broker refuse messages of more bytes.
func (k *memBroker) limit(largest int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.largest = largest
}

// wipe deletes all stored messages.
func (k *memBroker) wipe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deltas, k.images = nil, make(map[wire.Topic]storedMsg)
}

type memBus struct {
	k    *memBroker
	ups  chan struct{}
	subs map[*memSub]bool
	on   bool
	open bool // every client can publish everything

	breaks int // number of stored messages after which the connection drops
	drops  int // how often it drops
	handed int // stored messages that were delivered

	server string
}

type memSub struct {
	match  func(wire.Topic) bool
	handle func(wire.Arrival)
}

func (k *memBroker) connect() *memBus {
	b := &memBus{k: k, ups: make(chan struct{}, 1), subs: make(map[*memSub]bool)}
	k.mu.Lock()
	k.buses[b] = true
	b.breaks, b.drops = k.breaks, k.drops
	k.mu.Unlock()
	b.set(true)
	return b
}

// set connects or disconnects the bus.
func (b *memBus) set(on bool) {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	if on && !b.on {
		select {
		case b.ups <- struct{}{}:
		default:
		}
	}
	b.on = on
}

func (b *memBus) Publish(t wire.Topic, msg []byte) error {
	k := b.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if !b.on {
		return errors.New("not connected")
	}
	if k.largest > 0 && len(msg) > k.largest {
		return wire.ErrTooLarge
	}
	k.bytes += uint64(len(msg))
	if k.rng.Float64() < k.loss {
		return nil
	}
	switch t.Kind {
	case wire.KindDelta:
		k.deltas = append(k.deltas, storedMsg{time.Now(), t, k.edited(msg)})
	case wire.KindImage:
		k.images[t] = storedMsg{time.Now(), t, k.edited(msg)}
	}
	for to := range k.buses {
		if to == b {
			continue
		}
		for s := range to.subs {
			if s.match(t) {
				k.send(to, s, wire.Arrival{Topic: t, Data: k.edited(msg)}, k.slow[t.Kind])
			}
		}
	}
	return nil
}

// send delivers one message to one subscriber. The caller holds k.mu.
func (k *memBroker) send(to *memBus, s *memSub, a wire.Arrival, slow time.Duration) {
	copies := 1
	if k.rng.Float64() < k.loss {
		copies = 0
	}
	if k.rng.Float64() < k.repeat {
		copies += 2
	}
	for range copies {
		wait := time.Millisecond + slow
		if k.delay > 0 {
			wait += time.Duration(k.rng.Int64N(int64(k.delay)))
		}
		time.AfterFunc(wait, func() {
			k.mu.Lock()
			on := to.on && to.subs[s]
			k.mu.Unlock()
			if on {
				s.handle(a)
			}
		})
	}
}

func (b *memBus) subscribe(match func(wire.Topic) bool, handle func(wire.Arrival)) func() {
	s := &memSub{match, handle}
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	b.subs[s] = true
	return func() {
		b.k.mu.Lock()
		defer b.k.mu.Unlock()
		delete(b.subs, s)
	}
}

func (b *memBus) Listen(self wire.Hint, all bool, handle func(wire.Arrival)) error {
	b.subscribe(func(t wire.Topic) bool {
		return t.Kind == wire.KindAsk && t.Origin == self || all && (t.Kind == wire.KindDelta || t.Kind == wire.KindHead)
	}, handle)
	return nil
}

func (b *memBus) ListenImages(origin wire.Hint, handle func(wire.Arrival)) (func(), error) {
	return b.subscribe(func(t wire.Topic) bool { return t.Kind == wire.KindImage && t.Origin == origin }, handle), nil
}

func (b *memBus) stored(list []storedMsg, handle func(wire.Arrival) bool) error {
	for i, m := range list {
		b.k.mu.Lock()
		on, drop := b.on, b.drops > 0 && i == b.breaks
		if drop {
			b.drops--
		}
		if on && !drop {
			b.handed++
		}
		b.k.mu.Unlock()
		if drop {
			b.set(false)
			b.set(true)
		}
		if !on || drop {
			return errors.New("not connected")
		}
		if !handle(wire.Arrival{Topic: m.topic, Data: m.msg, Stored: m.at}) {
			break
		}
	}
	return nil
}

func (b *memBus) StoredDeltas(_ context.Context, origin *wire.Hint, since time.Time,
	handle func(wire.Arrival) bool) error {
	b.k.mu.Lock()
	var list []storedMsg
	for _, m := range b.k.deltas {
		if !m.at.Before(since) && (origin == nil || m.topic.Origin == *origin) {
			list = append(list, m)
		}
	}
	b.k.mu.Unlock()
	return b.stored(list, handle)
}

func (b *memBus) StoredImages(_ context.Context, origin wire.Hint, handle func(wire.Arrival) bool) error {
	b.k.mu.Lock()
	var list []storedMsg
	for t, m := range b.k.images {
		if t.Origin == origin {
			list = append(list, m)
		}
	}
	b.k.mu.Unlock()
	return b.stored(list, handle)
}

func (b *memBus) Up() <-chan struct{} { return b.ups }

func (b *memBus) Proves() bool { return !b.open }

func (b *memBus) Name() string { return b.server }

func (b *memBus) Status() bus.Status {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	return bus.Status{Server: b.server, Connected: b.on}
}

func (b *memBus) Close() error {
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	b.on = false
	delete(b.k.buses, b)
	return nil
}

// ParseMessage opens and parses a message, as a node does in two steps.
func ParseMessage(b []byte, keyID uint64) (*wire.Message, error) {
	e, err := wire.OpenEnvelope(b)
	if err != nil {
		return nil, err
	}
	return e.Parse(keyID)
}
