package node

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestCapPerClient counts clients as the limits do: an IPv6 /64 is one, and
// whoever is on this machine is none.
func TestCapPerClient(t *testing.T) {
	c := newCappedListener(nil, 10, 2)
	far, near := netip.MustParseAddr("192.0.2.1"), netip.Addr{}
	for i, want := range []bool{true, true, false, false} {
		if got := c.enter(far); got != want {
			t.Errorf("connection %d of one client: entered %v, want %v", i+1, got, want)
		}
		if !c.enter(near) {
			t.Errorf("connection %d from this machine was refused", i+1)
		}
	}
	c.leave(far)
	if !c.enter(far) {
		t.Error("a client that left cannot come back")
	}
	c.leave(far)
	c.leave(far)
	if len(c.clients) != 0 {
		t.Errorf("clients that have left are remembered: %v", c.clients)
	}
	for addr, want := range map[string]string{
		"127.0.0.1:9": "invalid IP", "[::1]:9": "invalid IP", "[::ffff:127.0.0.1]:9": "invalid IP",
		"192.0.2.1:9": "192.0.2.1", "[2001:db8::1:2:3:4]:9": "2001:db8::",
	} {
		if got := clientOf(remoteConn{addr: addr}).String(); got != want {
			t.Errorf("clientOf(%s) = %v, want %v", addr, got, want)
		}
	}
}

// A remoteConn is a connection with nothing but a remote address.
type remoteConn struct {
	net.Conn
	addr string
}

func (c remoteConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr))
}

// TestCappedListener opens more connections than allowed: the last one is
// accepted only after another has been closed.
func TestCappedListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newCappedListener(inner, 2, 1)
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	defer second.Close()
	select {
	case <-accepted:
		t.Error("a third connection was accepted while two are open")
	case <-time.After(20 * time.Millisecond): // nothing to wait for: it must not happen
	}
	first.Close()
	first.Close() // must give back no second place
	third := <-accepted
	defer third.Close()
	if n := len(l.free); n != 0 {
		t.Errorf("%d places are free, want none", n)
	}
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
	}
}
