package huge

import (
	"syscall"
	"testing"
	"unsafe"
)

// TestPopulate checks that exactly the pages of some memory are allocated, and that they keep their content.
func TestPopulate(t *testing.T) {
	page := syscall.Getpagesize()
	const pages = 1200 // more than a huge page
	raw, err := syscall.Mmap(-1, 0, (pages+2)*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(raw)
	all := unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), len(raw)/8)
	words := page / 8
	resident := func() (n int) {
		t.Helper()
		in := make([]byte, pages+2)
		if _, _, err := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)),
			uintptr(unsafe.Pointer(&in[0]))); err != 0 {
			t.Fatal(err)
		}
		for _, b := range in {
			n += int(b & 1)
		}
		return n
	}
	if n := resident(); n != 0 {
		t.Fatalf("%d pages are resident before", n)
	}
	Populate(nil)
	all[2*words+3] = 7
	Populate(all[words+1 : (pages+1)*words-1])
	if n := resident(); n != pages {
		t.Errorf("%d pages are resident, want %d", n, pages)
	}
	if all[2*words+3] != 7 {
		t.Error("the content has changed")
	}
	store(all)
	if n := resident(); n != pages+2 {
		t.Errorf("%d pages are resident after stores, want %d", n, pages+2)
	}
}
