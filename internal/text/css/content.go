package css

import "strings"

// maxPieces is the maximum number of pieces of a text that a style sheet writes. Further ones are left out.
const maxPieces = 64

// A Piece is a part of a text that a style sheet writes: a string, or the value of an attribute of the element.
type Piece struct {
	Text      string // without its escapes
	Attribute string // name in lower case, "" for a string
}

// Content returns the text that the value of a property content writes. It has no pieces for none, for pictures
// and for what is counted. A browser ignores a value that is not understood; ok is not set for it.
//
// Source: CSS Generated Content 3, section 2; CSS Values 5, section 7.7 on attr.
func Content(written string) (pieces []Piece, important, ok bool) {
	value, important := Value(written)
	first, _, _ := strings.Cut(value, "(")
	switch first {
	case "", "inherit", "var", "env", "element":
		return nil, important, false
	case "none", "normal", "initial", "unset", "revert", "revert-layer":
		return nil, important, true
	}
	for at := 0; at < len(written) && len(pieces) < maxPieces; {
		switch c := written[at]; {
		case c == '"' || c == '\'':
			end := quoted(written, at)
			pieces = append(pieces, Piece{Text: unescaped(strings.TrimSuffix(written[at+1:end], string(c)))})
			at = end
		case c == '/' && !strings.HasPrefix(written[at:], "/*"), c == '!':
			return pieces, important, true // what follows is for those who do not see the page
		case c == '/':
			at = comment(written, at)
		case c == '(' && isAddress(written, at):
			at = address(written, at)
		case isName(c) || c == '\\':
			p := parser{text: written, at: at}
			name := strings.ToLower(p.name())
			if at = max(p.at, at+1); at == len(written) || written[at] != '(' || isAddress(written, at) {
				continue
			}
			end := until(written, at+1, ")")
			if argument := strings.Fields(plain(written[at+1 : end])); name == "attr" && len(argument) > 0 {
				of, _, _ := strings.Cut(argument[0], ",")
				pieces = append(pieces, Piece{Attribute: of})
			}
			at = end + 1
		default:
			at++
		}
	}
	return pieces, important, true
}

// unescaped returns what a string stands for. An escaped line end is left out, and any other line end that an
// escape stands for is a blank.
func unescaped(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var out strings.Builder
	for at := 0; at < len(s); {
		if s[at] != '\\' {
			out.WriteByte(s[at])
			at++
			continue
		}
		r, next := escaped(s, at)
		switch {
		case next == at+1 && next < len(s): // before a line end
			next++
		case r == "\uFFFD":
			out.WriteByte(' ')
		default:
			out.WriteString(r)
		}
		at = next
	}
	return out.String()
}
