package natsdial

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence makes the system end a connection whose sent bytes are not acknowledged.
func limitSilence(_, _ string, c syscall.RawConn) error {
	// Without the option, unanswered pings end the connection later.
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	})
}
