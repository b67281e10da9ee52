package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of a [StreamServer].
const (
	DefaultMaxConns      = 4096
	DefaultConnsPerIP    = 256
	DefaultRequestTime   = 60 * time.Second
	DefaultWriteTime     = 15 * time.Second
	maxAcceptPause       = time.Second
	acceptPauseFirstStep = 5 * time.Millisecond
)

// A StreamServer serves connections, one goroutine each. Set the fields before Serve
// and do not change them afterwards.
type StreamServer struct {
	// Handler serves one connection and returns when it is done; the server then closes it. Its
	// context outlives the start of a shutdown, so that a request which was read is still answered,
	// and ends when the shutdown's context does. A panic is logged and ends the connection, and has
	// no other effect.
	Handler func(context.Context, *Conn)
	// MaxConns caps the open connections; 0 means DefaultMaxConns. Above a cap, the server closes
	// the connection that has waited longest for its client, in the network with the most
	// connections; see [Crowd]. If no connection waits, the newcomer is disconnected. Either gets
	// Refusal as its answer.
	MaxConns int
	// MaxConnsPerClient caps the open connections of one client; 0 means DefaultConnsPerIP, below 0
	// means no cap. Clients of a unix socket are not distinguished, and have no such cap.
	MaxConnsPerClient int
	// Refusal is sent to a connection without a place before it is closed, in protocols that have such
	// an answer; see [Refuser].
	Refusal []byte
	// ConnRate limits how often one client may connect.
	ConnRate Rate
	// RequestRate limits the requests that [Conn.Allow] charges.
	RequestRate Rate
	// Exempt lists the clients that the two rates do not apply to. The caps do.
	Exempt []netip.Prefix
	// RequestTime is how long a client may take from [Conn.Await] until its
	// request has been read, idle time included; 0 means DefaultRequestTime.
	RequestTime time.Duration
	// WriteTime is how long one write may take; 0 means DefaultWriteTime.
	WriteTime time.Duration
	// Log records panics and accept errors; nil discards them.
	Log *slog.Logger
	// Stats are the counters.
	Stats ConnStats

	life      // its mu guards the following fields
	requests  *Limiter
	accepts   *Limiter
	crowd     Crowd
	refuser   Refuser
	listeners map[net.Listener]struct{}
	open      map[*Conn]struct{}
}

// ConnStats are the counters of a [StreamServer]; all may be read at any time.
type ConnStats struct {
	Accepted atomic.Int64 // connections handed to the handler
	Refused  atomic.Int64 // connections closed at once: a cap or the rate
	Evicted  atomic.Int64 // connections that waited for their client and gave way to another
	Limited  atomic.Int64 // calls of Conn.Allow that refused
	Panics   atomic.Int64 // handlers that panicked
	Open     atomic.Int64 // connections open now
	// Times of the answers, from the last byte read until the first bytes of the answer were
	// written. Requests read together count as one.
	Times Times
}

// Serve accepts connections on l until Shutdown, or until l fails, and closes l. It returns when
// the connections it has accepted have finished the request they are in and all their handlers have
// returned: The error is ErrServerClosed after Shutdown, and otherwise the error of l. It may be
// called concurrently, for several listeners, under common caps.
func (s *StreamServer) Serve(l net.Listener) error {
	if !s.enter(l) {
		l.Close()
		return ErrServerClosed
	}
	var handlers sync.WaitGroup
	err := s.accept(l, &handlers)
	l.Close()
	closed := s.closed() // before waiting: the first failure counts
	s.mu.Lock()
	for c := range s.open {
		if c.listener == l {
			c.interrupt()
		}
	}
	s.mu.Unlock()
	handlers.Wait()
	s.refuser.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	s.leave()
	if closed {
		return ErrServerClosed
	}
	return err
}

// Shutdown ends the server: it closes the listeners, wakes the connections that
// wait for a request, and lets the others finish the one they are in. It returns
// nil when all have ended. When ctx ends first, the context of the handlers is
// ended, the connections are closed, and Shutdown returns the error of ctx; calls
// of Serve still wait for their handlers. It may be called more than once, and
// before Serve, which then serves nothing.
func (s *StreamServer) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.shut()
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.open {
		c.interrupt()
	}
	s.mu.Unlock()
	err := s.await(ctx)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Conn.Close()
	}
	return err
}

// enter begins to serve l, unless the server is closed.
func (s *StreamServer) enter(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.join() {
		return false
	}
	s.prepare()
	s.listeners[l] = struct{}{}
	return true
}

