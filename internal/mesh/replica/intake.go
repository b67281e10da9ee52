package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// Bounds of the receiver's queue, in bytes. The share of one peer has room for everything that an
// honest peer sends at once after a broker was away: its outbox and its history.
const (
	maxQueued      = 96 << 20 // bytes
	maxQueuedShare = 32 << 20 // of maxQueued, for one sender
	queuedCost     = 512      // approximate overhead of a message and of each part, in addition to their bytes
)

// errShare reports that the sender's share of the queue is full.
var errShare = errors.New("mesh: the sender's share of the queue is full")

// An incoming is a message with a valid signature, or a notice about the stored messages of a bus:
// reading is about to begin, or has reached a time or the end.
type incoming struct {
	from   wire.Hint
	m      *wire.Message
	size   int          // of the message
	stored bool         // read from the broker's storage
	sum    wire.HeadSum // of a head; without a message, of the head that the sender still publishes

	bus             wire.Transport
	caught, catches bool
	until           time.Time
}

// cost is the memory in bytes that x is charged while it waits.
func (x *incoming) cost() int {
	if x.m == nil && x.sum != (wire.HeadSum{}) {
		return queuedCost
	}
	if x.m == nil {
		return 0
	}
	return x.size + len(x.m.Statement) + queuedCost*(1+len(x.m.Rounds)+len(x.m.Heads)+len(x.m.Wants))
}

// An intake is the queue before the receiver. The queue and each sender's share of it are bounded
// in bytes.
type intake struct {
	ready chan struct{} // holds a value if the queue may not be empty

	mu     sync.Mutex
	list   []incoming
	bytes  int
	shares map[wire.Hint]int
	space  chan struct{} // closed when an item is taken
}

func newIntake() *intake {
	return &intake{ready: make(chan struct{}, 1), shares: make(map[wire.Hint]int), space: make(chan struct{})}
}

// put blocks until there is room for x, or ctx ends. If the sender's share is full and wait is
// false, it returns errShare at once.
func (q *intake) put(ctx context.Context, x incoming, wait bool) error {
	for {
		space, err := q.try(x)
		if space == nil {
			return nil
		}
		if err != nil && !wait {
			return err
		}
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try appends x, or returns a channel to wait on. The error is errShare if the sender's share is
// full.
func (q *intake) try(x incoming) (space chan struct{}, err error) {
	cost := x.cost()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch share := q.shares[x.from]; {
	case share > 0 && share+cost > maxQueuedShare:
		return q.space, errShare
	case cost > 0 && q.bytes > 0 && q.bytes+cost > maxQueued:
		return q.space, nil
	}
	q.list = append(q.list, x)
	q.bytes += cost
	q.shares[x.from] += cost
	q.signal()
	return nil, nil
}

func (q *intake) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take removes and returns the first item of the queue.
func (q *intake) take() (x incoming, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return x, false
	}
	x = q.list[0]
	q.list[0] = incoming{}
	if q.list = q.list[1:]; len(q.list) > 0 {
		q.signal()
	}
	q.bytes -= x.cost()
	if q.shares[x.from] -= x.cost(); q.shares[x.from] == 0 {
		delete(q.shares, x.from)
	}
	close(q.space)
	q.space = make(chan struct{})
	return x, true
}
