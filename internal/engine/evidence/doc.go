// Package evidence looks up keys in one walk over the generations of the node's own books, of the
// replicas of other servers, and of their merged arrays. Checks, inspections and the writer's
// decisions use it.
//
// A [Reader] looks up all keys of a message together, array by array, so that their cache misses
// overlap. The result for one key is a [Record]. This package knows where numbers are stored;
// package verdict knows what they mean.
//
// The writer sees the current batch through an [Overlay]: the additions of its decisions
// to the node's own arrays, read as if they were there.
package evidence
