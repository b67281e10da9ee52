package nodetest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFreePort checks that no two calls return one port, also in two processes that live at
// the same time. By chance 600 of 20,768 ports and another 600 would have some in common all
// but once in 3e7 times.
func TestFreePort(t *testing.T) {
	const most, tells = 600, "BULKHEAD_TEST_PORTS"
	mine := make(map[string]bool)
	for range most {
		port := FreePort(t)
		if port < firstPort || port >= firstPort+numPorts {
			t.Fatalf("port %d, want one from %d to %d", port, firstPort, firstPort+numPorts-1)
		}
		mine[fmt.Sprint(port)] = true
	}
	if len(mine) != most {
		t.Fatalf("%d of %d ports differ", len(mine), most)
	}
	if os.Getenv(tells) != "" {
		for port := range mine {
			fmt.Println("port", port)
		}
		return
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestFreePort$", "-test.count", "1")
	other.Env = append(os.Environ(), tells+"=1")
	out, err := other.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	theirs := 0
	for line := range strings.Lines(string(out)) {
		port, ok := strings.CutPrefix(strings.TrimSpace(line), "port ")
		if !ok {
			continue
		}
		theirs++
		if mine[port] {
			t.Errorf("both processes have port %s", port)
		}
	}
	if theirs != most {
		t.Errorf("the other process has %d ports, want %d", theirs, most)
	}
}
