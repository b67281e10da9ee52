package razor

import (
	"bytes"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// plainText removes mark-up from a part, header included, if it holds a tag
// that the client knows: docs/specs/razor2.md#html. The result may be written over the part,
// if that is not needed any more.
func plainText(part []byte, over bool) []byte {
	if !hasTag(part) {
		return part
	}
	part = part[:len(part)-1]
	if i := bytes.IndexByte(part, 0); i >= 0 {
		part = part[:i]
	}
	if over {
		return strip(part[:0], part)
	}
	return strip(make([]byte, 0, len(part)), part)
}

// hasTag looks for a known tag before the first NUL.
func hasTag(b []byte) bool {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	lastEnd := bytes.LastIndexByte(b, '>')
	for i := 0; i < lastEnd; {
		n := bytes.IndexByte(b[i:], '<')
		if n < 0 {
			return false
		}
		i += n + 1
		name, after := tagName(b, i)
		if len(name) == 0 || after > lastEnd {
			continue
		}
		if isTag(name) {
			return true
		}
		i = after + bytes.IndexByte(b[after:], '>') + 1
	}
	return false
}

// tagName returns the letters at the start of a tag whose "<" lies before
// b[i], in lower case and 99 at most, and where they end.
func tagName(b []byte, i int) (name []byte, after int) {
	if i < len(b) && (b[i] == '!' || b[i] == '/') {
		i++
	}
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	start := i
	for i < len(b) && i-start < 99 && scan.IsLetter(b[i]) {
		i++
	}
	return bytes.ToLower(b[start:i]), i
}

// isTag reports whether the client takes a tag of this name for HTML.
func isTag(name []byte) bool {
	switch string(name) {
	case "html", "body", "a", "font", "table", "head", "base", "meta", "td", "tr",
		"style", "img", "object", "br", "b", "i", "span", "div", "form", "input",
		"button", "frame", "iframe", "tbody", "col", "th", "hr", "xml", "script",
		"pre", "param", "applet", "center", "area", "map", "em", "embed", "xmp",
		"sub", "sup":
		return true
	}
	return false
}

// strip is the client's one pass over mark-up, with all its quirks. It appends to out, which
// may begin where in does: it is never longer than what has been read.
func strip(out, in []byte) []byte {
	var tag, sgml bool
	var quote, last byte
	for i := 0; i < len(in); i++ {
		// Most bytes have no meaning here and are copied in runs.
		start := i
		switch {
		case quote != 0:
			n := bytes.IndexByte(in[i:], quote)
			if n < 0 {
				return out
			}
			i += n
		case tag:
			for i < len(in) && markupBytes[in[i]]&inTag == 0 {
				i++
			}
		default:
			for i < len(in) && markupBytes[in[i]]&inText == 0 {
				i++
			}
			out = append(out, in[start:i]...)
		}
		if i == len(in) {
			break
		}
		if i > start {
			last = in[i-1]
		}
		c := in[i]
		switch {
		case quote != 0:
			if c != '-' || last == '-' {
				quote = 0
			}
		case c == '<':
			tag = true
			if i++; i < len(in) && in[i] == '!' {
				sgml = true
			}
			if !sgml {
				// Most tags have nothing in them but quotes.
				end := quotedEnd(in, i+1)
				if end >= len(in) {
					return out
				}
				if i = end; in[end] == '>' {
					tag = false
				} else {
					i--
				}
			}
		case c == '>':
			if tag {
				tag, sgml = false, false
			}
		case c == '-':
			if sgml && last == '-' {
				quote = '-'
			}
		case c == '&':
			char, n := entity(in[i+1:])
			out = append(out, char)
			i += n
		default:
			quote = c
		}
		last = c
	}
	return out
}

// quotedEnd returns where in a tag, from i on, the next byte is that means something and is neither
// a hyphen nor within quotes, the length of in or more if there is none.
func quotedEnd(in []byte, i int) int {
	for i < len(in) {
		switch c := in[i]; {
		case markupBytes[c]&inTag == 0 || c == '-':
			i++
		case c == '"' || c == '\'':
			n := bytes.IndexByte(in[i+1:], c)
			if n < 0 {
				return len(in)
			}
			i += n + 2
		default:
			return i
		}
	}
	return i
}

// Flags of the bytes that have a meaning for strip.
const (
	inText = 1 << iota // outside of tags
	inTag
)

var markupBytes = [256]uint8{'<': inText | inTag, '>': inText | inTag, '&': inText | inTag, '"': inTag,
	'\'': inTag, '-': inTag}

// entity returns the byte that an entity stands for and how many bytes of
// b, which begins behind the "&", it takes; "&" and 0 if there is none.
func entity(b []byte) (byte, int) {
	if len(b) == 0 || !scan.IsLetter(b[0]) {
		return '&', 0
	}
	for _, e := range &entities {
		if bytes.HasPrefix(b, []byte(e.name)) {
			n := len(e.name)
			if n < len(b) && b[n] == ';' {
				n++
			}
			return e.char, n
		}
	}
	return '&', 0
}

// entities are the names that the client resolves; none begins another.
var entities = [...]struct {
	name string
	char byte
}{
	{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"nbsp", ' '},
	{"iexcl", 161}, {"cent", 162}, {"pound", 163}, {"curren", 164}, {"yen", 165},
	{"brvbar", 166}, {"sect", 167}, {"uml", 168}, {"copy", 169}, {"ordf", 170},
	{"laquo", 171}, {"not", 172}, {"shy", 173}, {"reg", 174}, {"macr", 175},
	{"deg", 176}, {"plusmn", 177}, {"sup2", 178}, {"sup3", 179}, {"acute", 180},
	{"micro", 181}, {"para", 182}, {"middot", 183}, {"cedil", 184}, {"sup1", 185},
	{"ordm", 186}, {"raquo", 187}, {"frac14", 188}, {"frac12", 189}, {"frac34", 190},
	{"iquest", 191}, {"Agrave", 192}, {"Aacute", 193}, {"Acirc", 194}, {"Atilde", 195},
	{"Auml", 196}, {"Aring", 197}, {"AElig", 198}, {"Ccedil", 199}, {"Egrave", 200},
	{"Eacute", 201}, {"Ecirc", 202}, {"Euml", 203}, {"Igrave", 204}, {"Iacute", 205},
	{"Icirc", 206}, {"Iuml", 207}, {"ETH", 208}, {"Ntilde", 209}, {"Ograve", 210},
	{"Oacute", 211}, {"Ocirc", 212}, {"Otilde", 213}, {"Ouml", 214}, {"times", 215},
	{"Oslash", 216}, {"Ugrave", 217}, {"Uacute", 218}, {"Ucirc", 219}, {"Uuml", 220},
	{"Yacute", 221}, {"THORN", 222}, {"szlig", 223}, {"agrave", 224}, {"aacute", 225},
	{"acirc", 226}, {"atilde", 227}, {"auml", 228}, {"aring", 229}, {"aelig", 230},
	{"ccedil", 231}, {"egrave", 232}, {"eacute", 233}, {"ecirc", 234}, {"euml", 235},
	{"igrave", 236}, {"iacute", 237}, {"icirc", 238}, {"iuml", 239}, {"eth", 240},
	{"ntilde", 241}, {"ograve", 242}, {"oacute", 243}, {"ocirc", 244}, {"otilde", 245},
	{"ouml", 246}, {"divide", 247}, {"oslash", 248}, {"ugrave", 249}, {"uacute", 250},
	{"ucirc", 251}, {"uuml", 252}, {"yacute", 253}, {"thorn", 254}, {"yuml", 255},
}
