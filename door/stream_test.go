package door

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// echo answers every line with itself, until the connection or the drain ends.
func echo(_ context.Context, c *Conn) {
	r := bufio.NewReader(c)
	for {
		c.Await()
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if line == "panic\n" {
			panic("as asked")
		}
		if !c.Allow(1) {
			line = "limited\n"
		}
		if _, err := c.Write([]byte(line)); err != nil {
			return
		}
	}
}

// start serves s on loopback or address until the test ends.
func start(t *testing.T, s *StreamServer, address string) (addr net.Addr, stop func()) {
	t.Helper()
	l, err := Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown = %v", err)
			}
			if err := <-done; err != ErrServerClosed {
				t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
			}
		})
	}
	t.Cleanup(stop)
	return l.Addr(), stop
}

func dial(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func ask(t *testing.T, c net.Conn, line string) string {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatalf("write %q: %v", line, err)
	}
	got, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("answer to %q: %v", line, err)
	}
	return strings.TrimSuffix(got, "\n")
}

// closedByServer reports whether the server closes the connection without an answer.
func closedByServer(c net.Conn) bool {
	n, err := c.Read(make([]byte, 1))
	return n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestStreamEcho(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		t.Run(address, func(t *testing.T) {
			clients := make(chan netip.Addr, 1)
			s := &StreamServer{Handler: func(ctx context.Context, c *Conn) { clients <- c.Client(); echo(ctx, c) }}
			addr, _ := start(t, s, address)
			if got := ask(t, dial(t, addr), "hello"); got != "hello" {
				t.Errorf("answer %q, want hello", got)
			}
			client := <-clients
			if isUnix := addr.Network() == "unix"; client.IsValid() == isUnix || !isUnix && !client.IsLoopback() {
				t.Errorf("client %v on %v", client, addr)
			}
		})
	}
}

func TestStreamStaleSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if _, err := Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("the socket of a live server: %v", err)
	}
	l.Close()
	l2, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatalf("stale socket not replaced: %v", err)
	}
	l2.Close()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+file); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a plain file where a socket shall be: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("plain file now %q, %v", b, err)
	}
}

func TestStreamCaps(t *testing.T) {
	tests := []struct {
		name   string
		server StreamServer
		admits int
	}{
		{"total", StreamServer{MaxConns: 3}, 3},
		{"per client", StreamServer{MaxConnsPerClient: 2}, 2},
		{"per client beats total", StreamServer{MaxConns: 3, MaxConnsPerClient: 1}, 1},
		{"connection rate", StreamServer{ConnRate: Rate{PerSecond: 1e-6, Burst: 4}}, 4},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			s := &tt.server
			// A client that has been answered is still at work, so no connection gives way.
			work := make(chan struct{})
			s.Handler = func(_ context.Context, c *Conn) {
				if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					io.WriteString(c, line)
				}
				<-work
			}
			addr, _ := start(t, s, "127.0.0.1:0")
			t.Cleanup(func() { close(work) })
			for range tt.admits {
				if got := ask(t, dial(t, addr), "x"); got != "x" {
					t.Fatalf("answer %q, want x", got)
				}
			}
			if !closedByServer(dial(t, addr)) {
				t.Errorf("connection %d was admitted", tt.admits+1)
			}
			if got := s.Stats.Refused.Load(); got != 1 {
				t.Errorf("Stats.Refused = %d, want 1", got)
			}
			if accepted, evicted := s.Stats.Accepted.Load(), s.Stats.Evicted.Load(); accepted != int64(tt.admits) ||
				evicted != 0 {
				t.Errorf("%d accepted, %d gave way; want %d, none", accepted, evicted, tt.admits)
			}
		})
	}
}

func TestStreamCapIsGivenBack(t *testing.T) {
	s := &StreamServer{MaxConns: 1, Handler: echo}
	addr, _ := start(t, s, "127.0.0.1:0")
	for range 20 {
		c := dial(t, addr)
		if got := ask(t, c, "x"); got != "x" {
			t.Fatalf("answer %q", got)
		}
		c.Close()
		await.True(t, "the connection is closed", func() bool { return s.Stats.Open.Load() == 0 })
	}
}

func TestStreamRequestRate(t *testing.T) {
	s := &StreamServer{Handler: echo, RequestRate: Rate{PerSecond: 1e-6, Burst: 2}}
	addr, _ := start(t, s, "127.0.0.1:0")
	c := dial(t, addr)
	for i, want := range []string{"x", "x", "limited"} {
		if got := ask(t, c, "x"); got != want {
			t.Errorf("answer %d = %q, want %q", i, got, want)
		}
	}
	exempt := &StreamServer{Handler: echo, RequestRate: Rate{PerSecond: 1e-6}, Exempt: Loopback()}
	addr, _ = start(t, exempt, "127.0.0.1:0")
	c = dial(t, addr)
	for range 5 {
		if got := ask(t, c, "x"); got != "x" {
			t.Errorf("exempt client: answer %q", got)
		}
	}
}

