package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// write is the writer's goroutine: the only one that changes arrays, accounts
// and the view.
func (e *Engine) write() {
	defer close(e.queue.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	batch := make([]*request, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case req := <-e.queue.requests:
			batch = append(batch, req)
		case <-tick.C:
		case <-e.queue.closing:
			e.drain(batch)
			return
		}
		e.turn(e.queue.gather(batch))
	}
}

// drain serves the requests that were queued before the engine began to close.
func (e *Engine) drain(batch []*request) {
	for {
		batch = e.queue.gather(batch[:0])
		if len(batch) == 0 {
			return
		}
		e.turn(batch)
	}
}

// turn serves one batch.
func (e *Engine) turn(batch []*request) {
	e.journal.watch()
	if err := e.rotate(); err != nil {
		e.journal.fail("open generation", err)
	}
	e.sweep()
	var adds []*request
	for _, req := range batch {
		if req.addition != nil {
			adds = append(adds, req)
		} else {
			req.err = req.change()
			e.answer(req)
		}
	}
	if len(adds) > 0 {
		e.addAll(adds)
	}
}

// addAll decides the additions of a batch, makes the decisions durable in one entry,
// applies them, and answers.
func (e *Engine) addAll(adds []*request) {
	err := e.role.mayDecide()
	if err == nil {
		err = e.decidable()
	}
	if err == nil {
		resolver, s := e.writer.resolver, e.checker.Sources()
		resolver.Begin(s.View.Evidence(), s.Sources)
		for _, req := range adds {
			if req.addition.under() != s.View.Secrets {
				req.err = errOtherSecret
				continue
			}
			req.err = req.addition.decide(resolver)
		}
		if decisions := resolver.Decisions(); !decisions.Empty() {
			err = e.commit((*codec.Votes)(decisions))
		}
		if err == nil {
			gatherings := resolver.Gatherings()
			e.counters.gatherings.Add(uint64(len(gatherings)))
			e.writer.gatherings.add(e.opts.Log, e.opts.Now, gatherings)
		}
	}
	for _, req := range adds {
		if err != nil {
			req.err = err
		}
		switch {
		case req.err == nil:
			e.counters.reports.Add(1)
		case req.err != errOtherSecret: // the caller tries again
			e.counters.refused.Add(1)
		}
	}
	e.answer(adds...)
}

// PutAccount adds or replaces an account. The change is durable when PutAccount returns nil.
func (e *Engine) PutAccount(ctx context.Context, a trust.Account) error {
	return e.queue.change(ctx, func() error { return e.changeAccount(&codec.Account{Put: &a}) })
}

// RemoveAccount removes an account. To keep its name from being taken again,
// close it instead.
func (e *Engine) RemoveAccount(ctx context.Context, name string) error {
	return e.queue.change(ctx, func() error { return e.changeAccount(&codec.Account{Remove: name}) })
}

// changeAccount makes a change durable and applies it. Only the writer calls it.
func (e *Engine) changeAccount(c *codec.Account) error {
	if err := errors.Join(e.journal.refusing(), e.role.mayDecide()); err != nil {
		return err
	}
	if c.Put != nil {
		// Refuse before journalling an account that Put would refuse afterwards.
		if err := e.accounts.Admits(*c.Put); err != nil {
			return err
		}
	} else if _, ok := e.accounts.Get(c.Remove); !ok {
		return fmt.Errorf("%w: no account %.*q", bulkhead.ErrMalformed, 128, c.Remove)
	}
	return e.commit(c)
}

// answer answers requests, at once or when the standby has all that their answers rest on. A request
// that changed nothing waits as well: the entry that it repeats may still be unconfirmed. Only the
// writer calls it.
func (e *Engine) answer(requests ...*request) {
	if e.role.standby != nil {
		e.role.unsure <- unsure{e.journal.store.LastIndex(), requests}
		return
	}
	for _, req := range requests {
		req.answer(req.err)
	}
}
