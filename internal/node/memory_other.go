//go:build !linux

package node

// machineMemory returns the memory of the machine, bytes; 0 if it is not known.
func machineMemory() uint64 { return 0 }
