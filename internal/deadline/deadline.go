// Package deadline bounds the exchanges of a client by their contexts.
package deadline

import (
	"context"
	"net"
	"time"
)

// Set makes reads and writes of conn fail at a time, or when ctx ends if that is earlier. The caller
// calls release after the exchange, and conn has no deadline from then on.
func Set(ctx context.Context, conn net.Conn, at time.Time) (release func(), err error) {
	if err := conn.SetDeadline(at); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		conn.SetDeadline(time.Unix(1, 0)) // an error means that conn is closed
	})
	return func() {
		if !stop() {
			<-ended
		}
		conn.SetDeadline(time.Time{})
	}, nil
}

// Cause returns the error of ctx if it has ended, and err otherwise. It replaces the timeouts that an
// end of ctx causes.
func Cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}
