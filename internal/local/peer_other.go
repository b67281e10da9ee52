//go:build !linux

package local

import (
	"errors"
	"net"
)

// PeerOf fails: only Linux is asked for the process at the other end of a socket.
func PeerOf(*net.UnixConn) (uid, gid uint32, err error) { return 0, 0, errors.ErrUnsupported }
