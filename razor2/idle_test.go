package razor2

import (
	"bufio"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestIdle checks that a connection may be kept for as long as a request comes before RequestTime is over, and is
// closed then.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, l := prototest.Pipe()
		defer here.Close()
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
