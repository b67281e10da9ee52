package manage

import (
	"runtime/metrics"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// The classes of memory that the Go runtime distinguishes, see package runtime/metrics.
const (
	totalMemory    = "/memory/classes/total:bytes"
	releasedMemory = "/memory/classes/heap/released:bytes"
	objectMemory   = "/memory/classes/heap/objects:bytes"
	unusedMemory   = "/memory/classes/heap/unused:bytes"
	freeMemory     = "/memory/classes/heap/free:bytes"
	stackMemory    = "/memory/classes/heap/stacks:bytes"
	threadMemory   = "/memory/classes/os-stacks:bytes"
)

// memoryOf describes the memory of the process. arrays are the owners of memory that the caller knows. It
// returns nil if the system cannot be asked.
func memoryOf(arrays []admin.MemoryOwner) *admin.Memory {
	resident, files, ok := residentMemory()
	if !ok {
		return nil
	}
	names := [...]string{totalMemory, releasedMemory, objectMemory, unusedMemory, freeMemory, stackMemory, threadMemory}
	samples := make([]metrics.Sample, len(names))
	for i := range samples {
		samples[i].Name = names[i]
	}
	metrics.Read(samples)
	of := make(map[string]uint64)
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			of[names[i]] = samples[i].Value.Uint64()
		}
	}
	owned := uint64(0)
	for _, a := range arrays {
		owned += a.Bytes
	}
	unused, stacks := of[unusedMemory]+of[freeMemory], of[stackMemory]+of[threadMemory]
	heap := of[objectMemory] + unused + stacks + of[releasedMemory]
	return &admin.Memory{Resident: resident, Owners: append(arrays,
		admin.MemoryOwner{Name: "objects", Bytes: of[objectMemory] - min(of[objectMemory], owned)},
		admin.MemoryOwner{Name: "unused", Bytes: unused},
		admin.MemoryOwner{Name: "stacks", Bytes: stacks},
		admin.MemoryOwner{Name: "runtime", Bytes: of[totalMemory] - min(of[totalMemory], heap)},
		admin.MemoryOwner{Name: "files", Bytes: files})}
}
