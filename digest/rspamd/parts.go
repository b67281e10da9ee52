package rspamd

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// readAs reports whether rspamd reads a part as text, and whether that is a page, whatever its type says.
//
// Source: docs/specs/rspamd-fuzzy.md#kinds-of-parts.
func readAs(ctx context.Context, part *mail.Part, data []byte) (text, html bool) {
	if isArchive(data) || strings.HasPrefix(part.Type, "message/") {
		return false, false
	}
	if html = part.HTML; !html && looksLikePage(data) {
		source, err := part.Source(ctx)
		html = err == nil && isText(source) // if ctx ends, nothing counts
	}
	if part.IsText() {
		return html || !bytes.HasPrefix(data, []byte("BEGIN:VCALENDAR")) && !bytes.HasPrefix(data,
			[]byte("BEGIN:VCARD")), html
	}
	return html || part.Type == "" && isText(data), html
}

// isText reports whether data, of which nothing else says that it is text, begins and ends like text.
func isText(data []byte) bool {
	const first, last = 160, 80
	if len(data) > 3*last {
		return fewOdd(data[:first]) && fewOdd(data[len(data)-last-1:len(data)-1])
	}
	return fewOdd(data)
}

// fewOdd reports whether fewer than one byte in 128 is neither printable nor of a character of
// UTF-8 or of a row of three bytes that are not ASCII.
func fewOdd(data []byte) bool {
	odd := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c >= 0x7F:
			n := wideRun(data[i:])
			if n == 0 {
				odd++
			}
			i += n
		case c < ' ' && c != '\t' && c != '\n' && c != '\r':
			odd++
		}
	}
	return odd*128 <= len(data)
}

// wideRun returns how many bytes behind the first of data, which is not ASCII, belong to the same
// character or row; 0 if it stands alone.
func wideRun(data []byte) int {
	n := 0
	for ; n+1 < len(data) && data[n] >= 0x7F; n++ {
		follow := 0
		for follow < 3 && n+1+follow < len(data)-1 && data[n+1+follow]&0xC0 == 0x80 {
			follow++
		}
		switch c := data[n]; {
		case c&0xE0 == 0xC0 && follow >= 1:
			return 1
		case c&0xF0 == 0xE0 && follow >= 2:
			return 2
		case c&0xF8 == 0xF0 && follow >= 3:
			return 3
		}
	}
	if n >= 3 {
		return n
	}
	return 0
}

// attachment returns the hash of a part that is not read as text.
func (h *Hasher) attachment(part *mail.Part, data []byte, policy Policy, p *pace.Pace) (hash Hash, ok bool) {
	const smallest = 500 // of the sides of a picture
	width, height, picture := pictureSize(data)
	switch {
	case len(data) == 0:
		return hash, false
	case isArchive(data):
	case len(data) < policy.MinBytes:
		return hash, false
	case picture:
		if width < smallest || height < smallest {
			return hash, false
		}
	case !part.Attachment && (part.Name == "" || part.Referenced):
		return hash, false
	case !policy.AllTypes && !strings.HasPrefix(part.Type, "application/"):
		return hash, false
	}
	hash.Digest = keyed(&h.partKey, p, data)
	return hash, true
}

// isArchive reports whether data begins as a ZIP, RAR, 7z or gzip file does.
func isArchive(data []byte) bool {
	for _, magic := range [...]string{"PK\x03\x04", "Rar!\x1a\x07", "7z\xbc\xaf\x27\x1c", "\x1f\x8b\x08"} {
		if len(data) > len(magic) && string(data[:len(magic)]) == magic {
			return true
		}
	}
	return false
}

// pictureSize returns the size of a PNG, JPEG, GIF or BMP picture as rspamd 3.4 reads it, which counts the
// high byte of a side of a JPEG 255 times.
func pictureSize(data []byte) (width, height int, ok bool) {
	switch begins := func(magic string) bool { return len(data) > 28 && string(data[:len(magic)]) == magic }; {
	case begins("\x89PNG\r\n\x1a\n") && string(data[12:16]) == "IHDR":
		return int(binary.BigEndian.Uint32(data[16:])), int(binary.BigEndian.Uint32(data[20:])), true
	case begins("GIF8"):
		return int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:])), true
	case begins("BM"):
		return int(binary.LittleEndian.Uint32(data[18:])), int(int32(binary.LittleEndian.Uint32(data[22:]))), true
	case begins("\xff\xd8\xff\xe0"), begins("\xff\xd8\xff\xe1"):
		for i := 2; i < len(data)-8; {
			if data[i] != 0xff || data[i+1] == 0xff {
				i++
				continue
			}
			if kind := data[i+1]; kind >= 0xc0 && kind <= 0xc3 || kind >= 0xc9 && kind <= 0xcb {
				return int(data[i+7])*255 + int(data[i+8]), int(data[i+5])*255 + int(data[i+6]), true
			}
			i += 1 + int(binary.BigEndian.Uint16(data[i+2:]))
		}
	}
	return 0, 0, false
}

// looksLikePage reports whether data is text that begins with as much mark-up as a page does.
func looksLikePage(data []byte) bool {
	const head, enough = 4096, 40
	first := data[:min(len(data), head)]
	weight := 0
	for weight < enough {
		i := bytes.IndexByte(first, '<')
		if i < 0 {
			return false
		}
		first = first[i+1:]
		for _, tag := range &pageTags {
			if n := len(tag.name); scan.HasPrefixFold(first, tag.name) &&
				(len(first) == n || !isAlnum(first[n]) && first[n] != '_') {
				weight += tag.weight
			}
		}
	}
	return true
}

// pageTags are what rspamd takes for signs of a page, with how much each counts.
var pageTags = [...]struct {
	name   string
	weight int
}{
	{"html", 32}, {"!doctype html", 33}, {"script", 20}, {"body", 20}, {"table", 20}, {"a", 10}, {"p", 10},
	{"div", 10}, {"span", 10},
}
