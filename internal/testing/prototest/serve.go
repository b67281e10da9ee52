package prototest

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
)

// ServePackets runs a server on the datagram sockets of an address, see
// [door.ListenPackets], until the test ends, and returns their address. The test fails if
// serving returns an error.
func ServePackets(t testing.TB, address string, readers int, s PacketServer) net.Addr {
	t.Helper()
	conns, err := door.ListenPackets(t.Context(), address, readers)
	if err != nil {
		t.Fatal(err)
	}
	var serve []func() error
	for _, c := range conns {
		serve = append(serve, func() error { return s.ServePacket(c) })
	}
	untilTheEnd(t, s, serve...)
	return conns[0].LocalAddr()
}

// ServeStream is ServePackets for connections, see [door.Listen].
func ServeStream(t testing.TB, address string, s StreamServer) net.Addr {
	t.Helper()
	l, err := door.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	untilTheEnd(t, s, func() error { return s.Serve(l) })
	return l.Addr()
}

// A PacketServer is a front door for datagrams.
type PacketServer interface {
	ServePacket(net.PacketConn) error
	shutter
}

// A StreamServer is a front door for connections.
type StreamServer interface {
	Serve(net.Listener) error
	shutter
}

type shutter interface {
	Shutdown(context.Context) error
}

func untilTheEnd(t testing.TB, s shutter, serve ...func() error) {
	// The test's own context ends before its clean-ups, in which clients may still need
	// answers.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- door.Run(ctx, s, serve...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
}

// EachFamily serves on an IPv6 address, and then on all addresses of both families, and asks
// at each. On a system without IPv6 the test is skipped.
func EachFamily(t *testing.T, serve func(t *testing.T, address string) net.Addr,
	ask func(t *testing.T, address string)) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("no IPv6: %v", err)
	} else {
		l.Close()
	}
	for _, tt := range []struct{ bind, host string }{{"[::1]:0", "::1"}, {":0", "::1"}, {":0", "127.0.0.1"}} {
		t.Run(tt.bind+" asked at "+tt.host, func(t *testing.T) {
			_, port, err := net.SplitHostPort(serve(t, tt.bind).String())
			if err != nil {
				t.Fatal(err)
			}
			ask(t, net.JoinHostPort(tt.host, port))
		})
	}
}

// Answers waits for the wanted number of datagrams over c, for at most a minute, and then until c
// falls silent. It returns the number of datagrams. Servers handle the datagrams of one loopback
// socket in order, so silence means that the others were dropped.
func Answers(c net.Conn, want int) (n int) {
	buf := make([]byte, 2048)
	for {
		wait := 300 * time.Millisecond
		if n < want {
			wait = time.Minute
		}
		c.SetReadDeadline(time.Now().Add(wait))
		if _, err := c.Read(buf); err != nil {
			return n
		}
		n++
	}
}

// Ask sends a request over a connection of its own, closes its side, and returns everything
// that the server sends before it hangs up.
func Ask(t testing.TB, server net.Addr, request []byte) (string, error) {
	t.Helper()
	c, err := net.Dial(server.Network(), server.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	c.Write(request) // the server may refuse the rest; its answer is read all the same
	c.(interface{ CloseWrite() error }).CloseWrite()
	reply, err := io.ReadAll(c)
	return string(reply), err
}
