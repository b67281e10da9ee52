// Package signature turns a raw mail message into its signatures: the hashes
// by which servers that never exchange the text recognise the same message.
//
// [Compute] returns every signature that applies:
//
//   - bulkhead/exact, a hash of the canonical text of the body (exact.go);
//   - bulkhead/near, keyed MinHash bands of the body's skeleton (near.go);
//   - bulkhead/part and bulkhead/sketch, sampled runs of its words, by which it is known
//     inside of others (part.go): docs/specs/facets.md;
//   - bulkhead/link, bulkhead/contact, bulkhead/attachment, bulkhead/image and
//     bulkhead/markup, of what is not the text: docs/specs/facets.md;
//   - bulkhead/claim, the name that From gives the sender (claim.go);
//   - the schemes of other clearinghouses, each bit-exact with its own clients:
//     packages razor, pyzor, dcc and rspamd below this one.
//
// [Senders] returns those of who sent it, of what the caller has verified.
//
// A body that is empty, tiny or made of nothing but a template (a greeting, a
// signature block, a disclaimer, the footer of a list) has no exact and no near
// signature, so that no report can list what half of all mail has in common:
// an exact one takes 8 different words, a near one 12 words, after everything
// of that kind is left out.
//
// # bulkhead/exact
//
// The SHA-256 hash of the canonical text: all text parts in their order, HTML
// as its source; each decoded and as UTF-8 in normalisation form C, without NUL
// bytes, each line without trailing white space and ended by one line feed,
// without empty lines at begin and end, and followed by one NUL byte. Transfer
// encoding, charset, line ends, boundaries and headers make no difference.
// Attachments do not enter, except where a message has no words at all: then
// the hash is of "data", NUL, the canonical text, and the SHA-256 hash of every
// other part, if these have 4 KiB and 32 different byte values or words enough in what
// they hold, or if a page has a link and shows a picture.
//
// # bulkhead/near
//
// 20 bands of MinHash values (Broder 1997) of the body's skeleton. The skeleton
// is the visible words of the last alternative that has any, and where these are few
// those of attached pages, texts and documents, too: look-alike letters
// of other scripts, digits and symbols within words folded to Latin ones,
// letters that are spelt out joined; left out are mark-up and hidden elements,
// links, addresses, numbers, identifiers, the recipient's names, greetings,
// signature blocks, disclaimers and footers. What a message quotes or forwards
// is no part of it: a reply does not match what it answers, and a message that
// only quotes matches others that do. A band joins 4 values, each the smallest
// keyed hash of all pairs of neighbouring words; whoever lacks the key cannot tell which
// words a band rests on. [NearMatch] says how many bands make a match.
//
// Measured over the maintainers' corpus of 15,063 messages: 97 to 100 % of the
// pairs of near-duplicate spam that are above the floor share 2 bands; of all
// pairs of unrelated messages 5 in 100,000 do, and no pair of a ham and a spam.
// 2 bands still find 89 % of spam to which half its length of random words was
// added, 81 % with every tenth word substituted by a random one, and 94 % with
// 40 % of its letters substituted by look-alikes; with as many random words as
// its own it is 31 %, with every fifth word substituted 29 %.
//
// # Cost
//
// Computing is linear in the message, ends with its context, which it looks at
// every 64 KiB of work, and takes at most three times the size of the message
// beside it. To that end what no ordinary message has is not computed:
//
//   - Decoded parts that take more memory than the message, and more than 1 MiB,
//     are cut: the exact hash is of what is left.
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
