//go:build unix

package doors

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many files the process may have open, 0 if that is unknown.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
