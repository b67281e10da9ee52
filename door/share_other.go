//go:build !linux

package door

import "syscall"

// canSharePort is false where SO_REUSEPORT does not spread clients.
const canSharePort = false

func sharePort(_, _ string, _ syscall.RawConn) error { return nil }
