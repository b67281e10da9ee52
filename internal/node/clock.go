//go:build !simclock

package node

import (
	"context"
	"time"
)

// advancer returns nil: the machine's clock is nobody's to move.
func (n *Node) advancer() func(context.Context, time.Duration) (time.Time, error) { return nil }
