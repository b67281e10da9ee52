package local

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerOf returns the effective user and group of the process at the other end of a unix socket: of a
// client as it connected, of a server as it began to listen.
func PeerOf(c *net.UnixConn) (uid, gid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctl != nil {
		return 0, 0, ctl
	}
	if err != nil {
		return 0, 0, err
	}
	return cred.Uid, cred.Gid, nil
}
