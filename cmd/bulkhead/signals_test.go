package main

import (
	"runtime"
	"syscall"
	"testing"
)

// TestStopIsNotLost checks that a node can be stopped even if reload signals keep arriving while it
// starts or reads its configuration.
func TestStopIsNotLost(t *testing.T) {
	stop, reload, done := listenSignals()
	defer done()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGHUP, syscall.SIGTERM} {
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		if sig == syscall.SIGHUP {
			for len(reload) == 0 { // until it has arrived
				runtime.Gosched()
			}
		}
	}
	if sig := <-stop; sig != syscall.SIGTERM {
		t.Errorf("stopped by %v", sig)
	}
	if sig := <-reload; sig != syscall.SIGHUP {
		t.Errorf("reloaded by %v", sig)
	}
}
