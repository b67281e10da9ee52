package ledger

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Mark shows whether anything was ever taken away, on this node or another. Until then a front
// door need not look up the subtractions. The mark is a counter that is raised with each
// subtraction, so that it lives as long as the last of them. Its methods may be called
// concurrently. Use [NewMark] to make one.
type Mark struct {
	sig  bulkhead.Signature
	seen atomic.Bool
}

// NewMark returns the mark that is kept under sig and has not been seen yet.
func NewMark(sig bulkhead.Signature) *Mark { return &Mark{sig: sig} }

// Seen reports whether anything was taken away. Once true, it stays true.
func (m *Mark) Seen() bool { return m.seen.Load() }

// Set makes the mark visible on this node at once.
func (m *Mark) Set() { m.seen.Store(true) }

// Raise adds the mark to r, so that other nodes see it.
func (m *Mark) Raise(r *Raising) { r.Raise(m.sig, 1) }

// Refresh looks up whether the mark has been raised.
func (m *Mark) Refresh(ctx context.Context, house bulkhead.Counter) error {
	if m.Seen() {
		return nil
	}
	var l [1]bulkhead.Look
	if err := house.Look(ctx, []bulkhead.Signature{m.sig}, l[:], aside); err != nil {
		return err
	}
	if l[0].Sightings > 0 {
		m.Set()
	}
	return nil
}

// Follow looks up the mark periodically, until it is seen or ctx ends. It ignores errors, which the
// clearinghouse itself reports, and tries again.
func (m *Mark) Follow(ctx context.Context, house bulkhead.Counter, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := m.Refresh(ctx, house); err == nil && m.Seen() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
