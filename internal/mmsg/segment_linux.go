package mmsg

import (
	"encoding/binary"
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canSegment reports whether the kernel cuts datagrams of c into segments.
func canSegment(c *net.UDPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	can := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		can = err == nil
	})
	return can && err == nil
}

// appendSegment appends the control message with the size of the segments.
func appendSegment(control []byte, size int) []byte {
	n := len(control)
	control = append(control, make([]byte, unix.CmsgSpace(2))...)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[n]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(control[n+unix.CmsgLen(0):], uint16(size))
	return control
}

// unsegmented reports whether err means that the network card or driver does not segment.
func unsegmented(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.ENOPROTOOPT)
}
