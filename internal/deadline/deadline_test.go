package deadline

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestSet checks that a read ends at its time or with its context, and that the end of the context does
// not affect the next exchange.
func TestSet(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	read := func(ctx context.Context, wait time.Duration) error {
		release, err := Set(ctx, ours, time.Now().Add(wait))
		if err != nil {
			return err
		}
		defer release()
		_, err = ours.Read(make([]byte, 1))
		return Cause(ctx, err)
	}
	if err := read(t.Context(), time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the time: %v", err)
	}
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := read(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Fatalf("at the end of the context: %v", err)
		}
		go theirs.Write([]byte{1})
		if err := read(t.Context(), time.Minute); err != nil {
			t.Fatalf("the next exchange: %v", err)
		}
	}
	ours.Close()
	if err := read(t.Context(), time.Minute); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed: %v", err)
	}
}
