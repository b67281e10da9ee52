// Package css reads the style sheets and style attributes of mail: rules, selectors and declarations. It
// knows no property. A rule that browsers ignore, such as one with an invalid selector, has no effect.
//
// Source: CSS Syntax 3, Selectors 4, Media Queries 4.
package css

import (
	"math"
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
// block of its declarations. It also visits rules of which it is not sure that they apply: they depend on a feature of
// the screen that is not known, or on what a browser supports. Rules takes time in proportion to sheet.
func Rules(sheet string, width int, visit func(selectors, block string, sure bool)) {
	if !strings.Contains(sheet, "{") {
		return // most blocks have no rules in them
	}
	open := 0 // where the outermost group ends that may apply or not
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
			next, sure := atRule(sheet, at, width)
			if !sure && next > open {
				open = until(sheet, next, "}")
			}
			at = next
		default:
			begin := until(sheet, at, "{")
			if begin == len(sheet) {
				return
			}
			end := until(sheet, begin+1, "}")
			visit(sheet[at:begin], sheet[begin+1:end], at >= open)
			at = end + 1
		}
	}
}

// atRule returns the position behind the rule at a position that begins with @, or behind the brace that opens
// it if what is in it applies or may apply.
func atRule(sheet string, at, width int) (next int, sure bool) {
	end := until(sheet, at, "{;")
	if end == len(sheet) || sheet[end] == ';' {
		return end + 1, true
	}
	name, query, _ := strings.Cut(strings.ReplaceAll(plain(sheet[at+1:end]), "(", " ("), " ")
	applies, sure := false, true
	switch name {
	case "media":
		applies, sure = Media(query, width)
	case "supports", "container", "scope", "starting-style", "document", "-moz-document":
		applies, sure = true, false
	case "layer":
		applies = true
	}
	if applies {
		return end + 1, sure
	}
	return until(sheet, end+1, "}") + 1, true
}

// Media reports whether a list of media queries includes a screen of a width in pixels, with light colours. If it is
// not sure, because it depends on something else or fits hardly any other width, the list applies.
func Media(list string, width int) (applies, sure bool) {
	list = strings.ToLower(list)
	if strings.TrimSpace(list) == "" {
		return true, true
	}
	sure = true
	for query := range strings.SplitSeq(list, ",") {
		words := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(query, "(", " ("), ")", ") "))
		holds, known := medium(words, width)
		if holds && known {
			return true, true
		}
		applies, sure = applies || holds, sure && known
	}
	return applies, sure
}

// medium evaluates one query, of which these are the words.
func medium(words []string, width int) (matches, sure bool) {
	const narrow = 200 // pixels of width that a person's window fits by chance
	matches, sure = true, true
	inverted := false
	span := [2]int{0, math.MaxInt32}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "not":
			inverted = true
		case word == "only", word == "and", word == "all", word == "screen", word == ")":
		case strings.HasPrefix(word, "("):
			for !strings.HasSuffix(word, ")") && i+1 < len(words) {
				i++
				word += words[i]
			}
			holds, known := feature(strings.Trim(word, "()"), width, &span)
			matches, sure = matches && holds, sure && known
		default:
			matches = false
		}
	}
	switch {
	case len(words) == 0:
		return false, true
	case sure && span[1]-span[0] < narrow, !sure && matches:
		return true, false
	case !sure: // another word excludes it
		return inverted, true
	}
	return matches != inverted, true
}

// feature evaluates NAME:VALUE of a media query. A feature that is not known holds. The widths that it allows are
// those left of span.
func feature(text string, width int, span *[2]int) (holds, known bool) {
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
	known = n > 0 && (strings.HasSuffix(value, "px") || strings.HasSuffix(value, "em") || n == len(value))
	switch name {
	case "min-width", "min-device-width":
		span[0] = max(span[0], pixels)
		return width >= pixels || !known, known
	case "max-width", "max-device-width":
		span[1] = min(span[1], pixels)
		return width <= pixels || !known, known
	case "min-height":
		const usual = 600 // pixels of height that windows have
		return true, known && pixels <= usual
	case "color":
		return true, value == ""
	case "prefers-color-scheme":
		return value == "light", true
	case "orientation":
		return value == "landscape", true
	}
	return true, false
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
