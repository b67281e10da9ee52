// Package evidence reads what is known of keys: one walk over the generations of
// the node's own books, of the replicas of other servers, and of what was merged of
// them, for checks, for looks and for the decisions of the writer.
//
// A [Reader] looks all keys of a message up together, array by array, so that their
// cache misses overlap. What it finds of one key is a [Record]. It knows where
// numbers lie and what they are; what they mean is package verdict's business.
//
// The writer sees the present batch through an [Overlay]: what its decisions will
// add to the node's own arrays, read as if it were there.
package evidence
