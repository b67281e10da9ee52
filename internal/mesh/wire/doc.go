// Package wire is the form of the messages that nodes exchange: their encoding, signatures, and the
// statements and lineages by which a node proves its past. All functions are pure. [Transport] is what
// has to carry the messages.
//
// A value read from bytes points into these bytes. Values are not safe for concurrent changes.
package wire
