// Package css reads the style sheets and style attributes of mail: rules, selectors and declarations. It
// knows no property. A rule that browsers ignore, such as one with an invalid selector, has no effect.
//
// Source: CSS Syntax 3, Selectors 4, Media Queries 4.
package css

import (
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// maxNesting is the maximum number of brackets within each other. The text behind deeper ones is not read.
const maxNesting = 64

// Declarations calls visit with each declaration of a style attribute or of the block of a rule, in order. Names
// are in lower case; values are as written, for [Value]. Declarations takes time in proportion to text.
func Declarations(text string, visit func(name, written string)) {
	for at := 0; at < len(text); {
		end := until(text, at, ";")
		if colon := until(text[:end], at, ":"); colon < end {
			visit(plain(text[at:colon]), text[colon+1:end])
		}
		at = end + 1
	}
}

// Value returns the value of a declaration in lower case, with one space where there are blanks or comments,
// and escapes resolved. Strings and addresses are empty.
func Value(written string) (value string, important bool) {
	value = plain(written)
	if n := strings.LastIndexByte(value, '!'); n >= 0 && strings.TrimSpace(value[n+1:]) == "important" {
		return strings.TrimSpace(value[:n]), true
	}
	return value, false
}

// Rules calls visit with the prelude of each rule that applies to a screen of a width in pixels, and with the
// block of its declarations. Rules takes time in proportion to sheet.
func Rules(sheet string, width int, visit func(selectors, block string)) {
	for at := 0; at < len(sheet); {
		switch rest := sheet[at:]; {
		case strings.HasPrefix(rest, "/*"):
			at = comment(sheet, at)
		case strings.HasPrefix(rest, "<!--"):
			at += len("<!--")
		case strings.HasPrefix(rest, "-->"):
			at += len("-->")
		case isBlank(rest[0]) || rest[0] == '}': // a brace ends a group of rules that apply
			at++
		case rest[0] == '@':
			at = atRule(sheet, at, width)
		default:
			open := until(sheet, at, "{")
			if open == len(sheet) {
				return
			}
			end := until(sheet, open+1, "}")
			visit(sheet[at:open], sheet[open+1:end])
			at = end + 1
		}
	}
}

// atRule returns the position behind the rule at a position that begins with @, or behind the brace that opens
// it if what is in it applies.
func atRule(sheet string, at, width int) int {
	end := until(sheet, at, "{;")
	if end == len(sheet) || sheet[end] == ';' {
		return end + 1
	}
	name, query, _ := strings.Cut(strings.ReplaceAll(plain(sheet[at+1:end]), "(", " ("), " ")
	applies := false
	switch name {
	case "media":
		applies = Media(query, width)
	case "supports":
		applies = !strings.HasPrefix(strings.TrimSpace(query), "not")
	case "layer":
		applies = true
	}
	if applies {
		return end + 1
	}
	return until(sheet, end+1, "}") + 1
}

// Media reports whether a list of media queries includes a screen of a width in pixels, with light colours.
func Media(list string, width int) bool {
	list = strings.ToLower(list)
	if strings.TrimSpace(list) == "" {
		return true
	}
	for query := range strings.SplitSeq(list, ",") {
		if medium(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(query, "(", " ("), ")", ") ")), width) {
			return true
		}
	}
	return false
}

// medium evaluates one query, of which these are the words.
func medium(words []string, width int) bool {
	matches, inverted := true, false
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "not":
			inverted = true
		case word == "only", word == "and", word == "all", word == "screen":
		case strings.HasPrefix(word, "("):
			for !strings.HasSuffix(word, ")") && i+1 < len(words) {
				i++
				word += words[i]
			}
			matches = matches && feature(strings.Trim(word, "()"), width)
		default:
			matches = false
		}
	}
	return len(words) > 0 && matches != inverted
}

// feature evaluates NAME:VALUE of a media query.
func feature(text string, width int) bool {
	name, value, _ := strings.Cut(text, ":")
	pixels := 0
	n := 0
	for n < len(value) && '0' <= value[n] && value[n] <= '9' && pixels < 1<<20 {
		pixels = pixels*10 + int(value[n]-'0')
		n++
	}
	if strings.HasSuffix(value, "em") {
		pixels *= 16
	}
	switch name {
	case "min-width", "min-device-width":
		return n > 0 && width >= pixels
	case "max-width", "max-device-width":
		return n > 0 && width <= pixels
	case "min-height", "color":
		return true
	case "prefers-color-scheme":
		return value == "light"
	case "orientation":
		return value == "landscape"
	}
	return false
}

