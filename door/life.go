package door

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrServerClosed is what Serve and ServePacket of every front door return after
// Shutdown.
var ErrServerClosed = errors.New("door: server closed")

// A life counts the calls of Serve that are under way, and ends them. The zero
// life has begun.
type life struct {
	mu       sync.Mutex
	closing  bool
	stopping chan struct{} // closed by shut
	serving  int
	ended    chan struct{}      // closed when nothing is served any more
	handling context.Context    // of the handlers
	cut      context.CancelFunc // ends it
}

// begin prepares the life. The caller holds mu.
func (f *life) begin() {
	if f.ended == nil {
		f.stopping, f.ended = make(chan struct{}), make(chan struct{})
		f.handling, f.cut = context.WithCancel(context.Background())
	}
}

// join begins one call of Serve, unless the server has been shut. The caller holds mu.
func (f *life) join() bool {
	f.begin()
	if f.closing {
		return false
	}
	f.serving++
	return true
}

// leave ends one call of Serve. The caller holds mu.
func (f *life) leave() {
	if f.serving--; f.closing && f.serving == 0 {
		close(f.ended)
		f.cut()
	}
}

// shut refuses calls of Serve from now on. The caller holds mu.
func (f *life) shut() {
	f.begin()
	if f.closing {
		return
	}
	f.closing = true
	close(f.stopping)
	if f.serving == 0 {
		close(f.ended)
		f.cut()
	}
}

// closed reports whether the server has been shut.
func (f *life) closed() bool {
	select {
	case <-f.stopping:
		return true
	default:
		return false
	}
}

// await waits until nothing is served, or until ctx ends: then it ends the
// context of the handlers and returns the error of ctx.
func (f *life) await(ctx context.Context) error {
	select {
	case <-f.ended:
		return nil
	default:
	}
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		f.cut()
		return ctx.Err()
	}
}

// ShutdownBoth shuts down the datagram server and the connection server of one front door
// concurrently.
func ShutdownBoth(ctx context.Context, packets *PacketServer, stream *StreamServer) error {
	other := make(chan error, 1)
	go func() { other <- packets.Shutdown(ctx) }()
	err := stream.Shutdown(ctx)
	return errors.Join(err, <-other)
}

// DrainTime is how long [Run] waits for a front door to finish the requests that it
// has read.
const DrainTime = 10 * time.Second

// Run serves until ctx ends, and then shuts down within [DrainTime]: it returns nil if ctx has
// ended, even if requests were cut off. Each function in serve calls Serve or ServePacket of the
// same front door. When one of them fails, Run ends the others too, because half a port is worse
// than none, and returns the failure. It returns when all of them have returned.
//
//	err := door.Run(ctx, s,
//		func() error { return s.Serve(l) },
//		func() error { return s.ServePacket(pc) })
func Run(ctx context.Context, s interface{ Shutdown(context.Context) error }, serve ...func() error) error {
	ended := make(chan error, len(serve))
	for _, f := range serve {
		go func() { ended <- f() }()
	}
	var errs []error
	note := func(err error) {
		if !errors.Is(err, ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	left := len(serve)
	select {
	case <-ctx.Done():
	case err := <-ended:
		left--
		note(err)
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), DrainTime)
	defer cancel()
	// Requests that this cuts off are no error of the server.
	_ = s.Shutdown(draining)
	for range left {
		note(<-ended)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// Work runs alongside calls of Serve: it begins with the first of several concurrent calls and ends
// with the last. The zero Work is ready for use.
type Work struct {
	mu    sync.Mutex
	users int
	end   func()
}

// During calls serve while the work runs that begin starts. The function that begin returns must
// end the work and wait for its end. It may be called at once by several goroutines, with the same
// begin.
func (w *Work) During(begin func() (end func()), serve func() error) error {
	w.mu.Lock()
	if w.users == 0 {
		w.end = begin()
	}
	w.users++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.users--; w.users == 0 {
			w.end()
		}
	}()
	return serve()
}
