package doors

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/door"
)

// overloaded is the answer to HTTP clients that the door has no place for.
const overloaded = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 5\r\n" +
	"Content-Length: 93\r\nConnection: close\r\n\r\n" +
	`{"title":"Service Unavailable","status":503,"detail":"too many connections: try again later"}`

// errGivenWay is the error of a connection that gave its place to another.
var errGivenWay = errors.New("doors: connection closed in favour of another")

// A cappedListener limits the open connections of an HTTP server: idle ones are closed in favour of
// new ones, see [door.Crowd]. Clients on this machine count as one. Connections without a place are
// answered before they are closed.
type cappedListener struct {
	net.Listener
	crowd   *door.Crowd
	refuser *door.Refuser
}

func newCappedListener(l net.Listener, limit, perClient int) cappedListener {
	return cappedListener{l, &door.Crowd{Max: limit, PerClient: perClient}, &door.Refuser{Answer: []byte(overloaded)}}
}

// Accept implements [net.Listener].
func (l cappedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.refuser.Wait()
			return nil, err
		}
		c := &cappedConn{Conn: conn}
		place, _ := l.crowd.Enter(&evicted{c, l.refuser}, clientOf(conn))
		if place != nil {
			c.place.Store(place)
			return c, nil
		}
		l.refuser.Refuse(conn)
	}
}

// clientOf returns the client that a connection counts for, the zero Addr for none.
func clientOf(conn net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || ap.Addr().Unmap().IsLoopback() {
		return netip.Addr{}
	}
	return ap.Addr()
}

// A cappedConn is a connection with a place in a crowd. The server does not see what arrives after it
// lost the place.
type cappedConn struct {
	net.Conn
	place atomic.Pointer[door.Place]
	gone  atomic.Bool
}

// Read implements [net.Conn].
func (c *cappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.gone.Load() {
		return 0, errGivenWay
	}
	return n, err
}

// Write implements [net.Conn].
func (c *cappedConn) Write(p []byte) (int, error) {
	if c.gone.Load() {
		return 0, errGivenWay
	}
	return c.Conn.Write(p)
}

// Close implements [net.Conn]. A connection that lost its place is closed by its refusal.
func (c *cappedConn) Close() error {
	if c.gone.Load() {
		return nil
	}
	c.place.Load().Leave()
	return c.Conn.Close()
}

// evicted closes a connection whose place another one takes, with an answer: its request may be on the
// way.
type evicted struct {
	conn    *cappedConn
	refuser *door.Refuser
}

// Close implements [io.Closer].
func (e *evicted) Close() error {
	if !e.conn.gone.Swap(true) {
		e.refuser.Refuse(e.conn.Conn)
	}
	return nil
}

// follow is the ConnState of a server behind a cappedListener. From the first byte of a request to
// its answer the connection keeps its place. The server's own timeouts bound the duration of a
// request.
func follow(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(*cappedConn)
	switch {
	case !ok:
	case state == http.StateActive:
		c.place.Load().Work()
	case state == http.StateIdle:
		c.place.Load().Wait()
	}
}
