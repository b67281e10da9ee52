package load

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// dialLocal connects to a loopback address or a unix socket.
func dialLocal(network, address string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return net.Dial("unix", path)
	}
	if err := LoopbackOnly(address); err != nil {
		return nil, err
	}
	return net.Dial(network, address)
}

// ProcessorTime returns the processor time that a process has used; 0 if it is unknown.
func ProcessorTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// After the name in parentheses come the fields from the third on.
	_, rest, _ := strings.Cut(string(stat), ") ")
	var state string
	var skip int64
	var user, system int64
	if _, err := fmt.Sscan(rest, &state, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user,
		&system); err != nil {
		return 0
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(user+system) * tick
}
