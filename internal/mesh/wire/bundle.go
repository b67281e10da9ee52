package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// A bundle carries the heads of many nodes from a hub to its members, in little endian:
//
//	version 1; v count; for each head: 8 bytes ID of the network, 8 bytes of the origin's key,
//	v length, the head. Length 0: the origin still publishes the head with the sum in the next 8 bytes
const bundleVersion = 1

// MaxBundle is the approximate size in bytes of one message with heads, which a link of 2 kB/s passes on in a quarter
// of a minute.
const MaxBundle = 32 << 10

// A HeadSum identifies the content of a head, without the number and time of the message.
type HeadSum [8]byte

// A BundledHead is one head of a bundle.
type BundledHead struct {
	Network uint64 // ID of the network's secret
	Origin  Hint
	Data    []byte  // the message; empty if the origin still publishes the head with the sum Still
	Still   HeadSum // zero if Data is not empty
}

// AppendBundle appends a message with the heads to b.
func AppendBundle(b []byte, heads []BundledHead) []byte {
	b = append(b, bundleVersion)
	b = binary.AppendUvarint(b, uint64(len(heads)))
	for _, h := range heads {
		b = binary.LittleEndian.AppendUint64(b, h.Network)
		b = append(b, h.Origin[:]...)
		b = AppendBytes(b, h.Data)
		if len(h.Data) == 0 {
			b = append(b, h.Still[:]...)
		}
	}
	return b
}

// ParseBundle reads the heads of a bundle; they point into b. The heads are not verified.
func ParseBundle(b []byte) ([]BundledHead, error) {
	if len(b) == 0 || b[0] != bundleVersion {
		return nil, fmt.Errorf("%w: bundle of heads of %d bytes", ErrNewer, len(b))
	}
	r := &reader{b: b[1:]}
	n := r.uvarint()
	const least = 8 + len(Hint{}) + 1 + 1 // a head of one byte
	if n > uint64(len(r.b)/least) {
		return nil, fmt.Errorf("%w: bundle of %d heads in %d bytes", errMessage, n, len(b))
	}
	out := make([]BundledHead, 0, n)
	for range n {
		var h BundledHead
		var network [8]byte
		copy(network[:], r.bytes(8))
		h.Network = binary.LittleEndian.Uint64(network[:])
		copy(h.Origin[:], r.bytes(uint64(len(h.Origin))))
		if h.Data = r.bytes(r.uvarint()); len(h.Data) == 0 {
			copy(h.Still[:], r.bytes(uint64(len(h.Still))))
		}
		out = append(out, h)
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// Content returns the stamp of a message, and the sum of everything in it but its number and time. ok is
// false for a malformed message.
func (e *Envelope) Content() (s Stamp, sum HeadSum, ok bool) {
	r := &reader{b: e.claim}
	s.Incarnation = r.sum(r.uvarint(), 0)
	s.Boot = r.sum(s.Incarnation, r.uvarint())
	s.Seq = r.uvarint()
	s.At = r.sum(s.Boot, r.uvarint())
	life := binary.LittleEndian.AppendUint64(nil, s.Incarnation)
	life = binary.LittleEndian.AppendUint64(life, s.Boot)
	all := sha256.Sum256(slices.Concat(life, e.sum[:], r.b))
	return s, HeadSum(all[:len(sum)]), r.err == nil
}
