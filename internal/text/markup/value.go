package markup

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Unescape returns what [html.UnescapeString] does.
func Unescape(text string) string {
	if strings.IndexByte(text, '&') < 0 {
		return text
	}
	return scan.String(AppendUnescaped(make([]byte, 0, len(text)), text))
}

// AppendUnescaped appends what [Unescape] returns, by itself up to a reference that
// is not one of the most frequent.
func AppendUnescaped(dst []byte, text string) []byte {
	for {
		n := strings.IndexByte(text, '&')
		if n < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:n]...)
		text = text[n:]
		dst, n = AppendReference(dst, text)
		text = text[n:]
	}
}

// AppendReference appends what the character reference at the start of text stands for, or
// all of text does, and returns how many bytes of it that is.
func AppendReference(dst []byte, text string) ([]byte, int) {
	meaning, size := common(text)
	if size == 0 {
		return append(dst, html.UnescapeString(text)...), len(text)
	}
	return append(dst, meaning...), size
}

// common returns what the character reference at the start of text stands for, and how long it
// is, if it is one that means the same whatever follows, and frequent; size 0 for another.
func common(text string) (meaning string, size int) {
	switch {
	case strings.HasPrefix(text, "&nbsp;"):
		return "\u00a0", len("&nbsp;")
	case strings.HasPrefix(text, "&amp;"):
		return "&", len("&amp;")
	case strings.HasPrefix(text, "&lt;"):
		return "<", len("&lt;")
	case strings.HasPrefix(text, "&gt;"):
		return ">", len("&gt;")
	case strings.HasPrefix(text, "&quot;"):
		return `"`, len("&quot;")
	case strings.HasPrefix(text, "&#39;"):
		return "'", len("&#39;")
	}
	return "", 0
}

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
