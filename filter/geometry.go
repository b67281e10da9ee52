package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead/filter/internal/codec"
)

// The errors of this package. Each returned error names the value and the limit that it broke, and
// wraps one of these.
var (
	// ErrGeometry means that a geometry is not valid, or that two differ that must be equal.
	ErrGeometry = errors.New("filter: wrong geometry")
	// ErrCorrupt means that bytes are not a valid encoding, or are incomplete.
	ErrCorrupt = codec.ErrCorrupt
	// ErrVersion means that a round does not start from the version that is held, or that a page
	// belongs to a different page number or generation.
	ErrVersion = errors.New("filter: wrong version")
	// ErrTooLarge means that an array is larger than the caller allowed.
	ErrTooLarge = codec.ErrTooLarge
)

// A Kind is what a line of an array consists of.
type Kind uint8

// The kinds of arrays.
const (
	Cells  Kind = iota + 1 // 128 counting cells of 4 bits per line, see [Counting]
	Bitmap                 // 512 bits per line, see [Bits]
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

	lineWords = LineBytes / 8
	lineCells = 128 // 4-bit cells per line
	lineBits  = 512 // bits per line
	maxCells  = 8   // largest K of a counting array
	pageCells = PageLines * lineCells
	pageBits  = PageLines * lineBits
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
	// KeyID is [Secret.ID] of the network whose keys the array holds.
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
// additional memory; see [Stats].
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

// pageLines returns the number of lines of every page of an array of g.
func (g Geometry) pageLines() int { return int(min(g.Lines, PageLines)) }

// slots returns the number of cells or bits of one page of g.
func (g Geometry) slots() int {
	if g.Kind == Cells {
		return g.pageLines() * lineCells
	}
	return g.pageLines() * lineBits
}

// line returns the line of a key, evenly spread over 0 to lines-1 without a modulo (and without its
// bias).
func line(hi, lines uint64) uint64 {
	l, _ := bits.Mul64(hi, lines)
	return l
}
