package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

const (
	maxPending   = 8 << 20 // cost of the rounds of one origin that wait for earlier rounds
	gapWait      = 500 * time.Millisecond
	maxBackoff   = time.Minute
	catchUpLimit = 2 * time.Minute
	seenMargin   = 2 * time.Minute
	conflictRest = 10 * time.Second // between two signs of two servers, or notices of a forgotten incarnation
	catchUpWait  = 15 * time.Second // longest time that a gap may wait to be closed by stored messages
)

// A Receiver applies the messages of peers to the replicas of their arrays. Its exported methods may be
// called concurrently, except Use and Load, which precede Run. Only its own goroutine uses the fields
// below the channels.
type Receiver struct {
	opts     *member.Options
	book     *member.Book
	state    *member.State
	secrets  *member.Secrets
	requests Requests
	buses    []wire.Transport
	done     sync.WaitGroup // waits for the readings that the receiver has begun

	in    *intake
	wake  chan struct{}
	mu    sync.Mutex // guards calls, catching and read
	calls []func(ctx context.Context)
	// catching is the number of buses whose stored messages are being read: gaps may close by
	// themselves.
	catching int
	// read is, for each bus, the time up to which this process has read its stored messages.
	read map[wire.Transport]time.Time

	origins   map[wire.Hint]*origin
	caught    map[wire.Transport]bool      // all its stored messages were taken
	upTo      map[wire.Transport]time.Time // the time up to which its stored messages were taken
	twins     member.Twins                 // of this node's key
	began     time.Time                    // when the previous process last caught up with a broker
	seenSaved time.Time
}

// New returns a receiver for the peers in b. It hands to q what concerns the node's own arrays.
func New(o *member.Options, b *member.Book, st *member.State, c *member.Secrets, q Requests) *Receiver {
	return &Receiver{opts: o, book: b, state: st, secrets: c, requests: q, in: newIntake(), wake: make(chan struct{}, 1),
		read:   make(map[wire.Transport]time.Time),
		caught: make(map[wire.Transport]bool), upTo: make(map[wire.Transport]time.Time), origins: make(map[wire.Hint]*origin),
		began: st.Newest()}
}

// Requests is the part of an origin that the messages of other nodes concern.
type Requests interface {
	// Greet requests a head soon, so that peers learn what to ask for.
	Greet()
	// Want sends an origin an ask for missing arrays. It may be dropped.
	Want(ask *wire.Message)
	// Ask hands over a peer's ask. It may be dropped.
	Ask(m *wire.Message)
	// Refilled hands over pages that a peer has sent.
	Refilled(m *wire.Message)
	// Recall hands over a past of this node that a broker has stored.
	Recall(p wire.Past)
}

// Use makes the receiver read another bus.
func (r *Receiver) Use(b wire.Transport) { r.buses = append(r.buses, b) }

// Do runs f on the receiver's goroutine.
func (r *Receiver) Do(f func(ctx context.Context)) {
	r.mu.Lock()
	r.calls = append(r.calls, f)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run applies messages until ctx ends. It is called once.
func (r *Receiver) Run(ctx context.Context) {
	defer func() {
		for _, t := range r.origins {
			t.heal()
		}
		r.done.Wait()
	}()
	const every = gapWait / 2
	repair := time.After(every) // nil if nothing is missing
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.in.ready:
			x, ok := r.in.take()
			if !ok || r.still(&x) || r.passed(&x) {
				continue
			}
			r.take(ctx, &x)
			if repair == nil {
				repair = time.After(every)
			}
		case <-repair:
			if repair = nil; r.repair(ctx) {
				repair = time.After(every)
			}
		case <-r.wake:
			r.mu.Lock()
			calls := r.calls
			r.calls = nil
			r.mu.Unlock()
			for _, f := range calls {
				f(ctx)
			}
		}
	}
}

// Welcome fetches the stored messages of a newly added peer.
func (r *Receiver) Welcome(ctx context.Context, h wire.Hint) {
	if r.opts.Role == member.Publish {
		return
	}
	for _, b := range r.buses {
		r.done.Go(func() {
			limited, cancel := context.WithTimeout(ctx, catchUpLimit)
			defer cancel()
			r.fetch(limited, b, h, true)
		})
	}
	r.requests.Greet()
}

// Forget drops the state of an origin.
func (r *Receiver) Forget(h wire.Hint) {
	if t := r.origins[h]; t != nil {
		t.heal()
		delete(r.origins, h)
	}
}

// origin returns the state of an origin, new if there was none.
func (r *Receiver) origin(h wire.Hint) *origin {
	o := r.origins[h]
	if o == nil {
		o = newOrigin(r)
		r.origins[h] = o
	}
	return o
}

// take handles one message.
func (r *Receiver) take(ctx context.Context, x *incoming) {
	m := x.m
	from := m.From
	if from == r.opts.Identity.Hint() {
		r.mirror(x)
		return
	}
	p, ok := r.book.Find(from)
	if !ok {
		if p, ok = r.successor(ctx, m); !ok {
			r.book.Refuse(from, member.ReasonStranger, strange)
			return
		}
	}
	if m.Kind.Topic() == wire.KindAsk {
		switch {
		case m.To != r.opts.Identity.Hint():
		case m.Kind == wire.KindRefill:
			r.requests.Refilled(m)
		case m.Kind == wire.KindLesson:
			r.lesson(&p, m)
		default:
			r.requests.Ask(m)
		}
		return
	}
	if r.opts.Role == member.Publish {
		return
	}
	now := r.opts.Now()
	r.noteAlive(&p, now, x.size)
	r.saveSeen(now)
	o := r.origin(from)
	o.peer, o.dirty = p, true
	if m.Kind == wire.KindHead {
		o.organisations(ctx, m)
	}
	if !o.alive(ctx, m) {
		return
	}
	switch m.Kind {
	case wire.KindHead:
		if o.applyHead(ctx, m); o.head == m.Stamp {
			o.sum = x.sum
		}
		if len(o.pending) > 0 {
			o.drain(ctx, o.replica())
		}
	case wire.KindDelta:
		o.delta(ctx, m)
	case wire.KindImage:
		o.image(ctx, m)
	}
}

