package engine

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
)

// FormerIncarnation is what is held of an incarnation that its origin has lost.
type FormerIncarnation = replica.Former

// ArrayKey names an array of an origin.
type ArrayKey = replica.Key

// FormerIncarnations returns the former incarnations of an origin that are held, oldest first.
// [Engine.Replica] returns their arrays by their IDs.
func (e *Engine) FormerIncarnations(origin string) []FormerIncarnation {
	return e.replicas.Former(origin)
}

// ForgetFormer drops what is held of an origin's former incarnations, durably.
func (e *Engine) ForgetFormer(ctx context.Context, origin string) error {
	for _, f := range e.FormerIncarnations(origin) {
		if err := e.ForgetGenerations(ctx, f.ID, 0); err != nil {
			return err
		}
	}
	return nil
}

// Supersede drops, durably, arrays of an origin's former incarnations whose counts are in the
// arrays of its present one, because that was restored from a backup.
func (e *Engine) Supersede(ctx context.Context, origin string, arrays []ArrayKey) error {
	return e.change(ctx, &renewChange{Origin: origin, Superseded: arrays})
}
