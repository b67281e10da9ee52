package main

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestCappedListener opens more connections than allowed: the last one is
// accepted only after another has been closed.
func TestCappedListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newCappedListener(inner, 2)
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	defer second.Close()
	select {
	case <-accepted:
		t.Error("a third connection was accepted while two are open")
	case <-time.After(20 * time.Millisecond): // nothing to wait for: it must not happen
	}
	first.Close()
	first.Close() // must give back no second place
	third := <-accepted
	defer third.Close()
	if n := len(l.free); n != 0 {
		t.Errorf("%d places are free, want none", n)
	}
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
	}
}
