package node

import (
	"net"
	"net/netip"
	"sync"

	"github.com/bulkhead-mail/bulkhead/door"
)

// A cappedListener accepts no further connection while so many are open: those
// that wait do so in the kernel's queue. Further connections of one client that
// has many are closed at once, so that no client can take all; clients on this
// machine may.
type cappedListener struct {
	net.Listener
	free      chan struct{} // one element for each connection that may be opened
	closed    chan struct{}
	once      sync.Once
	perClient int

	mu      sync.Mutex
	clients map[netip.Addr]int // open connections
}

func newCappedListener(l net.Listener, limit, perClient int) *cappedListener {
	c := &cappedListener{
		Listener: l, free: make(chan struct{}, limit), closed: make(chan struct{}),
		perClient: perClient, clients: make(map[netip.Addr]int),
	}
	for range limit {
		c.free <- struct{}{}
	}
	return c
}

// Accept implements [net.Listener].
func (c *cappedListener) Accept() (net.Conn, error) {
	select {
	case <-c.free:
	case <-c.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			c.free <- struct{}{}
			return nil, err
		}
		client := clientOf(conn)
		if !c.enter(client) {
			conn.Close()
			continue
		}
		return &cappedConn{Conn: conn, release: func() {
			c.leave(client)
			c.free <- struct{}{}
		}}, nil
	}
}

// clientOf returns whom a connection counts for, the zero Addr for nobody.
func clientOf(conn net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || ap.Addr().Unmap().IsLoopback() {
		return netip.Addr{}
	}
	return door.ClientOf(ap.Addr())
}

func (c *cappedListener) enter(client netip.Addr) bool {
	if !client.IsValid() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[client] >= c.perClient {
		return false
	}
	c.clients[client]++
	return true
}

func (c *cappedListener) leave(client netip.Addr) {
	if !client.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[client]--; c.clients[client] == 0 {
		delete(c.clients, client)
	}
}

// Close implements [net.Listener].
func (c *cappedListener) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

type cappedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close implements [net.Conn].
func (c *cappedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
