package prototest

import (
	"net"
	"sync"
)

// Pipe returns a connection in memory, which a simulated clock may time, and the listener that accepts its other end.
func Pipe() (client net.Conn, l net.Listener) {
	here, there := net.Pipe()
	p := &piped{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	p.conn <- there
	return here, p
}

// A piped is a listener with one connection.
type piped struct {
	conn   chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *piped) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*piped) Addr() net.Addr { return &net.TCPAddr{} }
