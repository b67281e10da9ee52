package node

import "golang.org/x/sys/unix"

// machineMemory returns the memory of the machine, bytes; 0 if it is not known.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
