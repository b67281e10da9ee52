package pages

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// A Sum identifies a page of a checkpoint without its content. If the file is damaged, a page with
// the same sum is accepted from any source. For an array with a floor, it is the sum of the part of
// the page that others see.
type Sum struct {
	Version uint64 // of the page
	Index   uint64 // of the last journal entry that is in the page
	// Hash is the SHA-256 of the encoded page without its index and checksum. Replicas of the page
	// have the same hash.
	Hash [sha256.Size]byte
}

const (
	versionAt = 24 // in filter's encoding of a page: its version, followed by its index
	indexAt   = 32
	indexEnd  = 40
	sumBytes  = 16 + sha256.Size
)

// SumOf returns the sum of a page.
func SumOf(m *arrays.Image) Sum { return sumOf(m.Append(nil)) }

func sumOf(page []byte) (s Sum) {
	s.Version = binary.LittleEndian.Uint64(page[versionAt:])
	s.Index = binary.LittleEndian.Uint64(page[indexAt:])
	h := sha256.New()
	h.Write(page[:indexAt])
	h.Write(page[indexEnd:sumAt])
	h.Write(page[pageHead:])
	h.Sum(s.Hash[:0])
	return s
}

// shownSum returns the sum of the part of an own page that others see, which is all that replicas have. page is the
// encoding of m.
func shownSum(m *arrays.Image, page []byte) Sum {
	if m.Floor() == 0 {
		return sumOf(page)
	}
	s := SumOf(m.Above())
	s.Index = m.Info.Index
	return s
}

// Is reports whether s and o are sums of the same page, regardless of the journal index.
func (s *Sum) Is(o *Sum) bool { return s.Version == o.Version && s.Hash == o.Hash }

// Append appends the encoding of s to b: version and index, 8 bytes each, little-endian, and
// the hash.
func (s *Sum) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.Version)
	b = binary.LittleEndian.AppendUint64(b, s.Index)
	return append(b, s.Hash[:]...)
}

// ReadSum reads a sum that Append wrote from the start of b, and returns the remaining bytes. ok is
// false if b is too short.
func ReadSum(b []byte) (s Sum, rest []byte, ok bool) {
	if len(b) < sumBytes {
		return s, nil, false
	}
	s.Version, s.Index = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	copy(s.Hash[:], b[16:])
	return s, b[sumBytes:], true
}

// Summed returns two functions. The first writes an array as the function of [Writer] does. The
// second writes the sums of the pages that the first has written.
func Summed(array Array, between func(func())) (write, sums func(io.Writer) error) {
	var table []byte
	write = func(w io.Writer) error {
		table = table[:0]
		return writePages(array, between, w, func(m *arrays.Image, page []byte) {
			s := shownSum(m, page)
			table = s.Append(table)
		})
	}
	sums = func(w io.Writer) error {
		if len(table) != array.Geometry().Pages()*sumBytes {
			return fmt.Errorf("pages: sums of an array before its pages are written")
		}
		_, err := w.Write(table)
		return err
	}
	return write, sums
}

// ParseSums reads the sums of an array with the given number of pages.
func ParseSums(b []byte, pages int) ([]Sum, error) {
	if len(b)%sumBytes != 0 || len(b)/sumBytes != pages {
		return nil, fmt.Errorf("pages: sums of %d bytes, want those of %d pages", len(b), pages)
	}
	out := make([]Sum, pages)
	for i := range out {
		out[i], b, _ = ReadSum(b)
	}
	return out, nil
}
