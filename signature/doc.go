// Package signature turns a raw mail message into its signatures: the hashes
// by which servers that never exchange the text recognise the same message.
//
// [ReadMessage] reads RFC 5322 and MIME as found, not as specified: damage of
// any kind degrades the reading and is noted in [Message].Damage, it is never
// an error. [Compute] returns every signature that applies:
//
//   - bulkhead/exact, a hash of the canonical text of the body (exact.go);
//   - bulkhead/near, keyed MinHash bands of the body's skeleton (near.go);
//   - the schemes of other clearinghouses, each bit-exact with its own clients
//     and computed from the raw bytes.
//
// A body that is empty, tiny or made of nothing but a template (a greeting, a
// signature block, a disclaimer, the footer of a list) has no exact and no near
// signature, so that no report can list what half of all mail has in common.
//
// Headers and charsets are read with emersion/go-message; multipart bodies are
// cut here. Over the 15,063 messages of the maintainers' corpus the readers of
// go-message and of the standard library stop at malformed header lines,
// boundaries that are empty or missing, and damaged base64 (1 message in 260);
// jhillyerd/enmime survives them at a twentieth of the speed.
//
//	sigs, err := signature.Compute(raw, signature.Options{Key: networkKey})
//	verdict, err := house.Check(ctx, bulkhead.Query{Signatures: sigs})
package signature
