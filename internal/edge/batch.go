package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A result is the answer to one request of a batch.
type result[A any] struct {
	answer A
	err    error
}

// A batcher collects requests while a batch is being sent, and sends them together in the next
// batch. A request never waits for a batch to fill, and a slow upstream gets fewer and larger
// batches.
type batcher[Q, A any] struct {
	// send sends a batch in one request. An error applies to the whole batch.
	send    func(context.Context, []Q) ([]result[A], error)
	timeout time.Duration // of one request
	size    int           // largest batch
	limit   int           // largest number of waiting requests

	mu      sync.Mutex
	waiting []*question[Q, A]
	busy    bool // a goroutine is sending
}

type question[Q, A any] struct {
	ask    Q
	answer chan result[A] // buffered, for one result
}

// do sends one request and waits for the answer, until ctx ends.
func (b *batcher[Q, A]) do(ctx context.Context, ask Q) (A, error) {
	var none A
	q := &question[Q, A]{ask, make(chan result[A], 1)}
	b.mu.Lock()
	if len(b.waiting) >= b.limit {
		b.mu.Unlock()
		return none, fmt.Errorf("edge: %w: %d requests wait for the upstream", bulkhead.ErrOverLimit, b.limit)
	}
	b.waiting = append(b.waiting, q)
	if !b.busy {
		b.busy = true
		go b.run()
	}
	b.mu.Unlock()
	select {
	case r := <-q.answer:
		return r.answer, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// run sends batches until no request waits.
func (b *batcher[Q, A]) run() {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), b.size)
		if n == 0 {
			b.waiting, b.busy = nil, false
			b.mu.Unlock()
			return
		}
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.mu.Unlock()
		b.flush(batch)
	}
}

// flush answers a batch. If the upstream finds a request malformed, each request is sent alone, so
// that one does not spoil the others.
func (b *batcher[Q, A]) flush(batch []*question[Q, A]) {
	asks := make([]Q, len(batch))
	for i, q := range batch {
		asks[i] = q.ask
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	answers, err := b.send(ctx, asks)
	if len(batch) > 1 && errors.Is(err, bulkhead.ErrMalformed) {
		for _, q := range batch {
			b.flush([]*question[Q, A]{q})
		}
		return
	}
	for i, q := range batch {
		if err != nil {
			q.answer <- result[A]{err: err}
			continue
		}
		q.answer <- answers[i]
	}
}
