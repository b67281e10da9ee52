// Package huge asks the system for huge pages.
package huge

import (
	"syscall"
	"unsafe"
)

// hugePage is the usual size of huge pages on Linux; on systems with other sizes the advice has no
// effect.
const hugePage = 2 << 20

// Advise asks for huge pages behind memory that will be read at random. Otherwise an array larger
// than the caches needs a walk of the page tables with each line, which under virtualisation costs
// up to a third of a batched call. It is advice: nothing depends on whether the kernel follows it.
func Advise(memory []uint64) {
	if len(memory)*8 < hugePage {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	end := start + uintptr(len(memory))*8
	start, end = start&^(hugePage-1), (end+hugePage-1)&^(hugePage-1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_HUGEPAGE)
}
