package meshtest

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

// A Broker is a broker that deliberately loses, repeats and reorders messages.
type Broker struct {
	Mu     sync.Mutex
	rng    *rand.Rand
	buses  map[*Bus]bool
	Deltas []Stored
	Images map[wire.Topic]Stored

	loss, repeat float64                     // probabilities
	edit         float64                     // probability that a message is changed in flight
	Changed      int                         // changed messages
	delay        time.Duration               // longest time in flight
	slow         map[wire.Kind]time.Duration // additional time, by the kind of message
	Bytes        uint64
	largest      int // bytes of the largest accepted message; 0: no limit

	Breaks, Drops int // of the next connection, as in Bus
}

// A Stored is a message that a broker has stored.
type Stored struct {
	At    time.Time
	Topic wire.Topic
	Data  []byte
}

// NewBroker returns a broker without faults, which draws its faults from rng.
func NewBroker(rng *rand.Rand) *Broker {
	return &Broker{rng: rng, buses: make(map[*Bus]bool), Images: make(map[wire.Topic]Stored),
		slow: make(map[wire.Kind]time.Duration)}
}

// Faults sets the probabilities of loss and repetition, and the longest time in flight.
func (k *Broker) Faults(loss, repeat float64, delay time.Duration) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.loss, k.repeat, k.delay = loss, repeat, delay
}

// Edits makes the broker change messages with a probability.
func (k *Broker) Edits(edit float64) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.edit = edit
}

// edited returns a message as the broker delivers or stores it: with a bit flipped, cut off,
// longer, or another stored message. The caller holds k.mu.
func (k *Broker) edited(msg []byte) []byte {
	if k.edit == 0 || k.rng.Float64() >= k.edit || len(msg) == 0 {
		return msg
	}
	k.Changed++
	switch k.rng.IntN(4) {
	case 0:
		return msg[:k.rng.IntN(len(msg))]
	case 1:
		return append(slices.Clone(msg), msg[:k.rng.IntN(len(msg))]...)
	case 2:
		if len(k.Deltas) > 0 {
			return k.Deltas[k.rng.IntN(len(k.Deltas))].Data
		}
	}
	out := slices.Clone(msg)
	out[k.rng.IntN(len(out))] ^= 1 << k.rng.IntN(8)
	return out
}

// Hold delays all messages of a kind by the given time.
func (k *Broker) Hold(what wire.Kind, slow time.Duration) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.slow[what] = slow
}

// Limit makes the broker refuse messages of more bytes.
func (k *Broker) Limit(largest int) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.largest = largest
}

// Wipe deletes all stored messages.
func (k *Broker) Wipe() {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.Deltas, k.Images = nil, make(map[wire.Topic]Stored)
}

// A Bus is a client of a broker.
type Bus struct {
	Broker  *Broker
	ups     chan struct{}
	Subs    map[*memSub]bool
	On      bool
	Anybody bool // every client can publish everything

	Breaks int // number of stored messages after which the connection drops
	Drops  int // how often it drops
	Handed int // stored messages that were delivered

	Server string
}

type memSub struct {
	match  func(wire.Topic) bool
	handle func(wire.Arrival)
}

// Connect returns a connected client.
func (k *Broker) Connect() *Bus {
	b := &Bus{Broker: k, ups: make(chan struct{}, 1), Subs: make(map[*memSub]bool)}
	k.Mu.Lock()
	k.buses[b] = true
	b.Breaks, b.Drops = k.Breaks, k.Drops
	k.Mu.Unlock()
	b.Set(true)
	return b
}

// Set connects or disconnects the bus.
func (b *Bus) Set(on bool) {
	b.Broker.Mu.Lock()
	defer b.Broker.Mu.Unlock()
	if on && !b.On {
		select {
		case b.ups <- struct{}{}:
		default:
		}
	}
	b.On = on
}

// Publish implements [wire.Transport].
func (b *Bus) Publish(t wire.Topic, msg []byte) error {
	k := b.Broker
	k.Mu.Lock()
	defer k.Mu.Unlock()
	if !b.On {
		return errors.New("not connected")
	}
	if k.largest > 0 && len(msg) > k.largest {
		return wire.ErrTooLarge
	}
	k.Bytes += uint64(len(msg))
	if k.rng.Float64() < k.loss {
		return nil
	}
	switch t.Kind {
	case wire.KindDelta:
		k.Deltas = append(k.Deltas, Stored{time.Now(), t, k.edited(msg)})
	case wire.KindImage:
		k.Images[t] = Stored{time.Now(), t, k.edited(msg)}
	}
	for to := range k.buses {
		if to == b {
			continue
		}
		for s := range to.Subs {
			if s.match(t) {
				k.send(to, s, wire.Arrival{Topic: t, Data: k.edited(msg)}, k.slow[t.Kind])
			}
		}
	}
	return nil
}

