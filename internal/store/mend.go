package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
)

// MendBit finds the one bit of b whose flip changes its CRC-32C to want, repairs it, and reports
// whether there is such a bit. sum is the CRC-32C of the summed bytes in their present state, which
// end with b. MendBit takes time linear in b.
//
// The Castagnoli polynomial distinguishes all errors of up to three bits in less than 2^31 bits
// (Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications", 2002), so two flipped bits
// are never mistaken for one. Unrelated bytes look like one flipped bit with a probability of their
// number of bits in 2^32, so repaired data must also be well-formed.
func MendBit(b []byte, sum, want uint32) bool {
	differs := sum ^ want
	if bits.OnesCount32(differs) == 1 {
		return true // a bit of the checksum itself
	}
	var effect [8]uint32 // of each bit of a byte on the checksum
	for i := range effect {
		effect[i] = castagnoli[1<<i]
	}
	for at := len(b) - 1; at >= 0; at-- {
		for i, e := range effect {
			if e == differs {
				b[at] ^= 1 << i
				return true
			}
			effect[i] = castagnoli[byte(e)] ^ e>>8
		}
	}
	return false
}

// mendRecord reads the record that should begin at offset, with at most one flipped bit in its head
// and one in its entry. ok is false if there is none. An error means that the disk cannot be read.
func mendRecord(r io.ReaderAt, offset, size int64, salt, index uint64) (rec record, ok bool, err error) {
	head := make([]byte, recordHead)
	if salt == 0 || size-offset < recordHead {
		return rec, false, nil
	}
	if _, err := r.ReadAt(head, offset); err != nil {
		return rec, false, err
	}
	if sum, want := crc32.Checksum(head[4:], castagnoli), binary.LittleEndian.Uint32(head); sum != want {
		if !MendBit(head[4:], sum, want) {
			return rec, false, nil
		}
		binary.LittleEndian.PutUint32(head, crc32.Checksum(head[4:], castagnoli))
	}
	rec, length, want, err := parseHead(head)
	if err != nil || rec.salt != salt || rec.index != index || offset+recordHead+int64(length) > size {
		return rec, false, nil
	}
	rec.data = make([]byte, length)
	if _, err := r.ReadAt(rec.data, offset+recordHead); err != nil {
		return rec, false, err
	}
	if sum := crc32.Checksum(rec.data, castagnoli); sum != want && !MendBit(rec.data, sum, want) {
		return rec, false, nil
	}
	return rec, true, nil
}

// mendManifest returns a manifest with at most one flipped bit repaired.
func mendManifest(file string, b []byte) (Manifest, bool) {
	head, body, ok := bytes.Cut(bytes.Clone(b), []byte("\n"))
	if !ok {
		return Manifest{}, false
	}
	var version, length int
	var want uint32
	if _, err := fmt.Sscanf(string(head), manifestMagic+" %d %08x %d", &version, &want, &length); err == nil &&
		length == len(body) {
		MendBit(body, crc32.Checksum(body, castagnoli), want) // without success, the first line differs by more
	}
	line := fmt.Sprintf("%s %d %08x %d", manifestMagic, manifestVersion, crc32.Checksum(body, castagnoli), len(body))
	if len(line) != len(head) {
		return Manifest{}, false
	}
	flipped := 0
	for i := range head {
		flipped += bits.OnesCount8(head[i] ^ line[i])
	}
	m, err := decodeManifest(file, append([]byte(line+"\n"), body...))
	return m, err == nil && flipped <= 1
}
