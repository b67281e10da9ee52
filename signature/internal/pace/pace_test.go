package pace

import (
	"context"
	"errors"
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
