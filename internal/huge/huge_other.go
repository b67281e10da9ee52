//go:build !linux

package huge

// Advise does nothing on systems for which it is not implemented.
func Advise([]uint64) {}

// Populate makes the system allocate the pages of memory that is all zero.
func Populate(memory []uint64) { store(memory) }
