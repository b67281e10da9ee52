package codec

import (
	"encoding/binary"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
)

// keyBytes is the encoded size of a key.
const keyBytes = 16

// AppendKey appends the encoding of a key to b.
func AppendKey(b []byte, k filter.Key) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.Hi)
	return binary.LittleEndian.AppendUint64(b, k.Lo)
}

// AppendBytes appends the length of data, as a varint, and data to b.
func AppendBytes(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

// A Decoder reads a binary body. After the first failed read, every read returns zero.
type Decoder struct {
	Left []byte // bytes that are not yet read
	Bad  bool   // a read has failed, or the caller has rejected a value
}

func (d *Decoder) fail() { d.Bad, d.Left = true, nil }

// Uvarint reads a varint.
func (d *Decoder) Uvarint() uint64 {
	x, n := binary.Uvarint(d.Left)
	if n <= 0 {
		d.fail()
	} else {
		d.Left = d.Left[n:]
	}
	return x
}

// Count reads a number of items, each of at least size bytes. It fails if fewer bytes follow, so
// allocating the items is safe.
func (d *Decoder) Count(size int) (n int) {
	x := d.Uvarint()
	if x > uint64(len(d.Left)/size) {
		d.fail()
		return n
	}
	return int(x)
}

// Bytes returns the next n bytes, or nil if there are fewer.
func (d *Decoder) Bytes(n uint64) []byte {
	if n > uint64(len(d.Left)) {
		d.fail()
		return nil
	}
	out := d.Left[:n:n]
	d.Left = d.Left[n:]
	return out
}

// Byte reads a byte.
func (d *Decoder) Byte() (x byte) {
	if b := d.Bytes(1); b != nil {
		x = b[0]
	}
	return x
}

// Uint64 reads eight bytes, little-endian.
func (d *Decoder) Uint64() (x uint64) {
	if b := d.Bytes(8); b != nil {
		x = binary.LittleEndian.Uint64(b)
	}
	return x
}

// Key reads a key.
func (d *Decoder) Key() filter.Key { return filter.Key{Hi: d.Uint64(), Lo: d.Uint64()} }

// Keys reads a number of keys, and the keys.
func (d *Decoder) Keys() []filter.Key {
	keys := make([]filter.Key, d.Count(keyBytes))
	for i := range keys {
		keys[i] = d.Key()
	}
	return keys
}

// Adds reads a number of adds, and the adds: a key and its increment each.
func (d *Decoder) Adds() resolve.Adds {
	size := d.Count(keyBytes + 1)
	a := resolve.Adds{Keys: make([]filter.Key, size), N: make([]uint32, size)}
	for i := range a.Keys {
		a.Keys[i] = d.Key()
		a.N[i] = d.Small(filter.Many)
	}
	return a
}

// Small reads a varint of at most limit.
func (d *Decoder) Small(limit uint64) uint32 {
	x := d.Uvarint()
	d.Bad = d.Bad || x > limit
	return uint32(x)
}
