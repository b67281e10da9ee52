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

// A request is work of the writer for a waiting caller. There are two kinds: additions, which share
// a journal entry with all other waiting additions, and changes, each made separately between two
// batches. One of the two is nil.
type request struct {
	addition addition
	change   change
	err      error
	done     chan struct{}
}

// An addition is decided by the resolver of a batch.
type addition interface {
	// signatures returns the number of signatures of the addition.
	signatures() int
	// under returns the secrets of its keys.
	under() *keys.Secrets
	// decide determines the effects of the addition. On an error there are none.
	decide(r *resolve.Resolver) error
}

// A change is made by the writer, with its own journal entry if it has to be durable.
type change interface{ do(e *Engine) error }

// An interlude is a change without an entry: a function that runs between two batches.
type interlude func()

func (f interlude) do(*Engine) error {
	f()
	return nil
}

// add passes an addition to the writer and waits until it is durable. If the caller gives up, the
// addition may or may not be counted, as if the answer was lost.
func (e *Engine) add(ctx context.Context, a addition) error {
	return e.submit(ctx, &request{addition: a})
}

// change passes a change to the writer and waits until it is made.
func (e *Engine) change(ctx context.Context, c change) error {
	return e.submit(ctx, &request{change: c})
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

// inTurn makes the writer run f between two batches, and waits for it. If it returns an error, f
// has not run and never will. A caller that gives up while f runs still gets the result of f.
func (e *Engine) inTurn(ctx context.Context, f func()) error {
	var claimed atomic.Bool // by the writer, which runs f, or by the caller, who has given up
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

// errOtherSecret means that the network's secret has changed since an addition's keys
// were made.
var errOtherSecret = errors.New("engine: keys of another secret")