// noteAlive records that a peer runs: by a message of size bytes, or by a hub's word if size is 0.
func (r *Receiver) noteAlive(p *member.Peer, now time.Time, size int) {
	r.book.Figures(p.Key.Hint(), func(s *member.Stats) {
		last := s.Heard
		if last.IsZero() {
			last = p.Added
			if r.began.After(last) {
				last = r.began
			}
		}
		// Use the wall clock: the processor's clock stands still while a machine sleeps.
		s.Growth.Credit(r.opts, time.Now(), now.Round(0).Sub(last.Round(0)))
		s.Heard, s.LastHeard, s.Network = now, now, ""
		if size > 0 {
			s.Messages++
			s.Bytes += uint64(size)
		}
	})
}

// still handles a hub's word that a peer still publishes the head with a sum. If that is not the head
// that this node has, the peer is asked for it. still returns false if x is something else.
func (r *Receiver) still(x *incoming) bool {
	if x.m != nil || x.sum == (wire.HeadSum{}) {
		return false
	}
	p, ok := r.book.Find(x.from)
	if !ok || r.opts.Role == member.Publish {
		return true
	}
	o := r.origin(x.from)
	if o.sum == x.sum {
		now := r.opts.Now()
		r.noteAlive(&p, now, 0)
		r.saveSeen(now)
	} else if time.Since(o.inquired) >= r.opts.Heartbeat {
		o.inquired = time.Now()
		r.requests.Want(&wire.Message{To: x.from})
	}
	return true
}

// mirror checks messages that carry the node's own key. A live one may come from another server
// that wrongly uses the key. A stored one may come from a past that the node has forgotten.
func (r *Receiver) mirror(x *incoming) {
	if x.stored {
		r.requests.Recall(x.m.Past())
		return
	}
	if x.m.Kind == wire.KindHead {
		r.twin(x.m)
	}
}

// twin handles a head with this node's own key from another process. A process with a higher number
// is certainly another server. A process with a lower number may have ended, with its last heads
// still on their way.
func (r *Receiver) twin(m *wire.Message) {
	_, boot := r.state.Life()
	if r.state.Mine(m.Stamp.Boot) {
		return
	}
	if m.Stamp.Boot < boot {
		// This process is heard at every moment, and began with its start.
		mine := wire.Stamp{Incarnation: m.Stamp.Incarnation, Boot: boot, Seq: r.twins.Newest.Seq + 1, At: r.state.Started()}
		r.twins.Note(mine, r.opts.Now(), 0, 0)
		r.twins.Note(m.Stamp, r.opts.Now(), r.signRest(), member.TwinRest*r.opts.Heartbeat)
		if !r.twins.Certain() {
			return
		}
	}
	r.state.NoteTwin()
	if r.book.RefuseStranger("own key elsewhere", "") {
		r.opts.Log.Error("another server uses this node's key",
			"its_start", time.UnixMilli(int64(m.Stamp.Boot)).UTC(), "cause", "a copied disk or data folder",
			"consequence", "peers stop counting both",
			"hint", "stop the copy, and give it an empty data folder; then run \"bulkhead peer weigh\" at the peers")
	}
}

// saveSeen records now and then which brokers the node is connected to and has caught up with.
// After a restart it then reads no more stored messages than necessary.
func (r *Receiver) saveSeen(now time.Time) {
	if now.Sub(r.seenSaved).Abs() < time.Minute {
		return
	}
	r.seenSaved = now
	seen := make(map[string]time.Time)
	for _, b := range r.buses {
		name := b.Name()
		before, known := r.state.LastSeen(name)
		if !known {
			before = time.Time{}
		}
		if r.caught[b] && b.Connected() {
			seen[name] = now.UTC()
		} else if at := r.upTo[b]; at.After(before) {
			seen[name] = at.UTC()
		} else if known {
			seen[name] = before
		}
	}
	err := errors.Join(r.state.SaveSeen(seen), r.Save())
	if err != nil {
		r.opts.Log.Debug("last messages of peers not saved", "err", err)
	}
}

// lesson takes a lesson of a peer.
func (r *Receiver) lesson(p *member.Peer, m *wire.Message) {
	x, l := r.opts.Lessons, m.Lesson
	if x == nil || r.opts.Role == member.Publish || l.Parts > 0 && p.Refuses(l.Live[l.Of].Start) {
		return
	}
	o := r.origin(m.From)
	if m.Stamp.Incarnation < o.taught.Incarnation ||
		m.Stamp.Incarnation == o.taught.Incarnation && !m.Stamp.Newer(o.taught) {
		return // a broker has repeated it
	}
	o.taught = m.Stamp
	if err := x.Take(p.ID, l); errors.Is(err, bulkhead.ErrOverLimit) {
		r.book.Refuse(m.From, member.ReasonLimit, err.Error())
	}
}
