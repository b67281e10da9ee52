package door

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// canSharePort is set if several sockets may receive on one port, and each client is always served by the
// same one.
const canSharePort = true

func sharePort(_, _ string, c syscall.RawConn) error {
	var optErr error
	err := c.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, optErr)
}
