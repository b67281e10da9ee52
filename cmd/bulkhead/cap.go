package main

import (
	"net"
	"sync"
)

// A cappedListener accepts no further connection while so many are open; those
// that wait do so in the kernel's queue.
type cappedListener struct {
	net.Listener
	free   chan struct{} // one element for each connection that may be opened
	closed chan struct{}
	once   sync.Once
}

func newCappedListener(l net.Listener, limit int) *cappedListener {
	c := &cappedListener{Listener: l, free: make(chan struct{}, limit), closed: make(chan struct{})}
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
	conn, err := c.Listener.Accept()
	if err != nil {
		c.free <- struct{}{}
		return nil, err
	}
	return &cappedConn{Conn: conn, release: func() { c.free <- struct{}{} }}, nil
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
