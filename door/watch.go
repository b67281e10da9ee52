package door

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// watchEvery is the time between two looks at a watched connection.
const watchEvery = 50 * time.Millisecond

// ErrClientGone is the cause of a context that ended because the client closed its connection.
var ErrClientGone = errors.New("door: client closed the connection")

// Watch returns a context that ends with ctx, or shortly after the client has closed its connection,
// and a function that ends the watch. It reads nothing. It is for work on a request after which the
// client sends nothing until it has the answer, and keeps its side open. Where a connection cannot be
// looked at, the context ends with ctx alone.
func (c *Conn) Watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return watched, func() { cancel(nil) }
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return watched, func() { cancel(nil) }
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			if isClosed(raw) {
				cancel(ErrClientGone)
				return
			}
		}
	})
	return watched, func() {
		cancel(nil)
		watching.Wait()
	}
}
