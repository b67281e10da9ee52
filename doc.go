// Package bulkhead is the vocabulary of a self-hosted collaborative spam
// clearinghouse: what a signature, a report and a verdict are, the errors with
// which a request is refused, and the one interface, [Clearinghouse], that
// every front door asks.
//
// The package imports nothing of the project. Protocol packages see these
// types and never the filters or the storage behind them; the engine sees
// these types and never a wire format.
//
//	sig, err := bulkhead.NewSignature(bulkhead.PyzorDigest, sum)
//	verdict, err := house.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
//	if verdict.Spam() { ... }
package bulkhead
