package door

import (
	"io"
	"net"
	"sync"
	"time"
)

// The limits of a [Refuser].
const (
	refusalTime  = time.Second
	refusalBytes = 64 << 10
	maxRefusals  = 64 // connections at once; more are closed without an answer
)

// A Refuser closes connections that a server has no room for. The client gets an answer first, and the
// connection stays open for up to a second until the client has sent its request and closed it: to
// close a connection with unread bytes resets it, and the client may lose the answer. The zero Refuser
// sends no answer. Set the field before the first use. Its methods may be called concurrently.
type Refuser struct {
	Answer []byte

	mu      sync.Mutex
	open    int
	closing sync.WaitGroup
}

// Refuse answers conn and closes it, without blocking.
func (r *Refuser) Refuse(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= maxRefusals {
		conn.Close()
		return
	}
	r.open++
	r.closing.Go(func() {
		linger(conn, r.Answer)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open--
	})
}

// Wait returns when all refused connections are closed, about a second after the last Refuse.
func (r *Refuser) Wait() { r.closing.Wait() }

// linger sends an answer and waits until the client has closed the connection.
func linger(conn net.Conn, answer []byte) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	if _, err := conn.Write(answer); err != nil {
		return
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, refusalBytes)
}
