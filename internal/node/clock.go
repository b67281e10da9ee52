//go:build !simclock

package node

import (
	"context"
	"time"
)

// advancer returns nil: the machine's clock cannot be moved.
func (n *Node) advancer() func(context.Context, time.Duration, bool) (time.Time, error) { return nil }
