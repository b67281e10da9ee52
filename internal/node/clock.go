//go:build !simclock

package node

import (
	"context"
	"time"
)

// advancer returns nil: nobody may move the machine's clock.
func (n *Node) advancer() func(context.Context, time.Duration, bool) (time.Time, error) { return nil }
