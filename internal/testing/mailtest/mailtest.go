// Package mailtest is what the tests of the readers of messages share.
package mailtest

import "math/rand/v2"

// Must returns v. It is for calls whose only error comes from a context that does not end, and
// panics where one has.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// tokens are what readers that work by tables, in blocks and by runs have to distinguish.
var tokens = []string{
	"a", "I", "word", "Lighthouse", "rhythmsss", "WWW.", "www.shop.example", "x.com", "a@b.example",
	"http://h.example/x", "=", "=3D", "=\n", "h", "H",
	"hTTp", "://", "&amp;", "&#104;ttp://x.y/", "'", "\"", "don't", "v.i.a", "v i a g r a", "1", "3.14", "4u", "$",
	"!", ",", ".", ";", ":", "?", ")", "(",
	"-", "--", "\n", "\n", "\r\n", "\r", "\n\n", "\t", " ", " ", " ", "  ", "\v", "\x1c", "\x85", "\xa0", "\u00a0",
	"é", "e\u0301", "\u0301", "а", "你好",
	"\u200b", "\xff", "\x00", "\n>From ", "\n>Fr", "\n> ", ">", "Dear ", "Dear Bob,", "dear", "hello you",
	"\nFrom ", "confidential intended recipient", "<b>",
	"/", "\\", "averyveryverylongwordthatnobodywrites", "\u2028", "10:30", "x:y", "€5", "walked_far",
	"flying-fish", "Bob", "miller",
}

// Text returns random text that is made to break such readers.
func Text(r *rand.Rand) []byte {
	var b []byte
	for range r.IntN(120) {
		b = append(b, tokens[r.IntN(len(tokens))]...)
		if r.IntN(3) > 0 {
			b = append(b, ' ')
		}
	}
	return b
}
