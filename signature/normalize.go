package signature

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normPiece is how many bytes of a text are normalised at a time: never whole texts, since
// some characters become eleven times as long.
const normPiece = 4 << 10

// cutNormal returns how many bytes of text, normPiece at most, can be normalised
// apart from the rest: up to where a character begins that nothing before it
// touches. Where none begins the text is cut between characters.
func cutNormal(form norm.Form, text []byte) int {
	if len(text) <= normPiece {
		return len(text)
	}
	if n := form.LastBoundary(text[:normPiece]); n > 0 {
		return n
	}
	n := normPiece
	for n > normPiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
