package razor2_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

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
