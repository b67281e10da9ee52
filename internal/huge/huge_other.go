//go:build !linux

// Package huge asks the system for huge pages.
package huge

// Advise does nothing on systems for which it is not implemented.
func Advise([]uint64) {}
