//go:build linux && (amd64 || arm64 || riscv64 || ppc64le || loong64)

package store

import (
	"os"
	"syscall"
)

const fadvDontNeed = 4 // POSIX_FADV_DONTNEED

// dropCache is a hint to the system, so its error does not matter.
func dropCache(f *os.File) {
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, fadvDontNeed, 0, 0)
}
