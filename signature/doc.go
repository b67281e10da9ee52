// Package signature turns a raw mail message into its signatures: the hashes
// by which servers that never exchange the text recognise the same message.
//
// [Compute] returns every signature that applies:
//
//   - bulkhead/exact, a hash of the canonical text of the body (exact.go);
//   - bulkhead/near, keyed MinHash bands of the body's skeleton (near.go);
//   - bulkhead/part and bulkhead/sketch, sampled runs of its words, which recognise it inside
//     other messages (part.go): docs/specs/facets.md;
//   - bulkhead/link, bulkhead/contact, bulkhead/attachment, bulkhead/image and bulkhead/markup,
//     of everything except the text: docs/specs/facets.md;
//   - bulkhead/claim, the name that From gives the sender (claim.go);
//   - the schemes of other clearinghouses, each bit-exact with its own clients:
//     packages digest/razor, digest/pyzor, digest/dcc and digest/rspamd.
//
// [Senders] returns the signatures of the sender, from what the caller has verified.
//
// A body that is empty, tiny or nothing but a template (a greeting, a signature
// block, a disclaimer, the footer of a list) has no exact and no near signature, so
// that no report can list what half of all mail has in common. After everything of
// that kind is left out, an exact signature takes 8 different words, and a near one
// 12 words.
//
// # bulkhead/exact
//
// The SHA-256 hash of the canonical text. That is all text parts in their order, HTML
// as its source, each followed by one NUL byte. A part is decoded and converted to
// UTF-8 in normalisation form C, without NUL bytes, without empty lines at the
// beginning and end, and with each line stripped of trailing white space and ended by
// one line feed. Transfer encoding, charset, line ends, boundaries and headers make
// no difference. Attachments do not count, except where a message has no words at
// all. Then the hash is of "data", NUL, the canonical text, and the SHA-256 hash of
// every other part, if these have 4 KiB and 32 different byte values, or contain
// enough words, or if a page has a link and shows a picture.
//
// # bulkhead/near
//
// 20 bands of MinHash values (Broder 1997) of the body's skeleton. The skeleton is the visible
// words of the last alternative that has any and that programs show. Where these are few, it also has those of
// attached pages, texts and documents, and of the texts that stand for pictures. Look-alike letters of other
// scripts, and digits and symbols within words, are folded to Latin letters, letters that are spelt
// out are joined, and words that marks display from right to left are turned. Mark-up and
// hidden elements, links, addresses, numbers, identifiers, the recipient's names, greetings,
// signature blocks, disclaimers and footers are left out. So is what a message quotes or
// forwards: a reply does not match what it answers, and a message that only quotes matches others
// that only quote. A band joins 4 values, each the smallest keyed hash of all pairs of
// neighbouring words. Without the key, a sender cannot foresee which words a band rests on.
// [NearMatch] is the number of bands that make a match.
//
// Measured over the maintainers' corpus of 15,063 messages: of the pairs of
// near-duplicate spam above the floor, 97 to 100 % share 2 bands; of all pairs of
// unrelated messages, 5 in 100,000 do, and no pair of a ham and a spam. With 2 bands,
// spam is still found in 89 % of cases after half its length of random words was
// added, in 81 % after every tenth word was replaced by a random one, and in 94 %
// after 40 % of its letters were replaced by look-alikes. After its length was
// doubled by random words it is 31 %, and after every fifth word was replaced 29 %.
//
// # Cost
//
// Computing takes time linear in the size of the message, and at most three times its size in
// additional memory. It ends with its context, which it checks every 64 KiB of work. To stay
// within these limits, it leaves out or cuts content that no ordinary message has:
//
//   - Decoded parts that take more memory than the message, and more than 1 MiB, are cut, and the
//     exact hash covers the remainder.
//   - The skeleton is of the first 256 KiB of each visible text and of 4,096 words, the sketch of 8,192.
//   - rspamd's digests leave out texts of more than 512 KiB, words of more than 16
//     KiB and what is beyond 2 MiB of texts.
//   - Pyzor's leave out mails with a page in characters beyond ISO 8859-1 that takes
//     more than 4 MiB and the size of the mail, at 2 or 4 bytes a character.
//   - Razor's leave out parts below 16 multiparts.
//
// # Use
//
//	sigs, err := signature.Compute(ctx, raw, signature.Options{Key: networkKey})
//	verdict, err := house.Check(ctx, bulkhead.Query{Signatures: sigs})
package signature
