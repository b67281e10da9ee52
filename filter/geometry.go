package filter

import (
	"github.com/bulkhead-mail/bulkhead/filter/shape"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/codec"
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
)

// A Key is the 128-bit keyed hash of a signature, as [Secret.Key] returns it. In each array, all
// data about the signature lies in one cache line, which the field Hi selects; the field Lo selects
// the cells or bits inside that line.
//
// Its method With(kind uint8) returns the key of one kind of vote on the signature: the same line,
// but different cells. The counts of kinds are as independent as the counts of different
// signatures.
type Key = shape.Key

// A Kind is what a line of an array consists of.
type Kind = shape.Kind

// The kinds of arrays.
const (
	Cells  = shape.Cells  // 128 counting cells of 4 bits per line, see [Counting]
	Bitmap = shape.Bitmap // 512 bits per line, see [Bits]
)

// The shape of arrays.
const (
	LineBytes = shape.LineBytes // bytes in a line: one cache line
	PageLines = shape.PageLines // lines in a page
	MaxLines  = shape.MaxLines  // largest number of lines: 64 GiB
)

// Many is the largest count. It stands for "Many or more".
const Many = arrays.Many

// A Geometry is everything on which two arrays must agree to be merged: Kind, Lines, K, the number
// of cells or bits per key, and KeyID, which is [Secret.ID] of the network. It is comparable.
//
// Its methods GhostError, CountError and BulkError give the error rates of an array with a number
// of keys; Validate, Bytes, Pages and ID describe the array.
type Geometry = shape.Geometry

// Stats is the state of an array at one moment: keys, fill, memory and error rates.
type Stats = shape.Stats

// An ErrorKind identifies one of the errors of an array.
type ErrorKind = shape.ErrorKind

// The errors of an array.
const (
	// Ghost: a key that was never added is seen. It is the only error of bit arrays.
	Ghost = shape.Ghost
	// CountWrong: the count of a key that was added is too high. Counting arrays only.
	CountWrong = shape.CountWrong
	// BulkWrong: a key that was never added has a count at or above the threshold. Counting arrays
	// only. It is many orders of magnitude rarer than the others.
	BulkWrong = shape.BulkWrong
)

// The defaults of sizing.
const (
	DefaultThreshold = shape.DefaultThreshold // the count from which a message is bulk
	DefaultTail      = shape.DefaultTail      // see [Target]
	DefaultCells     = shape.DefaultCells     // the best K for count errors near 1e-3; see the package documentation
)

// A Target is the requirements for which an array is sized: its Kind, how many Signatures one
// generation holds, and the Error whose Rate is limited once all of them have been added. The other
// fields have defaults: the Threshold of BulkWrong, the Tail, which is the exponent a of the
// distribution of counts (a share c^-a of the keys is counted c times or more), and K, which is
// chosen. KeyID goes into the geometry; see [Secret.ID].
type Target = shape.Target

// SizeFor returns the smallest geometry that meets t. Its error wraps [ErrGeometry] and names the
// value that is out of range.
func SizeFor(t Target) (Geometry, error) { return shape.SizeFor(t) }
