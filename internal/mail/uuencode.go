package mail

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/mail/document"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// holdsCode reports whether a plain text may hold a file that uuencode has encoded.
func (p *Part) holdsCode() bool {
	return p.IsText() && !p.HTML && (strings.HasPrefix(p.Text, "begin ") || strings.Contains(p.Text, "\nbegin "))
}

// withoutCode returns a text without the texts in it that uuencode has encoded, and calls visit with the name and
// the data of each encoded file until visit returns false. A file of another kind stays in the text: lines in capital
// letters may be code as well, and people read them. It returns the text itself if it takes nothing away. Time is
// linear in the text.
//
// Source: POSIX, uuencode.
func withoutCode(text []byte, p *pace.Pace, visit func(name string, data []byte) bool) []byte {
	var out []byte
	kept := 0 // up to where the text is in out
	for at := 0; at < len(text) && p.Err() == nil; {
		line, rest, _ := cutLine(text[at:])
		next := len(text) - len(rest)
		name := codeName(line)
		if name == "" {
			if at = next; p.Over(len(line) + 1) {
				break
			}
			continue
		}
		end := codeEnd(text, next, p)
		if end > next {
			data, _ := decodeUUE(text[at:end], p)
			if isPlain(data) {
				out = append(out, text[kept:at]...)
				kept = end
			}
			if !visit(name, data) {
				break
			}
		}
		at = end
	}
	if kept == 0 {
		return text
	}
	return append(out, text[kept:]...)
}

// isPlain reports whether data is a text.
func isPlain(data []byte) bool {
	return len(data) > 0 && utf8.Valid(data) && bytes.IndexByte(data, 0) < 0
}

// codeName returns the name of the file that begins with a line, "" if none does.
func codeName(line []byte) string {
	rest, ok := bytes.CutPrefix(line, []byte("begin "))
	mode, name, named := bytes.Cut(rest, []byte(" "))
	if !ok || !named || len(mode) < 3 || len(mode) > 4 || len(bytes.Trim(mode, "01234567")) > 0 {
		return ""
	}
	return string(bytes.TrimSpace(name))
}

// codeEnd returns the position behind the lines of code that begin at a position, and behind the line "end".
func codeEnd(text []byte, at int, p *pace.Pace) int {
	for at < len(text) {
		line, rest, _ := cutLine(text[at:])
		next := len(text) - len(rest)
		if string(line) == "end" {
			return next
		}
		if !isCode(line) || p.Over(len(line)+1) {
			break
		}
		at = next
	}
	return at
}

// isCode reports whether a line is one of a file that uuencode has encoded, with or without spaces at its end.
func isCode(line []byte) bool {
	if len(line) == 0 {
		return true
	}
	for _, c := range line {
		if c < ' ' || c > '`' {
			return false
		}
	}
	size := int(line[0]-' ') & 0x3f
	full := (size + 2) / 3 * 4
	const checksum, spaces = 1, 4 // characters that may follow, and that may be cut off
	return len(line)-1 <= full+checksum && 2*(len(line)+spaces) > full
}

// encoded takes the files in a text that uuencode has encoded.
func (m *Message) encoded(ctx context.Context, part *Part, budget *document.Budget, p *pace.Pace) {
	withoutCode(scan.Bytes(part.Text), p, func(name string, data []byte) bool {
		items := document.Open(ctx, name, data, budget)
		switch {
		case budget.Items <= 0 || len(data) > budget.Bytes:
			return false
		case len(items) > 0:
		case document.IsPage(name):
			items = []document.Item{{Name: name, Kind: document.Page, Data: data}}
		case isPlain(data):
			items = []document.Item{{Name: name, Kind: document.Text, Data: data}}
		default:
			items = []document.Item{{Name: name, Kind: document.File, Data: data}}
		}
		budget.Items--
		budget.Bytes -= len(data)
		for _, item := range items {
			m.take(item, p)
		}
		return true
	})
}