// until returns the position of the first byte of stops in s at or behind a position, outside of brackets,
// strings, comments and addresses, or the length of s.
func until(s string, at int, stops string) int {
	var open [maxNesting]byte
	depth := 0
	for at < len(s) {
		c := s[at]
		if !marks[c] {
			at++
			continue
		}
		if depth == 0 && strings.IndexByte(stops, c) >= 0 {
			return at
		}
		switch c {
		case '\\':
			at++
		case '"', '\'':
			at = quoted(s, at)
			continue
		case '/':
			if strings.HasPrefix(s[at:], "/*") {
				at = comment(s, at)
				continue
			}
		case '(', '[', '{':
			if c == '(' && isAddress(s, at) {
				at = address(s, at)
				continue
			}
			if depth == maxNesting {
				return len(s)
			}
			open[depth] = closing(c)
			depth++
		case ')', ']', '}':
			if depth > 0 && open[depth-1] == c {
				depth--
			}
		}
		at++
	}
	return len(s)
}

// marks are the bytes that stop until, or that it looks at.
var marks = func() (set [256]bool) {
	for _, c := range []byte(`\"'/()[]{};:,`) {
		set[c] = true
	}
	return set
}()

func closing(c byte) byte {
	switch c {
	case '(':
		return ')'
	case '[':
		return ']'
	}
	return '}'
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

// comment returns the position behind the comment that begins at a position.
func comment(s string, at int) int {
	if n := strings.Index(s[at+2:], "*/"); n >= 0 {
		return at + 2 + n + 2
	}
	return len(s)
}

// quoted returns the position behind the string that begins at a position. A line end also ends it.
func quoted(s string, at int) int {
	quote := s[at]
	for at++; at < len(s); at++ {
		switch s[at] {
		case '\\':
			at++
		case quote:
			return at + 1
		case '\n', '\r', '\f':
			return at
		}
	}
	return len(s)
}

// isAddress reports whether a bracket at a position opens an address that is not quoted.
func isAddress(s string, at int) bool {
	if at < 3 || !strings.EqualFold(s[at-3:at], "url") || at > 3 && isName(s[at-4]) {
		return false
	}
	rest := strings.TrimLeft(s[at+1:min(len(s), at+16)], " \t\r\n\f")
	return rest == "" || rest[0] != '"' && rest[0] != '\''
}

// address returns the position behind the address whose bracket is at a position.
func address(s string, at int) int {
	for at++; at < len(s); at++ {
		switch s[at] {
		case '\\':
			at++
		case ')':
			return at + 1
		}
	}
	return len(s)
}

// isName reports whether c may be part of a name.
func isName(c byte) bool {
	return scan.IsLetter(c) || '0' <= c && c <= '9' || c == '-' || c == '_' || c >= 0x80
}

// plain returns a part of a declaration in lower case, with one space for blanks and comments, none at its
// ends, escapes resolved, and strings and addresses empty.
func plain(s string) string {
	s = strings.Trim(s, " \t\r\n\f")
	simple := true
	for i := 0; i < len(s) && simple; i++ {
		switch c := s[i]; {
		case c == ' ':
			simple = s[i-1] != ' '
		case isName(c) && (c < 'A' || c > 'Z'), c == '.', c == '#', c == '%', c == ',', c == '!':
		default:
			simple = false
		}
	}
	if simple {
		return s
	}
	var out strings.Builder
	blank := false
	put := func(text string) {
		if blank && out.Len() > 0 {
			out.WriteByte(' ')
		}
		blank = false
		out.WriteString(text)
	}
	for at := 0; at < len(s); {
		switch c := s[at]; {
		case isBlank(c):
			blank = true
			at++
		case c == '/' && strings.HasPrefix(s[at:], "/*"):
			// Within a name a comment ends the name.
			blank = true
			at = comment(s, at)
		case c == '\\':
			var r string
			r, at = escaped(s, at)
			put(strings.ToLower(r))
		case c == '"' || c == '\'':
			put(`""`)
			at = quoted(s, at)
		case c == '(' && isAddress(s, at):
			put("()")
			at = address(s, at)
		case 'A' <= c && c <= 'Z':
			put(string(rune(c + 'a' - 'A')))
			at++
		default:
			put(s[at : at+1])
			at++
		}
	}
	return out.String()
}

// escaped returns the character that a backslash at a position stands for, and the position behind it. A
// backslash before a line end stands for itself. An escaped space separates no words, and no name that is
// known has one: it is returned as U+FFFD.
func escaped(s string, at int) (string, int) {
	at++
	value, n := rune(0), 0
	for at < len(s) && n < 6 {
		digit, ok := scan.Hex(s[at])
		if !ok {
			break
		}
		value = value<<4 | rune(digit)
		at, n = at+1, n+1
	}
	switch {
	case n > 0:
		if at < len(s) && isBlank(s[at]) {
			at++
		}
		if value == 0 || value > 0x10FFFF || value < 0x80 && isBlank(byte(value)) {
			value = 0xFFFD
		}
		return string(value), at
	case at == len(s):
		return "\uFFFD", at
	case s[at] == '\n' || s[at] == '\r' || s[at] == '\f':
		return `\`, at
	case isBlank(s[at]):
		return "\uFFFD", at + 1
	}
	return s[at : at+1], at + 1
}