func TestStreamSlowClient(t *testing.T) {
	s := &StreamServer{Handler: echo, RequestTime: 50 * time.Millisecond}
	addr, _ := start(t, s, "127.0.0.1:0")
	c := dial(t, addr)
	// A byte now and then does not extend the time of a request.
	go func() {
		for range 100 {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if !closedByServer(c) {
		t.Error("the server waits for a request longer than RequestTime")
	}
}

func TestStreamReaderThatNeverReads(t *testing.T) {
	ended := make(chan error, 1)
	s := &StreamServer{WriteTime: 50 * time.Millisecond, Handler: func(_ context.Context, c *Conn) {
		for {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	}}
	addr, _ := start(t, s, "127.0.0.1:0")
	dial(t, addr)
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write to a client that never reads: %v, want a timeout", err)
	}
}

func TestStreamPanic(t *testing.T) {
	s := &StreamServer{Handler: echo}
	addr, _ := start(t, s, "127.0.0.1:0")
	bystander := dial(t, addr)
	if got := ask(t, bystander, "x"); got != "x" {
		t.Fatalf("answer %q", got)
	}
	c := dial(t, addr)
	if _, err := io.WriteString(c, "panic\n"); err != nil {
		t.Fatal(err)
	}
	if !closedByServer(c) {
		t.Error("connection survived its handler's panic")
	}
	if got := ask(t, bystander, "y"); got != "y" {
		t.Errorf("bystander got %q", got)
	}
	if got := s.Stats.Panics.Load(); got != 1 {
		t.Errorf("Stats.Panics = %d, want 1", got)
	}
}

func TestStreamDrain(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := &StreamServer{Handler: func(ctx context.Context, c *Conn) {
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			return
		}
		if c.Draining() {
			t.Error("draining before the drain")
		}
		close(entered)
		<-leave
		if err := ctx.Err(); err != nil {
			t.Errorf("handler's context ended before the drain: %v", err)
		}
		if c.Await(); !c.Draining() {
			t.Error("the handler is not told of the drain")
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read while draining: %v, want a timeout", err)
		}
		io.WriteString(c, "done\n")
	}}
	addr, stop := start(t, s, "127.0.0.1:0")
	idle, busy := dial(t, addr), dial(t, addr)
	io.WriteString(busy, "work\n")
	<-entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	if !closedByServer(idle) {
		t.Error("idle connection kept open by a drain")
	}
	select {
	case <-stopped:
		t.Error("Serve returned while a request was in work")
	default:
	}
	close(leave)
	if got, err := bufio.NewReader(busy).ReadString('\n'); err != nil || got != "done\n" {
		t.Errorf("answer of the request in work: %q, %v", got, err)
	}
	<-stopped
	if _, err := net.Dial("tcp", addr.String()); err == nil {
		t.Error("still accepts after Serve returned")
	}
}

// TestStreamShutdownCutsOff: requests that are not done when the context of Shutdown ends are cut
// off, and Serve waits for their handlers.
func TestStreamShutdownCutsOff(t *testing.T) {
	entered := make(chan struct{})
	s := &StreamServer{Handler: func(ctx context.Context, c *Conn) {
		close(entered)
		<-ctx.Done() // never answers by itself
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c := dial(t, l.Addr())
	<-entered
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v, want the error of its context", err)
	}
	if !closedByServer(c) {
		t.Error("the connection is open still")
	}
	if err := <-done; err != ErrServerClosed {
		t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
	}
	if err := s.Shutdown(over); err != nil {
		t.Errorf("another Shutdown = %v, want nil: nothing is left", err)
	}
}

func TestStreamServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := (&StreamServer{Handler: echo}).Serve(l); !errors.Is(err, net.ErrClosed) || errors.Is(err, ErrServerClosed) {
		t.Errorf("Serve on a closed listener = %v", err)
	}
}

// TestStreamListeners: a server serves several listeners under common caps; one
// that fails takes its own connections along, and no others.
func TestStreamListeners(t *testing.T) {
	s := &StreamServer{Handler: echo, MaxConns: 2}
	addr, _ := start(t, s, "127.0.0.1:0")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	first, second := dial(t, addr), dial(t, l.Addr())
	for _, c := range []net.Conn{first, second} {
		if got := ask(t, c, "x"); got != "x" {
			t.Fatalf("answer %q", got)
		}
	}
	if !closedByServer(dial(t, addr)) {
		t.Error("the cap holds for each listener alone")
	}
	l.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) || errors.Is(err, ErrServerClosed) {
		t.Errorf("Serve of the listener that failed = %v", err)
	}
	if !closedByServer(second) {
		t.Error("the connection of a listener that failed is open still")
	}
	if got := ask(t, first, "y"); got != "y" {
		t.Errorf("answer %q", got)
	}
}

