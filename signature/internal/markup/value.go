package markup

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// longestName is how many bytes the name of a character reference has at most.
const longestName = 32

// Value returns what an attribute's value stands for, as it is written. In it, other than
// in text, only whole names are references, and those without a semicolon are none before
// an equals sign.
//
// Source: WHATWG HTML, named character reference state.
func Value(written string) string {
	if !strings.ContainsAny(written, "&\r\x00") {
		return written
	}
	if strings.ContainsAny(written, "\r\x00") {
		written = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD").Replace(written)
	}
	var value strings.Builder
	for {
		at := strings.IndexByte(written, '&')
		if at < 0 {
			value.WriteString(written)
			return value.String()
		}
		value.WriteString(written[:at])
		written = written[at:]
		n := 1
		if n < len(written) && written[n] == '#' {
			n++
		}
		for n < len(written) && (scan.IsLetter(written[n]) || '0' <= written[n] && written[n] <= '9') {
			n++
		}
		named := written[1:n]
		if n < len(written) && written[n] == ';' {
			n++
		}
		piece := written[:n]
		ends := written[n-1] == ';'
		switch written = written[n:]; {
		case strings.HasPrefix(named, "#"):
			piece = html.UnescapeString(piece)
		case named == "" || len(named) > longestName || !ends && strings.HasPrefix(written, "="):
		default:
			piece = entity(piece)
		}
		value.WriteString(piece)
	}
}

// entity returns what a named reference stands for, itself if there is none of this name.
func entity(reference string) string {
	meaning := html.UnescapeString(reference)
	// The library also resolves a name of which it knows only the beginning. Then the rest
	// of the name is left, and at least its last character shows.
	switch n := utf8.RuneCountInString(meaning); {
	case n > 2, n == 2 && meaning[len(meaning)-1] == reference[len(reference)-1]:
		return reference
	}
	return meaning
}
