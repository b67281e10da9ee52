package door

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// TestWatch checks that a context ends soon after the client has gone, that what the client sends
// meanwhile is not lost, and that a client that stays changes nothing.
func TestWatch(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = t.TempDir() + "/s"
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		causes, read := make(chan error, 2), make(chan string, 2)
		s := &StreamServer{Handler: func(ctx context.Context, c *Conn) {
			b := make([]byte, 4)
			if _, err := io.ReadFull(c, b); err != nil {
				t.Error(err)
			}
			watched, stop := c.Watch(ctx)
			if string(b) == "stay" {
				io.WriteString(c, "look")
				if _, err := io.ReadFull(c, b); err != nil {
					t.Error(err)
				}
				read <- string(b)
				causes <- context.Cause(watched)
				stop()
				return
			}
			<-watched.Done()
			causes <- context.Cause(watched)
			stop()
		}}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		dial := func(word string) net.Conn {
			c, err := new(net.Dialer).DialContext(t.Context(), network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(c, word); err != nil {
				t.Fatal(err)
			}
			return c
		}
		dial("gone").Close()
		if err := <-causes; err != ErrClientGone {
			t.Errorf("%s: the context of a client that is gone ended by %v", network, err)
		}
		c := dial("stay")
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "more")
		if got, err := <-read, <-causes; got != "more" || err != nil {
			t.Errorf("%s: a client that stays: %q, %v", network, got, err)
		}
		c.Close()
		s.Shutdown(t.Context())
		<-served
	}
}
