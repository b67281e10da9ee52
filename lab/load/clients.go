package load

import (
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
	// The clock of a process has no name but this number; see clock_getcpuclockid(3).
	const scheduled = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil {
		return 0
	}
	return time.Duration(used.Nano())
}
