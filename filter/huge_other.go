//go:build !linux

package filter

// adviseHuge does nothing on systems whose way of asking is not wired up.
func adviseHuge([]uint64) {}
