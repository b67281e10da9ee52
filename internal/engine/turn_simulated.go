//go:build simclock

package engine

import "context"

// Turn waits until the writer has opened and dropped the generations that are due by the clock.
// Otherwise the writer does this with the next report or within a second.
func (e *Engine) Turn(ctx context.Context) error {
	// The second turn drops what the first one has set aside.
	for range 2 {
		if err := e.queue.inTurn(ctx, func() {}); err != nil {
			return err
		}
		e.writer.leaving.work.Wait()
	}
	if err := e.queue.inTurn(ctx, func() {}); err != nil {
		return err
	}
	e.checker.Measure()
	return e.journal.refusing()
}
