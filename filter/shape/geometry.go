package shape

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dchest/siphash"
)

// ErrGeometry means that a geometry is not valid, or that two differ that must be equal.
var ErrGeometry = errors.New("filter: wrong geometry")

// A Kind is what a line of an array consists of.
type Kind uint8

// The kinds of arrays.
const (
	Cells  Kind = iota + 1 // 128 counting cells of 4 bits per line, see filter.Counting
	Bitmap                 // 512 bits per line, see filter.Bits
)

// String returns "cells", "bits" or "invalid".
func (k Kind) String() string {
	switch k {
	case Cells:
		return "cells"
	case Bitmap:
		return "bits"
	}
	return "invalid"
}

// The shape of arrays.
const (
	LineBytes = 64                    // bytes in a line: one cache line
	PageLines = 1024                  // lines in a page
	PageBytes = LineBytes * PageLines // bytes in a page: 64 KiB
	MaxLines  = 1 << 30               // largest number of lines: 64 GiB

	LineCells = 128 // 4-bit cells per line
	LineBits  = 512 // bits per line
)

// A Geometry is everything on which two arrays must agree to be merged. It is comparable.
type Geometry struct {
	// Kind is what a line consists of.
	Kind Kind
	// Lines is the number of 64-byte lines: 1 to 1024, which make one page, or a multiple of 1024
	// up to MaxLines.
	Lines uint64
	// K is the number of cells per key (Cells: 2 to 8) or of bits (Bitmap: 8, one in each 64-bit
	// word of the line, or 16, one in each half word).
	K uint8
	// KeyID is filter.Secret.ID of the network whose keys the array holds.
	KeyID uint64
}

// Validate returns nil, or an error that wraps [ErrGeometry] and names the first field out of
// range.
func (g Geometry) Validate() error {
	switch g.Kind {
	case Cells:
		if g.K < 2 || g.K > 8 {
			return fmt.Errorf("%w: k = %d cells per key, want 2 to 8", ErrGeometry, g.K)
		}
	case Bitmap:
		if g.K != 8 && g.K != 16 {
			return fmt.Errorf("%w: k = %d bits per key, want 8 or 16", ErrGeometry, g.K)
		}
	default:
		return fmt.Errorf("%w: kind %d, want %d (cells) or %d (bits)", ErrGeometry, g.Kind, Cells, Bitmap)
	}
	switch {
	case g.Lines == 0 || g.Lines > MaxLines:
		return fmt.Errorf("%w: %d lines, want 1 to %d", ErrGeometry, g.Lines, MaxLines)
	case g.Lines > PageLines && g.Lines%PageLines != 0:
		return fmt.Errorf("%w: %d lines, want a multiple of %d above one page", ErrGeometry, g.Lines, PageLines)
	}
	return nil
}

// Pages returns the number of pages of an array of geometry g.
func (g Geometry) Pages() int { return int((g.Lines + PageLines - 1) / PageLines) }

// Bytes returns the memory of the lines of an array of geometry g, in bytes. Overflow tables take
// additional memory.
func (g Geometry) Bytes() uint64 { return g.Lines * LineBytes }

// ID returns a fingerprint of all fields of g. It is part of every encoded page, so that a page of
// a different array is refused.
func (g Geometry) ID() uint64 {
	var b [32]byte
	copy(b[:], "bkhgeo\x01")
	b[7] = byte(g.Kind)
	binary.LittleEndian.PutUint64(b[8:], g.Lines)
	binary.LittleEndian.PutUint64(b[16:], uint64(g.K))
	binary.LittleEndian.PutUint64(b[24:], g.KeyID)
	return siphash.Hash(0, 0, b[:])
}

// String returns, for example, "cells, 1024 lines of 64 bytes, k=6, key 1f...".
func (g Geometry) String() string {
	return fmt.Sprintf("%s, %d lines of %d bytes, k=%d, key %016x", g.Kind, g.Lines, LineBytes, g.K, g.KeyID)
}

// LinesInPage returns the number of lines of every page of an array of g.
func (g Geometry) LinesInPage() int { return int(min(g.Lines, PageLines)) }

// Slots returns the number of cells or bits of one page of g.
func (g Geometry) Slots() int {
	if g.Kind == Cells {
		return g.LinesInPage() * LineCells
	}
	return g.LinesInPage() * LineBits
}

// Stats is the state of an array at one moment.
type Stats struct {
	// Keys is the number of adds that found their key absent.
	Keys uint64
	// Fill is the share of cells or bits that are not zero, 0 to 1. For arrays above 64 MiB it is
	// measured on 1,024 evenly spread pages.
	Fill float64
	// Overflow is the number of cells of 15 or more, whose values are in overflow tables; 0 in bit
	// arrays.
	Overflow int
	// Bytes is the total memory of the array: lines, page states and overflow tables.
	Bytes uint64
	// Effective is the number of keys that produce the present fill. Unlike Keys it also holds
	// after merges.
	Effective float64
	// Ghost is the probability that a key that was never added is seen, at the present fill.
	Ghost float64
	// CountWrong is the expected share of keys whose count is too high, for counts of the default
	// tail; 0 in bit arrays.
	CountWrong float64
	// BulkWrong is the probability that a key that was never added has a count of DefaultThreshold
	// or more, for counts of the default tail; 0 in bit arrays.
	BulkWrong float64
}
