package replica

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// An origin is the receiver's state of one peer whose arrays are replicated here. Only the receiver's
// goroutine uses it.
type origin struct {
	r      *Receiver
	engine member.Engine
	peer   member.Peer // as it was on the list when its present message was taken

	lifetime
	queue
	space
	doubts
	gap
}

// A lifetime is what is known of the incarnations and processes of an origin.
type lifetime struct {
	last wire.Stamp   // of all messages, within the present incarnation
	head wire.Stamp   // of heads alone
	sum  wire.HeadSum // of the head that was applied last
	// inquired is when the peer was last asked for a head that a hub knows and this node does not.
	inquired time.Time
	named    wire.Stamp // of the last head that listed the organisations in its arrays
	// taught is the stamp of the last lesson.
	taught wire.Stamp
	twins  member.Twins
	heads  map[wire.Ref]wire.ArrayHead // of the present incarnation or, if next is set, of next
	next   uint64                      // a newer incarnation that was seen; 0 if none
}

// A queue holds the rounds of an origin that wait for earlier rounds.
type queue struct {
	pending map[wire.Ref][]wire.Round
	waiting int // bytes of pending
}

// A space is what is known of the memory for the arrays of an origin.
type space struct {
	full      bool              // an array of it did not fit, which was logged
	cramped   map[wire.Ref]bool // arrays without room to grow
	inspected look              // inspections of its arrays, for what they report
}

// Doubts are about an origin whose replica is not part of its arrays: it has gone back in time, and is
// notified of that.
type doubts struct {
	suspect  bool
	gone     []wire.Ref // arrays that its head omits
	doubted  time.Time  // since when it is suspect
	evidence wire.Evidence
	notified time.Time // when it was last notified of an incarnation that it has forgotten
}

// A gap is the search for missing rounds and arrays of an origin.
type gap struct {
	dirty   bool      // a message came since nothing was missing
	since   time.Time // when the gap was noticed; zero if there is none
	nextTry time.Time
	backoff time.Duration
	stop    []func() // end the subscriptions to images
}

func newOrigin(r *Receiver) *origin {
	return &origin{r: r, engine: r.opts.Engine, lifetime: lifetime{heads: make(map[wire.Ref]wire.ArrayHead)},
		queue: queue{pending: make(map[wire.Ref][]wire.Round)},
		space: space{inspected: make(look), cramped: make(map[wire.Ref]bool)}}
}

// refuse counts a refused message of the peer.
func (o *origin) refuse(reason, detail string) { o.r.book.Refuse(o.peer.Key.Hint(), reason, detail) }

// refuseError counts a refusal by the engine, by the kind of its error.
func (o *origin) refuseError(err error) {
	reason := member.ReasonAbsurd
	switch {
	case errors.Is(err, bulkhead.ErrReadOnly), errors.Is(err, context.Canceled), errors.Is(err, engine.ErrGap),
		errors.Is(err, bulkhead.ErrForbidden):
		return // not the peer's fault, or it is just being added; it is asked for again
	case errors.Is(err, bulkhead.ErrGeometry):
		reason = member.ReasonGeometry
	case errors.Is(err, bulkhead.ErrOverLimit):
		reason = member.ReasonLimit
	}
	o.refuse(reason, err.Error())
}

// figures calls change with the statistics of the peer. change must not block.
func (o *origin) figures(change func(*member.Stats)) { o.r.book.Figures(o.peer.Key.Hint(), change) }

// replica returns the arrays that are held of the peer.
func (o *origin) replica() map[wire.Ref]engine.ArrayState {
	out := make(map[wire.Ref]engine.ArrayState)
	for _, a := range o.engine.Replica(o.peer.ID) {
		out[wire.Ref{Array: a.Array, Start: a.Start}] = a
	}
	return out
}

// organisations records which organisations a head lists for the sender's arrays.
func (o *origin) organisations(ctx context.Context, m *wire.Message) {
	if m.Stamp.Incarnation < o.named.Incarnation || m.Stamp.Incarnation == o.named.Incarnation && !m.Stamp.Newer(o.named) {
		return // replayed by another node
	}
	o.named = m.Stamp
	o.figures(func(s *member.Stats) { s.Organisations = m.Organisations })
	o.suspend(ctx, o.r.book.CountedTwice(o.peer.Key.Hint()))
}

// resetAfter is how long an origin that has gone back may go on without a new incarnation. After
// that, its newly signed state is accepted all the same.
const resetAfter = time.Minute

// reset drops the replica of an origin that has gone back and has not explained it although it was
// asked for long enough. The origin cannot be sent proof, because this node was also restarted. The
// origin's head must be later than the start of every process in doubt, and of another process: a
// replayed old message is not enough. Its process may have a lower number than those: they ended
// within a second, or the clock was ahead.
func (o *origin) reset(ctx context.Context) {
	if !o.suspect || o.next != 0 || time.Since(o.doubted) < resetAfter {
		return
	}
	for _, a := range o.engine.Replica(o.peer.ID) {
		h, ok := o.heads[wire.Ref{Array: a.Array, Start: a.Start}]
		sound := ok && a.Version <= h.Version && h.Lineage.Contains(a, h.Boot)
		if !sound && (a.Boot == o.head.Boot || a.Boot >= o.head.At) {
			return
		}
	}
	if err := o.engine.ForgetGenerations(ctx, o.peer.ID, 0); err != nil {
		o.refuseError(err)
		return
	}
	o.r.opts.Log.Warn("replica does not match the peer's arrays", "peer", o.peer.Label(),
		"consequence", "the arrays are requested again")
	o.suspect, o.gone, o.evidence, o.doubted = false, nil, wire.Evidence{Head: o.evidence.Head}, time.Time{}
	o.pending, o.waiting, o.inspected = make(map[wire.Ref][]wire.Round), 0, make(look)
	o.hurry()
}
