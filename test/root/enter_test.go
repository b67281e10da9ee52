//go:build interop

package root

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestAlone: inside the root there is no network but the loopback, and nothing of
// the machine outside can be written.
func TestAlone(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil || len(all) != 1 || all[0].Flags&net.FlagLoopback == 0 || all[0].Flags&net.FlagUp == 0 {
		t.Errorf("network interfaces %v, %v; want a loopback that is up, and no other", all, err)
	}
	for _, path := range []string{"/src/new", "/programs/new", "/etc/new", "/usr/bin/new"} {
		if err := os.WriteFile(path, nil, 0o600); !errors.Is(err, syscall.EROFS) {
			t.Errorf("writing %s: %v, want %v", path, err, syscall.EROFS)
		}
	}
	if os.Getpid() > 100 {
		t.Errorf("process %d: not in a space of its own", os.Getpid())
	}
}
