package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
)

const (
	maxBatch  = 2048    // reports in one journal entry
	maxVotes  = 1 << 16 // signatures in one journal entry, from which no further report joins
	queueSize = 8192    // reports that wait for the writer; more wait in their callers
)

// A request is work of the writer for a waiting caller. There are two kinds: additions, which share
// a journal entry with all other waiting additions, and changes, each made separately between two
// batches. One of the two is nil.
type request struct {
	addition addition
	change   func() error // it writes its own journal entry if it has to be durable
	err      error
	done     chan struct{}
}

// An addition is decided by the resolver of a batch.
type addition interface {
	// signatures returns the number of signatures of the addition.
	signatures() int
	// under returns the secrets of its keys.
	under() *keys.Secrets
	// decide determines the effects of the addition. On an error there are none, except for counts that need no vote.
	decide(r *resolve.Resolver) error
}

// weight returns the size of a request in a batch, in signatures.
func (r *request) weight() int {
	if r.addition == nil {
		return 0
	}
	return r.addition.signatures()
}

func (r *request) answer(err error) {
	r.err = err
	close(r.done)
}

// A queue passes requests to the writer. Callers use add, change and inTurn concurrently; only the
// writer uses gather.
type queue struct {
	requests chan *request
	closing  chan struct{} // closed when no further requests are accepted
	stopped  chan struct{} // closed when the writer has ended
}

func newQueue() queue {
	return queue{make(chan *request, queueSize), make(chan struct{}), make(chan struct{})}
}

// add passes an addition to the writer and waits until it is durable. If the caller gives up, the
// addition may or may not be counted, as if the answer was lost.
func (q *queue) add(ctx context.Context, a addition) error {
	return q.submit(ctx, &request{addition: a})
}

// change passes a change to the writer and waits until it is made.
func (q *queue) change(ctx context.Context, do func() error) error {
	return q.submit(ctx, &request{change: do})
}

func (q *queue) submit(ctx context.Context, req *request) error {
	req.done = make(chan struct{})
	select {
	case q.requests <- req:
	case <-q.closing:
		return errClosing
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-req.done:
		return req.err
	case <-ctx.Done():
		return ctx.Err()
	case <-q.stopped:
		// The writer may have answered just before it stopped.
		select {
		case <-req.done:
			return req.err
		default:
			return errClosing
		}
	}
}

// inTurn makes the writer run f between two batches, and waits for it. If it returns an error, f
// has not run and never will. A caller that gives up while f runs still gets the result of f.
func (q *queue) inTurn(ctx context.Context, f func()) error {
	var claimed atomic.Bool // by the writer, which runs f, or by the caller, who has given up
	req := &request{change: func() error {
		if claimed.CompareAndSwap(false, true) {
			f()
		}
		return nil
	}}
	err := q.submit(ctx, req)
	if err == nil || claimed.CompareAndSwap(false, true) {
		return err
	}
	<-req.done
	return nil
}

// between runs f on the writer's goroutine, between two batches.
func (q *queue) between(f func()) {
	// If the writer has stopped, nothing changes, and f may run here.
	if err := q.inTurn(context.Background(), f); err != nil {
		<-q.stopped
		f()
	}
}

// gather adds waiting requests to batch: reports that arrived while the last entry was made durable
// share the next one.
func (q *queue) gather(batch []*request) []*request {
	n := 0
	for _, req := range batch {
		n += req.weight()
	}
	for len(batch) < maxBatch && n < maxVotes {
		select {
		case req := <-q.requests:
			batch = append(batch, req)
			n += req.weight()
		default:
			return batch
		}
	}
	return batch
}

var errClosing = fmt.Errorf("%w: the node is shutting down", bulkhead.ErrReadOnly)

// errOtherSecret means that the network's secret has changed since an addition's keys
// were made.
var errOtherSecret = errors.New("engine: keys of another secret")
