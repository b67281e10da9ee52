package nodetest

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Wire is a TCP proxy that counts bytes, and can be made slow or cut.
type Wire struct {
	Up, Down atomic.Int64 // bytes to and from the server
	Delay    atomic.Int64 // longest delay of bytes, in nanoseconds
	Rate     atomic.Int64 // bytes a second in each direction; 0: no limit. It holds for new connections

	l     net.Listener
	to    string
	cut   atomic.Bool
	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// NewWire returns a wire to an address. It ends with the test.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{l: l, to: to, conns: make(map[net.Conn]bool)}
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		l.Close()
		w.Partition(true)
		w.wg.Wait()
	})
	return w
}

// Address returns where the wire begins.
func (w *Wire) Address() string { return w.l.Addr().String() }

// Sever ends all present connections.
func (w *Wire) Sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

// Partition ends all connections if cut is true, and accepts none until it is called with
// false.
func (w *Wire) Partition(cut bool) {
	w.cut.Store(cut)
	if cut {
		w.Sever()
	}
}

func (w *Wire) accept() {
	for {
		c, err := w.l.Accept()
		if err != nil {
			return
		}
		if w.cut.Load() {
			c.Close()
			continue
		}
		d, err := net.Dial("tcp", w.to)
		if err != nil {
			c.Close()
			continue
		}
		if !w.add(c, d) {
			continue
		}
		w.wg.Go(func() { w.pump(d, c, &w.Up) })
		w.wg.Go(func() { w.pump(c, d, &w.Down) })
	}
}

// add notes the two ends of a connection. If the wire was cut while they were made, it closes them and returns false.
func (w *Wire) add(c, d net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut.Load() {
		c.Close()
		d.Close()
		return false
	}
	w.conns[c], w.conns[d] = true, true
	return true
}

func (w *Wire) pump(to, from net.Conn, n *atomic.Int64) {
	if rate := w.Rate.Load(); rate > 0 {
		throttle(to, from, n, rate)
	} else {
		io.Copy(slow{to, &w.Delay}, io.TeeReader(from, counter{n}))
	}
	to.Close()
	from.Close()
}

// throttle copies at a rate, with small buffers on both sides.
func throttle(to, from net.Conn, n *atomic.Int64, rate int64) {
	for _, c := range []net.Conn{to, from} {
		if t, ok := c.(*net.TCPConn); ok {
			t.SetReadBuffer(4 << 10)
			t.SetWriteBuffer(4 << 10)
		}
	}
	const parts = 10 // of a second
	b := make([]byte, max(1, rate/parts))
	for {
		m, err := from.Read(b)
		if _, werr := to.Write(b[:m]); werr != nil || err != nil {
			return
		}
		n.Add(int64(m))
		<-time.After(time.Duration(m) * time.Second / time.Duration(rate))
	}
}

// slow delays what is written.
type slow struct {
	net.Conn
	delay *atomic.Int64
}

func (s slow) Write(p []byte) (int, error) {
	if d := s.delay.Load(); d > 0 {
		<-time.After(time.Duration(rand.Int64N(d)))
	}
	return s.Conn.Write(p)
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
