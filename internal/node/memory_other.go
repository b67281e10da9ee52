//go:build !linux

package node

// machineMemory returns the memory of the machine in bytes; 0 if unknown.
func machineMemory() uint64 { return 0 }
