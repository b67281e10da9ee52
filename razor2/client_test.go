package razor2_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// TestSilentServer: a server that never greets holds a client no longer than its context.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, and no server answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := razor2.Dial(ctx, l.Addr().String(), nil)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial = %v, want a timeout", err)
		}
	case <-time.After(time.Minute):
		t.Error("Dial waits on")
	}
}

// TestClientTimeout: a server that greets and then answers nothing holds a request no longer than the time in the
// options. A greeting without the field sn, and one of another protocol, is refused.
func TestClientTimeout(t *testing.T) {
	for greeting, refused := range map[string]bool{"sn=C&srl=6\r\n": false, "srl=6\r\n": true, "220 mx ESMTP\r\n": true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, greeting)
				_, _ = io.Copy(io.Discard, conn) // until the client leaves
				conn.Close()
			}
		}()
		var c *razor2.Client
		await.True(t, "a greeting within the time of the options", func() bool {
			c, err = razor2.Dial(t.Context(), l.Addr().String(), &razor2.Options{Timeout: 200 * time.Millisecond})
			return !errors.Is(err, os.ErrDeadlineExceeded)
		})
		if (err != nil) != refused {
			t.Errorf("greeting %q: %v", greeting, err)
		}
		if err != nil {
			continue
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), razor2.Values{{Key: "a", Value: "g"}})
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Do = %v, want a timeout", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Do waits for the default time")
		}
		c.Close()
	}
}
