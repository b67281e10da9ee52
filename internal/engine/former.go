package engine

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
)

// FormerIncarnations returns the former incarnations of an origin that have replicas here, oldest
// first. [Engine.Replica] returns their arrays by their IDs.
func (e *Engine) FormerIncarnations(origin string) []FormerIncarnation {
	return e.replicas.Former(origin)
}

// ForgetFormer durably drops the replicas of an origin's former incarnations.
func (e *Engine) ForgetFormer(ctx context.Context, origin string) error {
	for _, f := range e.FormerIncarnations(origin) {
		if err := e.ForgetGenerations(ctx, f.ID, 0); err != nil {
			return err
		}
	}
	return nil
}

// Supersede durably drops arrays of an origin's former incarnations. Their counts are in the arrays
// of the present incarnation, which was restored from a backup.
func (e *Engine) Supersede(ctx context.Context, origin string, arrays []ArrayKey) error {
	if len(arrays) == 0 {
		return nil
	}
	return e.queue.change(ctx, func() error {
		if err := e.replicas.CheckOrigin(origin); err != nil {
			return err
		}
		return e.commit(&codec.Renew{Origin: origin, Superseded: arrays})
	})
}