// prepare fills in the defaults. The caller holds mu.
func (s *StreamServer) prepare() {
	if s.open != nil {
		return
	}
	s.listeners = make(map[net.Listener]struct{})
	s.open = make(map[*Conn]struct{})
	s.requests = NewLimiter(s.RequestRate, s.Exempt)
	s.accepts = NewLimiter(s.ConnRate, s.Exempt)
	s.MaxConns = orDefault(s.MaxConns, DefaultMaxConns)
	s.MaxConnsPerClient = orDefault(s.MaxConnsPerClient, DefaultConnsPerIP)
	s.crowd.Max, s.crowd.PerClient = s.MaxConns, s.MaxConnsPerClient
	s.refuser.Answer = s.Refusal
	s.RequestTime = orDefault(s.RequestTime, DefaultRequestTime)
	s.WriteTime = orDefault(s.WriteTime, DefaultWriteTime)
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (s *StreamServer) accept(l net.Listener, handlers *sync.WaitGroup) error {
	pause := acceptPauseFirstStep
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.closed() || errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("door: accept: %w", err)
			}
			// Out of descriptors, or the client was gone again: neither is for good.
			s.Log.Warn("accept failed", "addr", l.Addr().String(), "err", err, "pause", pause)
			select {
			case <-s.stopping:
			case <-time.After(pause):
			}
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		pause = acceptPauseFirstStep
		c := &Conn{Conn: nc, server: s, listener: l, addr: addrOf(nc.RemoteAddr())}
		if !s.admit(c) {
			s.Stats.Refused.Add(1)
			s.refuser.Refuse(nc)
			continue
		}
		handlers.Go(func() { s.handle(s.handling, c) })
	}
}

// admit registers c, unless a cap or the rate forbids it.
func (s *StreamServer) admit(c *Conn) bool {
	if !s.accepts.Allow(c.addr, 1) {
		return false
	}
	place, evicted := s.crowd.Enter((*evictedConn)(c), c.addr)
	if place == nil {
		return false
	}
	if evicted {
		s.Stats.Evicted.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		place.Leave()
		return false
	}
	c.place = place
	s.open[c] = struct{}{}
	s.Stats.Accepted.Add(1)
	s.Stats.Open.Add(1)
	return true
}

func (s *StreamServer) release(c *Conn) {
	c.place.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.Stats.Open.Add(-1)
}

func (s *StreamServer) handle(ctx context.Context, c *Conn) {
	defer s.release(c)
	defer func() {
		if !c.gone.Load() { // the refuser closes it otherwise
			c.Conn.Close()
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			s.Stats.Panics.Add(1)
			s.Log.Error("handler panicked", "client", c.addr, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	c.Await()
	s.Handler(ctx, c)
}

// A Conn is one client's connection. Only the handler's goroutine may call its
// methods.
type Conn struct {
	net.Conn
	server   *StreamServer
	listener net.Listener
	addr     netip.Addr
	place    *Place
	began    int64 // when the next request was first awaited, in the form of a Place
	asked    int64 // when data were last read, by origin; 0 if they are answered

	gone atomic.Bool // it gave its place to another, and is refused

	mu       sync.Mutex // guards the read deadline against a drain
	draining bool
}

// errGivenWay is the error of a connection that gave its place to another.
var errGivenWay = errors.New("door: connection closed in favour of another")

// An evictedConn is a Conn as its [Crowd] closes it: with an answer, because a request may be on the way.
type evictedConn Conn

// Close implements [io.Closer].
func (c *evictedConn) Close() error {
	if !c.gone.Swap(true) {
		c.server.refuser.Refuse(c.Conn)
	}
	return nil
}

// Client returns the client's address, IPv4 unmapped; the zero Addr for a unix
// socket.
func (c *Conn) Client() netip.Addr { return c.addr }

// Await starts the time limit of the next request: reads fail with a timeout
// when it is over. The server has called it once before the handler starts.
// While the server drains, reads fail at once.
func (c *Conn) Await() {
	c.began = sinceOrigin()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.gone.Load() {
		return
	}
	// An error means that the connection is gone; the next read reports that.
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.server.RequestTime))
}

func (c *Conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Draining reports whether the server is about to stop, so that the handler
// should not wait for another request.
func (c *Conn) Draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// Allow charges n requests to the client and reports whether RequestRate allows them.
// The protocol decides what a refusal looks like.
func (c *Conn) Allow(n int) bool {
	if c.server.requests.Allow(c.addr, n) {
		return true
	}
	c.server.Stats.Limited.Add(1)
	return false
}

// Read reads data from the client. Since the last Await the connection counts as waiting for the
// client, and may be closed in favour of another; see [Crowd].
func (c *Conn) Read(p []byte) (int, error) {
	c.place.since.Store(c.began)
	defer c.place.Work()
	n, err := c.Conn.Read(p)
	if c.gone.Load() {
		return 0, errGivenWay
	}
	if n > 0 {
		c.asked = sinceOrigin()
	}
	return n, err
}

// Write writes p whole, within WriteTime, or fails.
func (c *Conn) Write(p []byte) (int, error) {
	if c.gone.Load() {
		return 0, errGivenWay
	}
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.server.WriteTime))
	n, err := c.Conn.Write(p)
	if c.asked > 0 && err == nil {
		c.server.Stats.Times.Add(time.Duration(sinceOrigin()-c.asked), 1)
		c.asked = 0
	}
	return n, err
}
