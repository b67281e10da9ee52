//go:build race

package mesh

import (
	"runtime"
	"testing"
)

// TestMain: where timers of a bubble fire on two processors at once, the race detector of Go 1.26
// crashes (golang.org/issue/78156).
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	m.Run()
}
