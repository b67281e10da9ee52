package store

import (
	"os"
	"syscall"
)

const fadvDontNeed = 4 // POSIX_FADV_DONTNEED

// syncData is fdatasync, which leaves out the time stamps.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// dropCache is a hint, so its error does not matter. The argument order is that
// of 64-bit systems; a 32-bit one would reject it.
func dropCache(f *os.File) {
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, fadvDontNeed, 0, 0)
}