// TestServeAfterShutdown: a closed server serves nothing, and closes the listeners that it is
// given.
func TestServeAfterShutdown(t *testing.T) {
	s, p := &StreamServer{Handler: echo}, &PacketServer{}
	p.Handler = p.Each(echoPacket)
	for _, shutdown := range []func(context.Context) error{s.Shutdown, p.Shutdown, s.Shutdown, p.Shutdown} {
		if err := shutdown(t.Context()); err != nil {
			t.Fatalf("Shutdown = %v", err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != ErrServerClosed {
		t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error("the listener is open still")
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ServePacket(pc); err != ErrServerClosed {
		t.Errorf("ServePacket = %v, want %v", err, ErrServerClosed)
	}
	if err := pc.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error("the socket is open still")
	}
}

// A played listener accepts what a test says, one after the other, nil for a
// passing failure, and then waits for its Close.
type played struct {
	conns   []net.Conn
	asked   []time.Time // for each of conns
	last    net.Conn    // accepted at the moment of Close
	closing sync.Once
	closed  chan struct{}
}

func play(conns ...net.Conn) *played { return &played{conns: conns, closed: make(chan struct{})} }

func (l *played) Accept() (net.Conn, error) {
	if n := len(l.asked); n < len(l.conns) {
		l.asked = append(l.asked, time.Now())
		if l.conns[n] != nil {
			return l.conns[n], nil
		}
		return nil, syscall.EMFILE
	}
	<-l.closed
	if c := l.last; c != nil {
		l.last = nil
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *played) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

func (l *played) Addr() net.Addr { return &net.TCPAddr{} }

// TestStreamAcceptFails: a server without descriptors tries again, after pauses that
// double up to a second and are short again once a connection came.
func TestStreamAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		l := play(append(append(make([]net.Conn, 10), there), make([]net.Conn, 3)...)...)
		s := &StreamServer{Handler: echo, RequestTime: time.Hour}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		bubble.Advance(time.Minute)
		if got := ask(t, here, "x"); got != "x" {
			t.Errorf("answer %q", got)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != ErrServerClosed {
			t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
		}
		const ms = time.Millisecond
		want := []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second,
			time.Second, 0, 5 * ms, 10 * ms}
		var got []time.Duration
		for i, at := range l.asked[1:] {
			got = append(got, at.Sub(l.asked[i]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("pauses %v, want %v", got, want)
		}
	})
}

// TestStreamShutdownInPause: Shutdown does not wait for the pause after a failure.
func TestStreamShutdownInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(make([]net.Conn, 1000)...)
		s := &StreamServer{Handler: echo}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		bubble.Advance(10500 * time.Millisecond)
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != ErrServerClosed || time.Since(began) != 0 {
			t.Errorf("Serve = %v after %v", err, time.Since(began))
		}
	})
}

// TestStreamAcceptedLate: a connection that arrives as the server ends is closed and not handled.
func TestStreamAcceptedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		l := play()
		l.last = there
		s := &StreamServer{MaxConns: 1, Handler: func(context.Context, *Conn) { t.Error("handled") }}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != ErrServerClosed {
			t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
		}
		if !closedByServer(here) {
			t.Error("the connection is open")
		}
		if s.Stats.Refused.Load() != 1 || s.Stats.Accepted.Load() != 0 || s.Stats.Open.Load() != 0 {
			t.Errorf("%d refused, %d accepted, %d open", s.Stats.Refused.Load(), s.Stats.Accepted.Load(), s.Stats.Open.Load())
		}
	})
}

// gone is a listener whose Accept reports that it is closed before it is closed.
type gone struct {
	*played
}

func (gone) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// TestStreamClosesListener: a listener that failed is closed.
func TestStreamClosesListener(t *testing.T) {
	l := gone{play()}
	if err := (&StreamServer{Handler: echo}).Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve = %v", err)
	}
	select {
	case <-l.closed:
	default:
		t.Error("the listener is open still")
	}
}
