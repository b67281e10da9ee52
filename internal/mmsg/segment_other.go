//go:build !linux

package mmsg

import "net"

func canSegment(*net.UDPConn) bool { return false }

func appendSegment(control []byte, _ int) []byte { return control }

func unsegmented(error) bool { return false }
