package door

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
)

// TestRun: Run serves until its context ends, and ends everything when one part
// fails.
func TestRun(t *testing.T) {
	serve := func(t *testing.T) (*StreamServer, []net.Listener, []func() error) {
		s := &StreamServer{Handler: echo}
		var listeners []net.Listener
		var all []func() error
		for range 2 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listeners = append(listeners, l)
			all = append(all, func() error { return s.Serve(l) })
		}
		return s, listeners, all
	}
	t.Run("until its context ends", func(t *testing.T) {
		s, listeners, all := serve(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, s, all...) }()
		for _, l := range listeners {
			if got := ask(t, dial(t, l.Addr()), "x"); got != "x" {
				t.Errorf("answer %q", got)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if s.Stats.Open.Load() != 0 {
			t.Error("connections are open after Run")
		}
	})
	t.Run("until one fails", func(t *testing.T) {
		s, listeners, all := serve(t)
		c := dial(t, listeners[1].Addr())
		listeners[0].Close()
		if err := Run(t.Context(), s, all...); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Run = %v, want the error of the listener", err)
		}
		if !closedByServer(c) {
			t.Error("the other listener is served still")
		}
	})
}

// TestWork: work runs while at least one server is served, and is not begun twice.
func TestWork(t *testing.T) {
	var w Work
	var begun, ended atomic.Int64
	begin := func() func() {
		begun.Add(1)
		return func() { ended.Add(1) }
	}
	want := errors.New("served")
	err := w.During(begin, func() error {
		if err := w.During(begin, func() error { return want }); err != want {
			t.Errorf("During = %v, want %v", err, want)
		}
		if begun.Load() != 1 || ended.Load() != 0 {
			t.Errorf("begun %d, ended %d within", begun.Load(), ended.Load())
		}
		return want
	})
	if err != want || begun.Load() != 1 || ended.Load() != 1 {
		t.Errorf("During = %v; begun %d, ended %d", err, begun.Load(), ended.Load())
	}
	w.During(begin, func() error { return nil })
	if begun.Load() != 2 || ended.Load() != 2 {
		t.Errorf("again: begun %d, ended %d", begun.Load(), ended.Load())
	}
}

// TestShutdownBoth: both parts end, and a part that is not done in time is
// reported.
func TestShutdownBoth(t *testing.T) {
	stream, packets := &StreamServer{Handler: echo}, &PacketServer{}
	addr, _ := start(t, stream, "127.0.0.1:0")
	port, _ := startPackets(t, packets, "127.0.0.1:0", 1)
	if got := ask(t, dial(t, addr), "x") + askUDP(t, dialUDP(t, "127.0.0.1", port), "y"); got != "xy" {
		t.Errorf("answers %q", got)
	}
	if err := ShutdownBoth(t.Context(), packets, stream); err != nil {
		t.Errorf("ShutdownBoth = %v", err)
	}
	if !stream.closed() || !packets.closed() {
		t.Error("one of both goes on")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, busy := range []string{"stream", "packets"} {
		work := make(chan struct{})
		begun := make(chan struct{}, 1)
		stream, packets := &StreamServer{Handler: echo}, &PacketServer{}
		if busy == "stream" {
			stream.Handler = func(context.Context, *Conn) { begun <- struct{}{}; <-work }
		} else {
			packets.Handler = func(context.Context, []*Packet) { begun <- struct{}{}; <-work }
		}
		addr, _ := start(t, stream, "127.0.0.1:0")
		port, _ := startPackets(t, packets, "127.0.0.1:0", 1)
		dial(t, addr)
		if _, err := dialUDP(t, "127.0.0.1", port).Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-begun
		if err := ShutdownBoth(over, packets, stream); !errors.Is(err, context.Canceled) {
			t.Errorf("%s at work: ShutdownBoth = %v", busy, err)
		}
		close(work)
	}
}
