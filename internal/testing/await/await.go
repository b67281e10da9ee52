// Package await lets tests wait for a condition in place of a fixed time.
package await

import (
	"testing"
	"time"
)

// Patience is how long [True] waits.
const Patience = time.Minute

// The pause between two polls starts at shortest, and doubles up to longest.
const (
	shortest = 10 * time.Microsecond
	longest  = 10 * time.Millisecond
)

// True polls until ok returns true, and fails the test after [Patience]. Only the goroutine of the
// test may call it.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Within(Patience, ok) {
		t.Fatalf("%s: not within %v", what, Patience)
	}
}

// Within polls until ok returns true, or until limit has passed. It calls ok at least once, and
// reports whether ok returned true.
func Within(limit time.Duration, ok func() bool) bool {
	for deadline, pause := time.Now().Add(limit), shortest; ; pause = min(2*pause, longest) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}
