//go:build simclock

package node

import (
	"context"
	"fmt"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
)

// advancer returns a function that moves the clock of all nodes of this process. It makes this node
// open and drop the generations that are due by then. With jump, the clock is wrong: no time has
// passed.
func (n *Node) advancer() func(context.Context, time.Duration, bool) (time.Time, error) {
	n.log.Warn("this program is built for tests",
		"consequence", "every user of this machine can move its clock (POST /v1/clock)", "hint", "do not use it for mail")
	return func(ctx context.Context, d time.Duration, jump bool) (time.Time, error) {
		n.records.sums.Note() // the sums before the move
		move := clock.Advance
		if jump {
			move = clock.Jump
		}
		if d < 0 {
			move, d = clock.Retreat, -d
		}
		if err := move(d); err != nil {
			return time.Time{}, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
		}
		if err := n.engine.Turn(ctx); err != nil {
			return time.Time{}, err
		}
		return clock.Now().UTC(), nil
	}
}
