package document

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A Kind is the kind of an [Item].
type Kind uint8

// The kinds.
const (
	File Kind = iota // bytes of a file in an archive
	Text             // text of a document as UTF-8, in lines, and its links, a line each
	Page             // a file in an archive that browsers open
)

// An Item is something in an attachment.
type Item struct {
	Name string // of the file, without folders
	Kind Kind
	Data []byte
}

// A Budget bounds what is opened together. Each [Open] takes from it what it uses.
type Budget struct {
	Bytes int // that are decompressed
	Items int
}

// maxShortcut is how much of a file that is a link is read, in bytes.
const maxShortcut = 8 << 10

// maxDepth is how deep archives are opened within each other.
const maxDepth = 3

// Open returns what is in an attachment: nothing if it is neither an archive nor a document,
// or is damaged from its start. Its time is linear in len(data) and in what it takes from the
// budget. It ends early, with what it has, when ctx ends.
func Open(ctx context.Context, name string, data []byte, b *Budget) []Item {
	o := opener{budget: b, pace: pace.New(ctx)}
	o.open(name, data, 0)
	return o.items
}

// RTF returns the text of a document in the Rich Text Format, and behind it its links, a line each. Its time is linear
// in len(source). It ends early, with what it has, when ctx ends.
func RTF(ctx context.Context, source string) []byte {
	o := opener{pace: pace.New(ctx)}
	return o.rtfText(scan.Bytes(source))
}

// IsRTF reports whether a text is a document in the Rich Text Format.
func IsRTF(text string) bool { return strings.HasPrefix(text, `{\rtf`) }

// IsPage reports whether a browser opens a file of the name.
func IsPage(name string) bool {
	switch extension(name) {
	case ".htm", ".html", ".shtml", ".xhtml", ".xht", ".hta", ".mht", ".mhtml", ".svg":
		return true
	}
	return false
}

// IsText reports whether a desktop shows a file of the name and with the content as plain text.
func IsText(name string, data []byte) bool { return extension(name) == ".txt" && utf8.Valid(data) }

// extension returns the end of the name of a file, from its last point on, in lower case. Windows ignores points and
// blanks behind it.
func extension(name string) string { return strings.ToLower(path.Ext(strings.TrimRight(name, ". "))) }

// IsCalendar reports whether a file is an entry of a calendar or a business card, by its name and its content.
func IsCalendar(name string, data []byte) bool {
	switch extension(name) {
	case ".ics", ".vcs", ".ifb", ".ical", ".icalendar", "":
		return begins(data, "BEGIN:VCALENDAR")
	case ".vcf", ".vcard":
		return begins(data, "BEGIN:VCARD")
	}
	return false
}

// begins reports whether a file begins with a text, behind its byte order mark and blanks.
func begins(data []byte, text string) bool {
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n"), []byte(text))
}

// isShortcut reports whether a file is a link that a desktop opens, of Windows, Linux or macOS.
func isShortcut(name string, data []byte) bool {
	return begins(data, "[InternetShortcut]") || begins(data, "[Desktop Entry]") ||
		extension(name) == ".webloc" && begins(data, "<?xml")
}

// An opener opens one attachment.
type opener struct {
	budget *Budget
	pace   *pace.Pace
	items  []Item
}

func (o *opener) add(item Item) {
	if o.budget.Items > 0 && len(item.Data) > 0 {
		o.budget.Items--
		o.items = append(o.items, item)
	}
}

func (o *opener) done() bool {
	return o.budget.Items <= 0 || o.budget.Bytes <= 0 || o.pace.Err() != nil
}

// open takes a file, and reports whether it was opened.
func (o *opener) open(name string, data []byte, depth int) bool {
	switch {
	case o.done():
	case bytes.HasPrefix(data, []byte("PK\x03\x04")), extension(name) == ".zip": // what comes before it does not count
		return o.zip(data, depth)
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return o.gzip(name, data, depth)
	case bytes.HasPrefix(data, []byte(compoundMagic)):
		return o.word(name, data)
	case len(data) > 6 && binary.LittleEndian.Uint32(data) == tnefMagic:
		return o.tnef(data, depth)
	case IsCalendar(name, data):
		o.add(Item{name, Text, Calendar(string(data))})
		return true
	case IsRTF(scan.String(data)):
		o.add(Item{name, Text, o.rtfText(data)})
		return true
	case o.flat(name, data):
		return true
	case isShortcut(name, data):
		o.add(Item{name, Text, data[:min(len(data), maxShortcut)]})
		return true
	case len(data) > 262 && string(data[257:262]) == "ustar":
		return o.tar(data, depth)
	case bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-")):
		return o.pdf(name, data)
	}
	return false
}

// member takes a file of an archive.
func (o *opener) member(name string, data []byte, depth int) {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	kind := File
	if IsPage(name) {
		kind = Page
	}
	o.add(Item{name, kind, data})
	if depth+1 < maxDepth {
		o.open(name, data, depth+1)
	}
}

// read returns the content of r: all of it if it fits into the budget, else nothing, or, if
// part says that this will do, the beginning.
func (o *opener) read(r io.Reader, part bool) []byte {
	var out bytes.Buffer
	n, err := io.CopyBuffer(&out, pace.Reader(io.LimitReader(r, int64(o.budget.Bytes)+1), o.pace), make([]byte, 16<<10))
	over := n > int64(o.budget.Bytes)
	o.budget.Bytes = max(0, o.budget.Bytes-int(n))
	if !part && (over || err != nil) {
		return nil
	}
	return out.Bytes()
}
