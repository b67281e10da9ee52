//go:build !linux

// Package huge asks the system for huge pages.
package huge

// Advise does nothing on systems whose way of asking is not wired up.
func Advise([]uint64) {}
