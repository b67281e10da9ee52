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

// A request is something that the writer does for a caller who waits. There are
// two kinds: additions, which share a journal entry with all others that wait, and
// changes, each of which is made by itself, between two batches. One of the two is
// nil.
type request struct {
	addition addition
	change   change
	err      error
	done     chan struct{}
}

// An addition is decided by the resolver of a batch.
type addition interface {
	// signatures returns how many the addition is about.
	signatures() int
	// under returns the secrets that its keys were made with.
	under() *keys.Secrets
	// decide says what the addition does. With an error it does nothing.
	decide(r *resolve.Resolver) error
}

// A change is made by the writer, with a journal entry of its own if it has to
// last.
type change interface{ do(e *Engine) error }

// An interlude is a change of nothing: a function that runs between two batches.
type interlude func()

func (f interlude) do(*Engine) error {
	f()
	return nil
}

// add hands an addition to the writer and waits until it is durable. If the caller
// gives up it is counted or not, like one whose answer got lost.
func (e *Engine) add(ctx context.Context, a addition) error {
	return e.submit(ctx, &request{addition: a})
}

// change hands a change to the writer and waits until it is made.
func (e *Engine) change(ctx context.Context, c change) error {
	return e.submit(ctx, &request{change: c})
}

// weight returns how much a request adds to a batch, in signatures.
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

func (e *Engine) submit(ctx context.Context, req *request) error {
	req.done = make(chan struct{})
	select {
	case e.queue <- req:
	case <-e.closing:
		return errClosing
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-req.done:
		return req.err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stopped:
		// The writer may have answered just before it stopped.
		select {
		case <-req.done:
			return req.err
		default:
			return errClosing
		}
	}
}

// inTurn has the writer run f between two batches, and waits for it. If it
// returns an error f has not run and never will: a caller that gives up while f
// runs still has its result.
func (e *Engine) inTurn(ctx context.Context, f func()) error {
	var claimed atomic.Bool // by the writer, which runs f, or by the caller, who does not want it any more
	req := &request{change: interlude(func() {
		if claimed.CompareAndSwap(false, true) {
			f()
		}
	})}
	err := e.submit(ctx, req)
	if err == nil || claimed.CompareAndSwap(false, true) {
		return err
	}
	<-req.done
	return nil
}

var errClosing = fmt.Errorf("%w: the node is shutting down", bulkhead.ErrReadOnly)

// errOtherSecret says that the network's secret has changed since the keys of an addition
// were made.
var errOtherSecret = errors.New("engine: keys of another secret")
