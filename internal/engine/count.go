package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
)

// A countAddition holds sightings to count: cells of the tally, and the increase of each.
type countAddition struct {
	secrets *keys.Secrets
	cells   []filter.Key
	n       []uint32
}

func (c *countAddition) signatures() int { return len(c.cells) }

func (c *countAddition) under() *keys.Secrets { return c.secrets }

// decide only passes the counts on: these sightings need no look-up in the arrays.
func (c *countAddition) decide(r *resolve.Resolver) error {
	r.Count(c.cells, c.n)
	return nil
}

// Count implements [bulkhead.Counter]. It takes up to 65,536 signatures at once.
func (e *Engine) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	for {
		c, err := e.countAddition(sigs, n)
		if err != nil {
			e.counters.refused.Add(1)
			return err
		}
		if len(c.cells) == 0 {
			return nil
		}
		if err := e.queue.add(ctx, c); !errors.Is(err, errOtherSecret) {
			return err
		}
	}
}

// countAddition hashes in the caller's goroutine, because there is only one writer.
func (e *Engine) countAddition(sigs []bulkhead.Signature, n []uint32) (*countAddition, error) {
	if len(sigs) > maxVotes {
		return nil, fmt.Errorf("%w: %d signatures to count, limit %d", bulkhead.ErrOverLimit, len(sigs), maxVotes)
	}
	if err := bulkhead.ValidCounts(sigs, n); err != nil {
		return nil, err
	}
	white := e.checker.Whitelist()
	secrets := e.current.Books().Secrets
	maker := keys.Maker{Secret: secrets.Present()}
	c := &countAddition{secrets: secrets, cells: make([]filter.Key, 0, len(sigs)), n: make([]uint32, 0, len(sigs))}
	for i := range sigs {
		sig := &sigs[i]
		if e.checker.Hides(white, sig) {
			continue
		}
		c.cells = append(c.cells, maker.Base(sig).With(evidence.Sighting))
		c.n = append(c.n, n[i])
	}
	return c, nil
}
