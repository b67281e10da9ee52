package node

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

// takeOver applies a configuration as SIGHUP does.
func takeOver(t *testing.T, s *Node, text string) {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	do, err := s.prepare(config.Reloaded(s.cfg.Load(), cfg))
	if err == nil {
		err = do()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTakeOverLimits lowers and lifts the rate of a client while a front door is open: the rate
// must also hold for that door.
func TestTakeOverLimits(t *testing.T) {
	s, addresses := startWith(t, config.Default(), "policy")
	// answers returns how many of ten requests on one connection are answered.
	answers := func() (n int) {
		t.Helper()
		c, err := net.Dial("tcp", addresses["policy"])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for r := bufio.NewReader(c); n < 10; n++ {
			if _, err := io.WriteString(c, "request=smtpd_access_policy\nsender=a@example.com\n\n"); err != nil {
				return n
			}
			if _, err := r.ReadString('\n'); err != nil {
				return n
			}
			if _, err := r.ReadString('\n'); err != nil {
				return n
			}
		}
		return n
	}
	for _, step := range []struct {
		text string
		want int
	}{
		{"[limits]\nlimit_loopback = true\nrequests_per_second = 1e-6\nburst = 3\n", 3},
		{"[limits]\nlimit_loopback = true\nrequests_per_second = 1e-6\nburst = 3\n", 0}, // the same: nothing is restored
		{"[limits]\nlimit_loopback = true\nrequests_per_second = 1e-6\nburst = 5\n", 5},
		{"[limits]\nlimit_loopback = false\nrequests_per_second = 1e-6\nburst = 1\n", 10},
		{"[limits]\nlimit_loopback = true\nrequests_per_second = 0\n", 10},
	} {
		takeOver(t, s, step.text)
		if got := answers(); got != step.want {
			t.Errorf("%q: %d of 10 requests were answered, want %d", step.text, got, step.want)
		}
	}
}

// buildList makes a list of one name, evil.example, in a folder and returns its path.
func buildList(t *testing.T, dir string) string {
	t.Helper()
	text, list := filepath.Join(dir, "names.txt"), filepath.Join(dir, "bad.list")
	if err := os.WriteFile(text, []byte("evil.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lists.Build(t.Context(), list, []string{text}, lists.Options{}); err != nil {
		t.Fatal(err)
	}
	return list
}
