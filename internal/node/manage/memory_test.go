//go:build !race

// The race detector's own memory has no owner.

package manage

import (
	"runtime"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// TestMemoryOf checks that the owners together have at least nine tenths of the resident memory, and that
// what an owner has is not counted among other objects.
func TestMemoryOf(t *testing.T) {
	const size = 64 << 20
	array := make([]byte, size)
	for i := range array {
		array[i] = 1
	}
	objects := func(m *admin.Memory) uint64 {
		for _, o := range m.Owners {
			if o.Name == "objects" {
				return o.Bytes
			}
		}
		t.Fatalf("no objects: %+v", m)
		return 0
	}
	m, other := memoryOf([]admin.MemoryOwner{{Name: "tally", Bytes: size}}), memoryOf(nil)
	if m == nil || other == nil {
		t.Skip("this system does not tell")
	}
	sum := uint64(0)
	for _, o := range m.Owners {
		sum += o.Bytes
	}
	if m.Resident < size || sum < m.Resident/10*9 {
		t.Errorf("%d bytes are resident, owners have %d: %+v", m.Resident, sum, m.Owners)
	}
	if unowned := objects(other) - objects(m); unowned < size/8*7 || unowned > size/8*9 {
		t.Errorf("without its owner, an array of %d bytes is %d bytes of other objects", size, unowned)
	}
	runtime.KeepAlive(array)
}
