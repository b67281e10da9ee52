// Package dcc computes the checksums that DCC clients compute for a message, bit for bit: the
// checksums of the header and the envelope, Body, Fuz1 and Fuz2.
//
// Source: docs/specs/dcc.md#checksums. The package was written from that description and compared
// with dccproc 1.3.158.
//
//	sums, err := dcc.Sums(ctx, raw, dcc.Options{})
//	sig, err := sums[0].Signature()
package dcc
