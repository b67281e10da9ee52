// Package pyzor computes the digest that the Pyzor client computes for a message, bit
// for bit, including what Python's MIME, HTML and charset libraries do to it: one
// SHA-1 hash of a few lines of the text.
//
// Source: docs/specs/pyzor.md#digest. The package was compared with pyzor 1.0.0 on Python 3.11,
// as in Debian 12.
//
//	sigs, err := pyzor.Signatures(ctx, raw)
//	verdict, err := house.Check(ctx, bulkhead.Query{Signatures: sigs})
package pyzor
