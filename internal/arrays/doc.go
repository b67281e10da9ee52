// Package arrays holds the counting and bit arrays of a node: blocked Bloom filters that are written
// by one goroutine while any number of others read, and that are copied page by page. [Sliced] finds
// those of many arrays that have a key. Rounds and images carry the content of an array to replicas.
//
// Package filter shows programs outside of this module the part of [Counting] and [Bits] that needs
// no journal and no peers.
package arrays

import (
	"errors"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// The shape of an array, and what selects a line in it.
type (
	Geometry = shape.Geometry
	Kind     = shape.Kind
	Key      = shape.Key
	Stats    = shape.Stats
)

// Copies of constants of package shape.
const (
	Cells     = shape.Cells
	Bitmap    = shape.Bitmap
	LineBytes = shape.LineBytes
	PageLines = shape.PageLines
	PageBytes = shape.PageBytes

	lineWords = LineBytes / 8
	lineCells = shape.LineCells
	lineBits  = shape.LineBits
	maxCells  = 8 // largest K of a counting array
	pageCells = PageLines * lineCells
)

// The errors of this package. Each returned error names the value and the limit that it broke, and
// wraps one of these.
var (
	// ErrGeometry means that a geometry is not valid, or that two differ that must be equal.
	ErrGeometry = shape.ErrGeometry
	// ErrCorrupt means that bytes are not a valid encoding, or are incomplete.
	ErrCorrupt = codec.ErrCorrupt
	// ErrTooLarge means that an array is larger than the caller allowed.
	ErrTooLarge = codec.ErrTooLarge
	// ErrVersion means that a round does not start from the version that is held, or that a page
	// belongs to a different page number or generation.
	ErrVersion = errors.New("filter: wrong version")
)

// line returns the line of a key, evenly spread over 0 to lines-1 without a modulo (and without its
// bias).
func line(hi, lines uint64) uint64 {
	l, _ := bits.Mul64(hi, lines)
	return l
}
