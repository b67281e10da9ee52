package engine

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// PutAccount adds or replaces an account. The change is durable when PutAccount returns nil.
func (e *Engine) PutAccount(ctx context.Context, a trust.Account) error {
	return e.change(ctx, &accountChange{Put: &a})
}

// RemoveAccount removes an account. To keep its name from being taken again,
// close it instead.
func (e *Engine) RemoveAccount(ctx context.Context, name string) error {
	return e.change(ctx, &accountChange{Remove: name})
}

// accountChange is the body of an account entry: one of the two.
type accountChange struct {
	Put    *trust.Account `json:"put,omitempty"`
	Remove string         `json:"remove,omitempty"`
}

// do journals the change and applies it.
func (c *accountChange) do(e *Engine) error {
	if err := e.refusing(); err != nil {
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
	return e.journalled(entryAccount, c)
}

func (c *accountChange) apply(e *Engine, index uint64) error {
	if index <= e.accountsIndex {
		return nil
	}
	e.accountsIndex = index
	e.resolver.AccountsChanged()
	if c.Put != nil {
		return e.accounts.Put(*c.Put)
	}
	e.accounts.Remove(c.Remove)
	return nil
}
