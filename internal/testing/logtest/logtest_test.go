package logtest

import (
	"sync"
	"testing"
)

// TestLog writes a log from several goroutines, and checks that no line is lost or read twice.
func TestLog(t *testing.T) {
	var log Log
	var wg sync.WaitGroup
	taken := 0
	for range 4 {
		wg.Go(func() {
			for range 50 {
				log.Logger().Info("a line")
			}
		})
	}
	for range 10 {
		one := &Log{}
		one.Write([]byte(log.Take()))
		taken += one.Count("a line")
	}
	wg.Wait()
	if n := taken + log.Count("\n"); n != 200 || log.Has("another line") || log.Has("a line") != (taken < 200) {
		t.Errorf("%d lines, want 200; left: %s", n, log.String())
	}
	if log.Take(); log.String() != "" {
		t.Errorf("left: %s", log.String())
	}
}
