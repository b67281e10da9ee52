package pace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
)

func TestPace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := New(ctx)
	if p.Over(1) || p.Err() != nil {
		t.Fatal("over at once, although the context lasts")
	}
	cancel()
	done := 0
	for !p.Over(100) {
		if done += 100; done > Step {
			t.Fatalf("not over %d bytes after the context", done)
		}
	}
	if !errors.Is(p.Err(), context.Canceled) || !p.Over(0) || !p.Over(1) {
		t.Errorf("error %v, and work may go on: %t", p.Err(), !p.Over(0))
	}
}

func TestPaceLooksAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p := New(ctx); !p.Over(0) {
		t.Error("work begins under a context that has ended")
	}
}

func TestNilPace(t *testing.T) {
	if p := (*Pace)(nil); p.Over(1<<30) || p.Err() != nil {
		t.Error("a nil pace ends")
	}
}

// TestReader: what is read is what is there, and nothing more once the context has ended.
func TestReader(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), Step/4)
	if got, err := io.ReadAll(Reader(bytes.NewReader(data), nil)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := Reader(bytes.NewReader(data), New(ctx))
	buf := make([]byte, len(data))
	if n, err := r.Read(buf); err != nil || n == 0 || n > Step {
		t.Fatalf("first read: %d bytes, %v", n, err)
	}
	cancel()
	if n, err := io.ReadFull(r, buf); n > Step || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %d bytes, %v", n, err)
	}
}
