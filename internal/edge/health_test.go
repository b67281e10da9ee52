package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// TestDown checks which errors mean that an upstream is unusable.
func TestDown(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{&client.Problem{Status: 400}, false},
		{&client.Problem{Status: 401}, true},
		{&client.Problem{Status: 403}, false},
		{&client.Problem{Status: 429}, false},
		{&client.Problem{Status: 499}, false},
		{&client.Problem{Status: 500}, true},
		{&client.Problem{Status: 502}, true},
		{&client.Problem{Status: 503}, false},
		{errDial, true},
		{fmt.Errorf("%w: body", bulkhead.ErrMalformed), false},
		{fmt.Errorf("%w: too many", bulkhead.ErrOverLimit), false},
	} {
		if got := down(tt.err); got != tt.want {
			t.Errorf("%v: down %v, want %v", tt.err, got, tt.want)
		}
	}
}

// A station is an upstream whose state is asked for.
type station struct {
	Upstream
	mu    sync.Mutex
	err   error
	asked int
	meet  func() // called by each question; nil: nothing
}

func (s *station) Node(context.Context) (*admin.NodeState, error) {
	s.mu.Lock()
	s.asked++
	err, meet := s.err, s.meet
	s.mu.Unlock()
	if meet != nil {
		meet()
	}
	return new(admin.NodeState), err
}

// TestReady checks how often an edge asks for its readiness, and that the answer stands until then, whoever asks.
func TestReady(t *testing.T) {
	u, now := &station{err: errDial}, newClock()
	e := New(Options{Upstream: u, Timeout: time.Minute, Now: now.Now})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		wait  time.Duration
		err   error // of the node, from here on
		asked int
		ready bool
	}{
		{0, errDial, 1, false},
		{0, nil, 1, false},
		{readyFor - 1, nil, 1, false},
		{1, nil, 2, true},
		{readyFor - 1, errDial, 2, true},
		{-2 * readyFor, errDial, 3, false}, // a clock that was set back
	} {
		now.advance(tt.wait)
		u.err = tt.err
		err := e.Ready(gone)
		if u.asked != tt.asked || (err == nil) != tt.ready || e.Up() != tt.ready {
			t.Errorf("after %v: asked %d times, ready: %v, up: %v; want %d, %v", tt.wait, u.asked, err, e.Up(), tt.asked,
				tt.ready)
		}
		if err != nil && !errors.Is(err, errDial) {
			t.Errorf("the reason is %v", err)
		}
	}
}

// TestReadyAsks checks which nodes an edge asks for its readiness: one that is not known to be away, and all others at
// once if that one does not answer.
func TestReadyAsks(t *testing.T) {
	d := newDivided(t, Options{})
	var both sync.WaitGroup
	all := make(map[string]*station)
	d.o.Open = nil
	for i, name := range []string{"a", "b", "c"} {
		all[name] = new(station)
		target := d.target(name, all[name])
		target.health.note(0, []error{errDial, nil, nil}[i]) // a is known to be away
		d.routes.all = append(d.routes.all, target)
	}
	asked := func(a, b, c int) {
		t.Helper()
		d.clock.advance(readyFor)
		if err := d.Ready(t.Context()); err != nil || all["a"].asked != a || all["b"].asked != b || all["c"].asked != c {
			t.Errorf("asked %d, %d and %d times: %v; want %d, %d and %d", all["a"].asked, all["b"].asked, all["c"].asked, err,
				a, b, c)
		}
	}
	asked(0, 1, 0)
	all["b"].err, all["c"].err = errDial, errDial
	both.Add(2)
	meet := func() {
		both.Done()
		both.Wait() // for the other one
	}
	all["a"].meet, all["c"].meet = meet, meet
	asked(1, 2, 1)
}
