package doors

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"github.com/bulkhead-mail/bulkhead/door"
)

// A cappedListener limits the open connections of an HTTP server: idle ones are closed in favour of
// new ones, see [door.Crowd]. Clients on this machine count as one.
type cappedListener struct {
	net.Listener
	crowd *door.Crowd
}

func newCappedListener(l net.Listener, limit, perClient int) cappedListener {
	return cappedListener{l, &door.Crowd{Max: limit, PerClient: perClient}}
}

// Accept implements [net.Listener].
func (l cappedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if place, _ := l.crowd.Enter(conn, clientOf(conn)); place != nil {
			return cappedConn{conn, place}, nil
		}
		conn.Close()
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

type cappedConn struct {
	net.Conn
	place *door.Place
}

// Close implements [net.Conn].
func (c cappedConn) Close() error {
	c.place.Leave()
	return c.Conn.Close()
}

// follow is the ConnState of a server behind a cappedListener. From the first byte of a request to
// its answer the connection keeps its place. The server's own timeouts bound the duration of a
// request.
func follow(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(cappedConn)
	switch {
	case !ok:
	case state == http.StateActive:
		c.place.Work()
	case state == http.StateIdle:
		c.place.Wait()
	}
}
