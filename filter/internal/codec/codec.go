// Package codec reads and writes what the filters have in common on disk and on
// the wire: streams of bits, lists of cells, and the numbers of a stored filter
// under a header, a checksum and a limit of memory.
package codec

import "errors"

// MaxValue is the largest value of a cell.
const MaxValue = 1<<24 - 1

var (
	// ErrCorrupt: bytes are not a valid encoding, or not all there.
	ErrCorrupt = errors.New("filter: corrupt encoding")
	// ErrTooLarge: an array is larger than the caller allowed.
	ErrTooLarge = errors.New("filter: array over limit")
)
