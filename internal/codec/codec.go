// Package codec reads and writes the common elements of stored and transmitted filters: streams of
// bits, lists of cells, and the numbers of a stored filter under a header, a checksum and a memory
// limit.
package codec

import "errors"

// MaxValue is the largest value of a cell.
const MaxValue = 1<<24 - 1

var (
	// ErrCorrupt means that bytes are not a valid encoding, or are incomplete.
	ErrCorrupt = errors.New("filter: corrupt encoding")
	// ErrTooLarge means that an array is larger than the caller allowed.
	ErrTooLarge = errors.New("filter: array over limit")
)
