package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

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
