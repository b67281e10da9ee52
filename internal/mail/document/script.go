package document

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// minLiteral is the minimum number of bytes of an encoded page in a script.
const minLiteral = 64

// maxScripts is how deep pages are looked for within each other.
const maxScripts = 2

// Scripted returns the pages that the scripts of a page hold in an encoding: base64, percent signs or escapes of
// string literals, whole or in pieces joined by +. Pages that are written as they are do not count, since scripts of
// libraries have many of them. Its time is linear in len(source), and it takes from the budget what it decodes. It
// ends early, with what it has, when ctx ends.
//
// Source: ECMA-262, String Literals, and escape and unescape (B.2.1); RFC 2397 for data: URLs.
func Scripted(ctx context.Context, name, source string, b *Budget) []Item {
	o := opener{budget: b, pace: pace.New(ctx)}
	o.scripts(name, source, 0)
	return o.items
}

// scripts takes the pages in the literals of a page. A page may stand between any two quotes: which of them belong
// together depends on where a script begins.
func (o *opener) scripts(name, source string, depth int) {
	const quotes = "\"'`"
	var literal []byte
	joins := false
	for source != "" && !o.done() {
		end := strings.IndexAny(source, quotes)
		if end < 0 {
			end = len(source)
		}
		if o.pace.Over(end + 1) {
			return
		}
		piece := source[:end]
		source = source[min(end+1, len(source)):]
		if len(literal) > 0 && strings.Trim(piece, " \t\r\n") == "+" {
			joins = true
			continue
		}
		if !joins {
			o.literal(name, literal, depth)
			literal = literal[:0]
		}
		literal, joins = append(literal, piece...), false
	}
	o.literal(name, literal, depth)
}

// literal takes what a literal holds, if it is a page.
func (o *opener) literal(name string, literal []byte, depth int) {
	if len(literal) < minLiteral || o.done() {
		return
	}
	if bytes.HasPrefix(literal, []byte("data:")) {
		o.url(name, scan.String(literal), depth)
		return
	}
	page := decodedLiteral(literal, o.budget.Bytes)
	if len(page) == 0 || bytes.IndexByte(page, '<') < 0 || !utf8.Valid(page) {
		return
	}
	o.budget.Bytes -= len(page)
	o.add(Item{name, Page, page})
	if depth+1 < maxScripts {
		o.scripts(name, scan.String(page), depth+1)
	}
}

// Frame returns the page, or the picture with letters, that a data: URL holds, or that is written as it is. It takes
// from the budget what it decodes.
//
// Source: RFC 2397.
func Frame(ctx context.Context, name, source string, b *Budget) []Item {
	o := opener{budget: b, pace: pace.New(ctx)}
	if len(source) >= len("data:") && strings.EqualFold(source[:len("data:")], "data:") {
		o.url(name, source, 0)
	} else if !o.done() && !o.pace.Over(len(source)) && len(source) <= b.Bytes {
		b.Bytes -= len(source)
		o.add(Item{name, Page, []byte(source)})
	}
	return o.items
}

// url takes what a data: URL holds, if it is a page or a picture with letters.
func (o *opener) url(name, url string, depth int) {
	kind, data, _ := strings.Cut(url[len("data:"):], ",")
	kind = strings.ToLower(kind)
	switch media, _, _ := strings.Cut(kind, ";"); strings.TrimSpace(media) {
	case "text/html", "image/svg+xml", "application/xhtml+xml":
	default:
		return
	}
	if o.done() || len(data) > o.budget.Bytes || o.pace.Over(len(data)) {
		return
	}
	page := unescaped(scan.Bytes(data), '%', "", len(data)+utf8.UTFMax)
	if strings.HasSuffix(kind, "base64") {
		page = bytes.TrimRight(page, "= \t\r\n")
		n, _ := base64.RawStdEncoding.Decode(page, page)
		page = page[:n]
	}
	if !utf8.Valid(page) {
		return
	}
	o.budget.Bytes -= len(page)
	o.add(Item{name, Page, page})
	if depth+1 < maxScripts {
		o.scripts(name, scan.String(page), depth+1)
	}
}

// decodedLiteral returns what a literal encodes, up to a number of bytes; nothing of one that encodes no page, or more.
func decodedLiteral(literal []byte, most int) []byte {
	percents, escapes := bytes.Count(literal, []byte("%3")), bytes.Count(literal, []byte(`\`))
	switch {
	case percents > 0 || bytes.Count(literal, []byte("%u")) > 0:
		return unescaped(literal, '%', "", most)
	case escapes*2 > len(literal)/4:
		return unescaped(literal, '\\', "x", most)
	}
	literal = bytes.TrimRight(literal, "=")
	if base64.RawStdEncoding.DecodedLen(len(literal)) > most {
		return nil
	}
	page := make([]byte, base64.RawStdEncoding.DecodedLen(len(literal)))
	n, err := base64.RawStdEncoding.Decode(page, literal)
	if err != nil {
		return nil
	}
	return page[:n]
}

// unescaped resolves marks that are followed by what two digits follow, or by u and four digits.
func unescaped(literal []byte, mark byte, two string, most int) []byte {
	out := make([]byte, 0, min(most, len(literal)))
	for len(literal) > 0 {
		if len(out)+utf8.UTFMax > most {
			return nil
		}
		r, n := hexAfter(literal, mark, "u", 4)
		if n > 0 {
			out = utf8.AppendRune(out, r)
		} else if r, n = hexAfter(literal, mark, two, 2); n > 0 {
			out = append(out, byte(r))
		} else {
			out, n = append(out, literal[0]), 1
		}
		literal = literal[n:]
	}
	return out
}

// hexAfter returns the number in digits behind mark and kind at the start of text, and the size of all; 0 if there is
// none.
func hexAfter(text []byte, mark byte, kind string, digits int) (rune, int) {
	size := 1 + len(kind) + digits
	if len(text) < size || text[0] != mark || string(text[1:1+len(kind)]) != kind {
		return 0, 0
	}
	n, err := strconv.ParseUint(string(text[1+len(kind):size]), 16, 32)
	if err != nil {
		return 0, 0
	}
	return rune(n), size
}
