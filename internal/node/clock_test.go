//go:build !simclock

package node

import (
	"net/http"
	"path/filepath"
	"testing"
)

// TestClockStands checks that the clock of a released program cannot be moved.
func TestClockStands(t *testing.T) {
	n, _ := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data")})
	resp, err := http.Post(address(t, n, "http")+"/v1/clock?advance=24h", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("POST /v1/clock = %s, want 404", resp.Status)
	}
}
