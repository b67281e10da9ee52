package huge

import (
	"runtime"
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

// populateWrite is MADV_POPULATE_WRITE of Linux 5.14. Source: madvise(2).
const populateWrite = 23

// Populate makes the system allocate and clear the pages of memory that is all zero. Page faults would do so at the
// first store to each page. But the garbage collector stops all goroutines in between, and waits for one in a page
// fault as long as that lasts: up to 0.7 s on a busy machine. It does not wait for a system call.
func Populate(memory []uint64) {
	page := uintptr(syscall.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	end := (start + uintptr(len(memory))*8 + page - 1) &^ (page - 1)
	start &^= page - 1
	for start < end {
		n := min(end-start, hugePage) // little at a time, because the call holds a lock of the address space
		switch _, _, err := syscall.Syscall(syscall.SYS_MADVISE, start, n, populateWrite); err {
		case 0:
			start += n
			runtime.Gosched() // else goroutines that became ready during the call wait for the next one as well
		case syscall.EINTR:
		default:
			store(memory)
			return
		}
	}
	runtime.KeepAlive(memory)
}
