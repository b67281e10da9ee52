// Package disktest models what a disk has of a file after the power was cut, for tests
// of what must survive that.
package disktest

import "math/rand/v2"

// Sector is how many bytes a disk writes whole or not at all.
const Sector = 512

// A File is what a disk has of a file, and what was written since it was last synced.
// The zero File is empty.
type File struct {
	disk    []byte
	pending []write
}

// A write is a write, or with nil data a truncation.
type write struct {
	offset int64
	data   []byte
}

// NewFile returns a file of which the disk has b.
func NewFile(b []byte) *File { return &File{disk: b} }

// WriteAt notes a write. It keeps no reference to b.
func (f *File) WriteAt(b []byte, offset int64) {
	f.pending = append(f.pending, write{offset, append([]byte{}, b...)})
}

// Truncate notes a change of the size.
func (f *File) Truncate(size int64) { f.pending = append(f.pending, write{offset: size}) }

// Sync makes durable what was written.
func (f *File) Sync() {
	for _, w := range f.pending {
		f.disk = w.apply(f.disk)
	}
	f.pending = nil
}

// Forget is what Linux does after a sync that failed: what was written counts as clean,
// and does not reach the disk with the next sync.
func (f *File) Forget() { f.pending = nil }

// Unsynced reports whether anything was written since the last sync.
func (f *File) Unsynced() bool { return len(f.pending) > 0 }

// Lose returns what the disk has when the power is cut: what was synced, and of the
// later writes nothing, all, or any sectors.
func (f *File) Lose(rng *rand.Rand) []byte {
	b := append([]byte(nil), f.disk...)
	mode := rng.IntN(3)
	for _, w := range f.pending {
		for start := 0; mode > 0; {
			end := len(w.data)
			if mode == 2 {
				end = min(start+Sector-int(w.offset+int64(start))%Sector, end)
			}
			if mode == 1 || rng.IntN(2) == 0 {
				part := write{offset: w.offset + int64(start)}
				if w.data != nil {
					part.data = w.data[start:end]
				}
				b = part.apply(b)
			}
			if start = end; start >= len(w.data) {
				break
			}
		}
	}
	return b
}

// apply returns b after w, changed in place as far as possible.
func (w write) apply(b []byte) []byte {
	end := int(w.offset) + len(w.data)
	if grow := end - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if w.data == nil {
		return b[:w.offset]
	}
	copy(b[w.offset:], w.data)
	return b
}
