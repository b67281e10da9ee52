package mailbox

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

// Envelope returns From and Subject of a message for people to read, on one line each:
// decoded, without control characters, which could confuse a terminal, and cut after limit
// characters. A missing field is "".
func Envelope(raw []byte, limit int) (from, subject string) {
	rest := begin(raw[:min(len(raw), maxHeader)])
	for len(rest) > 0 {
		var field string
		if field, rest = nextField(rest); field == "" {
			break
		}
		name, value, _ := strings.Cut(field, ":")
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "from" && from == "":
			from = readable(value, limit)
		case name == "subject" && subject == "":
			subject = readable(value, limit)
		}
	}
	return from, subject
}

// readable decodes encoded words and removes unprintable characters.
func readable(value string, limit int) string {
	value = mail.DecodeField(value)
	var b strings.Builder
	n, space := 0, false
	for _, c := range strings.ToValidUTF8(value, "\ufffd") {
		switch {
		case unicode.IsSpace(c):
			space = b.Len() > 0
			continue
		case !unicode.IsPrint(c):
			continue
		}
		if n >= limit {
			b.WriteString("...")
			break
		}
		if space {
			b.WriteByte(' ')
			n++
		}
		space = false
		b.WriteRune(c)
		n++
	}
	return b.String()
}

// HasHeader reports whether raw begins like a message: with a header field, after a byte order mark,
// empty lines and the "From " line of an mbox, if there are any.
func HasHeader(raw []byte) bool {
	raw = begin(raw)
	for i, c := range raw[:min(len(raw), 1000)] {
		switch {
		case c == ':':
			return i > 0
		case c == ' ' || c == '\t': // blanks before the colon, as old programs write
			rest := bytes.TrimLeft(raw[i:], " \t")
			return i > 0 && len(rest) > 0 && rest[0] == ':'
		case c <= ' ' || c >= 0x7f:
			return false
		}
	}
	return false
}
