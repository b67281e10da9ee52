package nodetest

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// Patience is how long the functions of this package wait for a process. Only a test that fails waits so long.
const Patience = 3 * time.Minute

// Address returns a loopback address with a free port.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}

// Await polls until ok returns true, and fails the test after [Patience].
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Settle(t, Patience, what, func() string {
		if ok() {
			return ""
		}
		return "not yet"
	})
}

// Settle polls until wrong returns "", for at most limit. Its last result is the failure of the
// test.
func Settle(t testing.TB, limit time.Duration, what string, wrong func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; {
		text := wrong()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, limit, text)
		}
		<-tick.C
	}
}

// AwaitTCP waits until a server takes connections.
func AwaitTCP(t testing.TB, address string) {
	t.Helper()
	Settle(t, Patience, "a server on "+address, func() string {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err.Error()
		}
		c.Close()
		return ""
	})
}
