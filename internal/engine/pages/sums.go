package pages

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// A Sum says what a page of a checkpoint is, without what it holds: whoever brings the same
// page back, if the file is damaged, is believed. Of a page of an array with a floor it is the sum
// of what the page shows to others.
type Sum struct {
	Version uint64 // of the page
	Index   uint64 // of the last journal entry that the page has seen
	// Hash is the SHA-256 of the encoded page, without its index and checksum: replicas of
	// the page have it, too.
	Hash [sha256.Size]byte
}

const (
	versionAt = 24 // in filter's encoding of a page: its version, and then its index
	indexAt   = 32
	indexEnd  = 40
	sumBytes  = 16 + sha256.Size
)

// SumOf returns the sum of a page.
func SumOf(m *filter.Image) Sum { return sumOf(m.Append(nil)) }

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

// shownSum is sumOf for what an own page shows to others, which is all that replicas have.
func shownSum(page []byte, g filter.Geometry) Sum {
	s := sumOf(page)
	if m, err := filter.ParseImage(page, g); err == nil && m.Floor() > 0 {
		index := s.Index
		s = SumOf(m.Above())
		s.Index = index
	}
	return s
}

// Is reports whether s and o are sums of the same page, whichever journals it has seen.
func (s *Sum) Is(o *Sum) bool { return s.Version == o.Version && s.Hash == o.Hash }

// Append appends the encoding of s to b: version and index, 8 bytes each, little-endian, and
// the hash.
func (s *Sum) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.Version)
	b = binary.LittleEndian.AppendUint64(b, s.Index)
	return append(b, s.Hash[:]...)
}

// ReadSum reads what Append wrote off the start of b. ok is false if b is too short.
func ReadSum(b []byte) (s Sum, rest []byte, ok bool) {
	if len(b) < sumBytes {
		return s, nil, false
	}
	s.Version, s.Index = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	copy(s.Hash[:], b[16:])
	return s, b[sumBytes:], true
}

// Summed returns functions that write an array, as that of [Writer] does, and the sums of its
// pages. The second writes those of the pages that the first has written.
func Summed(array Array, between func(func())) (write, sums func(io.Writer) error) {
	var table []byte
	write = func(w io.Writer) error {
		table = table[:0]
		return writePages(array, between, w, func(page []byte) {
			s := shownSum(page, array.Geometry())
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

// ParseSums reads the sums of an array of so many pages.
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