// send delivers one message to one subscriber. The caller holds k.mu.
func (k *Broker) send(to *Bus, s *memSub, a wire.Arrival, slow time.Duration) {
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
			k.Mu.Lock()
			on := to.On && to.Subs[s]
			k.Mu.Unlock()
			if on {
				s.handle(a)
			}
		})
	}
}

// Subscribe calls handle for each message whose topic matches, until the returned function is called.
func (b *Bus) Subscribe(match func(wire.Topic) bool, handle func(wire.Arrival)) func() {
	s := &memSub{match, handle}
	b.Broker.Mu.Lock()
	defer b.Broker.Mu.Unlock()
	b.Subs[s] = true
	return func() {
		b.Broker.Mu.Lock()
		defer b.Broker.Mu.Unlock()
		delete(b.Subs, s)
	}
}

// Listen implements the transport of a mesh.
func (b *Bus) Listen(self wire.Hint, all bool, handle func(wire.Arrival)) error {
	b.Subscribe(func(t wire.Topic) bool {
		return t.Kind == wire.KindAsk && t.Origin == self || all && (t.Kind == wire.KindDelta || t.Kind == wire.KindHead)
	}, handle)
	return nil
}

// ListenImages implements [wire.Transport].
func (b *Bus) ListenImages(origin wire.Hint, handle func(wire.Arrival)) (func(), error) {
	return b.Subscribe(func(t wire.Topic) bool { return t.Kind == wire.KindImage && t.Origin == origin }, handle), nil
}

func (b *Bus) stored(list []Stored, handle func(wire.Arrival) bool) error {
	for i, m := range list {
		b.Broker.Mu.Lock()
		on, drop := b.On, b.Drops > 0 && i == b.Breaks
		if drop {
			b.Drops--
		}
		if on && !drop {
			b.Handed++
		}
		b.Broker.Mu.Unlock()
		if drop {
			b.Set(false)
			b.Set(true)
		}
		if !on || drop {
			return errors.New("not connected")
		}
		if !handle(wire.Arrival{Topic: m.Topic, Data: m.Data, Stored: m.At}) {
			break
		}
	}
	return nil
}

// StoredDeltas implements [wire.Transport].
func (b *Bus) StoredDeltas(_ context.Context, origin *wire.Hint, since time.Time,
	handle func(wire.Arrival) bool) error {
	b.Broker.Mu.Lock()
	var list []Stored
	for _, m := range b.Broker.Deltas {
		if !m.At.Before(since) && (origin == nil || m.Topic.Origin == *origin) {
			list = append(list, m)
		}
	}
	b.Broker.Mu.Unlock()
	return b.stored(list, handle)
}

// StoredImages implements [wire.Transport].
func (b *Bus) StoredImages(_ context.Context, origin wire.Hint, handle func(wire.Arrival) bool) error {
	b.Broker.Mu.Lock()
	var list []Stored
	for t, m := range b.Broker.Images {
		if t.Origin == origin {
			list = append(list, m)
		}
	}
	b.Broker.Mu.Unlock()
	return b.stored(list, handle)
}

// Up implements the transport of a mesh.
func (b *Bus) Up() <-chan struct{} { return b.ups }

// Proves implements [wire.Transport].
func (b *Bus) Proves() bool { return !b.Anybody }

// Connected reports whether the bus is connected to the broker.
func (b *Bus) Connected() bool { return b.Status().Connected }

// Name implements [wire.Transport].
func (b *Bus) Name() string { return b.Server }

// Status implements the transport of a mesh.
func (b *Bus) Status() bus.Status {
	b.Broker.Mu.Lock()
	defer b.Broker.Mu.Unlock()
	return bus.Status{Server: b.Server, Connected: b.On}
}

// Close implements the transport of a mesh.
func (b *Bus) Close() error {
	b.Broker.Mu.Lock()
	defer b.Broker.Mu.Unlock()
	b.On = false
	delete(b.Broker.buses, b)
	return nil
}

// Parse opens and parses a message, as a node does in two steps.
func Parse(b []byte, keyID uint64) (*wire.Message, error) {
	e, err := wire.OpenEnvelope(b)
	if err != nil {
		return nil, err
	}
	return e.Parse(keyID)
}
