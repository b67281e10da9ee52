// Package dcc computes the checksums that DCC clients compute for a message, bit
// for bit: those of its header and envelope, Body, Fuz1 and Fuz2.
//
// Source: docs/specs/dcc.md#checksums. Written from that description; dccproc 1.3.158
// is the client it was compared with.
//
//	sums, err := dcc.Sums(ctx, raw, dcc.Options{})
//	sig, err := sums[0].Signature()
package dcc
