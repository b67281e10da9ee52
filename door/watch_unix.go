//go:build unix

package door

import "syscall"

// isClosed reports whether the other side has closed a connection of which all bytes were read.
func isClosed(conn syscall.RawConn) (closed bool) {
	_ = conn.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err == syscall.ECONNRESET
		return true // looks once
	})
	return closed
}
