//go:build !linux

package natsdial

import "syscall"

// limitSilence does nothing: unanswered pings end a dead connection.
func limitSilence(_, _ string, _ syscall.RawConn) error { return nil }
