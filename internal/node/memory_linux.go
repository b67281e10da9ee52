package node

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory returns the memory available to this process, in bytes: the machine's memory, or
// the least limit of its control groups; 0 if unknown.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	memory := uint64(info.Totalram) * uint64(info.Unit)
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return memory
	}
	return min(memory, groupMemory("/sys/fs/cgroup", string(groups)))
}

// groupMemory returns the least memory.max of a control group of version 2 and its ancestors,
// math.MaxUint64 for none. groups is the content of /proc/self/cgroup, root the mount point of the
// groups. In a container its own group is often mounted as the root.
func groupMemory(root, groups string) uint64 {
	least := uint64(math.MaxUint64)
	for line := range strings.Lines(groups) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			text, err := os.ReadFile(path.Join(root, dir, "memory.max"))
			if n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 {
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}
