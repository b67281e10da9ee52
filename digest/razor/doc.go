// Package razor computes the signatures that Razor 2 clients compute for a mail,
// bit for bit: engine 4, of the text of each MIME part, and engine 8, of the hosts
// that its links lead to.
//
// Source: docs/specs/razor2.md#splitting-a-mail to #engine-8. The package was written from that
// description and compared with razor-agents 2.84.
//
//	sigs, err := razor.Signatures(ctx, raw)
//	verdict, err := house.Check(ctx, bulkhead.Query{Signatures: sigs})
package razor
