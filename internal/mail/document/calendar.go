package document

import (
	"bytes"
	"io"
	"mime/quotedprintable"
	"strings"
)

// Calendar returns what the reader of a calendar entry sees (RFC 5545): summary,
// description, place, comments, names of people, and links, a line each. Of a business card (RFC 6350) it returns
// notes and links.
func Calendar(source string) []byte {
	var out, line []byte
	flush := func() {
		if text, ok := shown(line); ok {
			out = append(appendText(out, text), '\n')
		}
		line = line[:0]
	}
	for source != "" && len(out) < maxText {
		next, rest, _ := strings.Cut(source, "\n")
		next, source = strings.TrimSuffix(next, "\r"), rest
		if before, ok := bytes.CutSuffix(line, []byte("=")); ok && isQuoted(line) {
			line = before
		} else if folded, ok := strings.CutPrefix(next, " "); ok {
			next = folded
		} else if folded, ok := strings.CutPrefix(next, "\t"); ok {
			next = folded
		} else {
			flush()
		}
		line = append(line, next[:min(len(next), maxText-min(len(line), maxText))]...)
	}
	flush()
	return out
}

// shown returns the value of a property that is shown.
func shown(line []byte) ([]byte, bool) {
	name := line
	if i := bytes.IndexAny(line, ":;"); i >= 0 {
		name = line[:i]
	}
	if i := bytes.IndexByte(name, '.'); i >= 0 {
		name = name[i+1:] // behind the name of a group
	}
	switch strings.ToUpper(string(name)) {
	case "SUMMARY", "DESCRIPTION", "LOCATION", "COMMENT", "CONTACT", "URL", "ATTACH", "CONFERENCE", "NOTE",
		"X-ALT-DESC", "STYLED-DESCRIPTION", // the description as a page
		"X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL": // where the button to join leads
	default:
		return nil, false
	}
	quoted := false // colons in quotes are of parameters
	for i, c := range line {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ':' && !quoted && isQuoted(line):
			text, _ := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(line[i+1:]))) // what is before a fault counts
			return text, true
		case c == ':' && !quoted:
			return line[i+1:], true
		}
	}
	return nil, false
}

// isQuoted reports whether the value of a property is in quoted-printable, as in version 1.0 of calendars and version
// 2.1 of business cards. It may go on in the next line.
func isQuoted(line []byte) bool {
	parameters, _, _ := bytes.Cut(line[:min(len(line), 256)], []byte(":"))
	return bytes.Contains(bytes.ToUpper(parameters), []byte("QUOTED-PRINTABLE"))
}

// appendText appends a value, without its escapes.
func appendText(out, value []byte) []byte {
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' && i+1 < len(value) {
			i++
			if c = value[i]; c == 'n' || c == 'N' {
				c = '\n'
			}
		}
		out = append(out, c)
	}
	return out
}
