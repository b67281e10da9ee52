// Package rspamd computes the digests and shingles by which rspamd's fuzzy_check
// knows the parts of a message, bit for bit wherever rspamd's view of a text can be
// reproduced, and the bands by which a filter finds near copies.
//
// Source: docs/specs/rspamd-fuzzy.md#digests. The package was compared with rspamd 3.4.
//
//	h := rspamd.NewHasher("", "", rspamd.MumHash)
//	hashes, err := h.Hashes(ctx, raw, rspamd.Policy{})
package rspamd
