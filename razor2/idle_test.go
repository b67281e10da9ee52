package razor2

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// A single is a listener with one connection.
type single struct {
	conn   chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *single) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*single) Addr() net.Addr { return &net.TCPAddr{} }

// TestIdle checks that a connection may be kept for as long as a request comes before RequestTime is over, and is
// closed then.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		l := &single{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conn <- there
		s := &Server{Clearinghouse: &prototest.House{}, RequestTime: time.Minute}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		in := bufio.NewScanner(here)
		if !in.Scan() {
			t.Fatalf("no greeting: %v", in.Err())
		}
		for n := range 3 {
			bubble.Advance(time.Minute - time.Second)
			if _, err := here.Write([]byte("a=nothing\r\n")); err != nil {
				t.Fatalf("request %d: %v", n, err)
			}
			if !in.Scan() {
				t.Fatalf("request %d is not answered: %v", n, in.Err())
			}
		}
		bubble.Advance(time.Minute)
		synctest.Wait()
		if in.Scan() || in.Err() != nil {
			t.Errorf("an idle connection stays open: %q, %v", in.Text(), in.Err())
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, door.ErrServerClosed) {
			t.Errorf("Serve = %v", err)
		}
	})
}
