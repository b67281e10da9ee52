package document

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
)

// tnefMagic begins a file winmail.dat, little-endian.
const tnefMagic = 0x223e9f78

// Attributes of TNEF, and the properties of MAPI in them.
//
// Source: Microsoft, [MS-OXTNEF] 2.1.3 and [MS-OXPROPS].
const (
	tnefBody           = 0x0002800c
	tnefAttachBegin    = 0x00069002
	tnefAttachTitle    = 0x00018010
	tnefAttachData     = 0x0006800f
	tnefMessageProps   = 0x00069003
	tnefAttachProps    = 0x00069005
	mapiBody           = 0x1000
	mapiRTF            = 0x1009
	mapiHTML           = 0x1013
	mapiAttachData     = 0x3701
	mapiAttachFilename = 0x3704
	mapiAttachLongName = 0x3707
)

// tnef takes what Outlook and Exchange packed into a file winmail.dat: the body as a page, or else as
// text, and the attached files.
func (o *opener) tnef(data []byte, depth int) bool {
	data = data[6:] // signature and key
	var body, page, rtf []byte
	var name string
	var file []byte
	endFile := func() {
		if len(file) > 0 {
			if name == "" {
				name = "attachment"
			}
			o.member(name, file, depth)
		}
		name, file = "", nil
	}
	for len(data) >= 9 && !o.done() {
		id, size := binary.LittleEndian.Uint32(data[1:]), int64(binary.LittleEndian.Uint32(data[5:]))
		data = data[9:]
		if o.pace.Over(9) || size > int64(len(data)) {
			break
		}
		value := data[:size]
		data = data[min(int64(len(data)), size+2):] // and a sum
		switch id {
		case tnefBody:
			body = asUTF8(bytes.TrimRight(value, "\x00"))
		case tnefAttachBegin:
			endFile()
		case tnefAttachTitle:
			if name == "" {
				name = string(asUTF8(bytes.TrimRight(value, "\x00")))
			}
		case tnefAttachData:
			file = value
		case tnefMessageProps, tnefAttachProps:
			o.mapi(value, func(property uint16, value []byte) {
				switch property {
				case mapiBody:
					body = value
				case mapiHTML:
					page = value
				case mapiRTF:
					rtf = value
				case mapiAttachLongName:
					name = string(value)
				case mapiAttachData:
					if len(value) > 16 { // behind an identifier of the kind
						file = value
					}
				}
			})
		}
	}
	endFile()
	if page == nil && rtf != nil {
		if text := o.fromRTF(rtf); len(bytes.TrimSpace(text)) > 0 {
			body = text
		}
	}
	switch {
	case len(page) > 0:
		o.add(Item{Name: "body.html", Kind: Page, Data: page})
	case len(body) > 0:
		o.add(Item{Name: "body.txt", Kind: Text, Data: body})
	}
	return true
}

// mapiWidths are the sizes of the values of properties by their types, in bytes; 0: each value has its size.
var mapiWidths = map[uint16]uint64{
	0x02: 4, 0x03: 4, 0x04: 4, 0x0a: 4, 0x0b: 4, // numbers of up to 4 bytes
	0x05: 8, 0x06: 8, 0x07: 8, 0x14: 8, 0x40: 8, // numbers of 8 bytes, times
	0x48: 16,
	0x0d: 0, 0x1e: 0, 0x1f: 0, 0x102: 0, // an object, texts, bytes
}

// mapiMany marks a type of several values.
const mapiMany = 0x1000

// mapi calls take with the properties in data, texts as UTF-8, up to the first that is damaged.
func (o *opener) mapi(data []byte, take func(property uint16, value []byte)) {
	r := mapiReader{data: data}
	for count := r.word(); count > 0 && !o.pace.Over(8); count-- {
		tag := r.word()
		kind, property := uint16(tag), uint16(tag>>16)
		if property >= 0x8000 {
			r.name()
		}
		width, known := mapiWidths[kind&^mapiMany]
		values := uint32(1)
		if kind&mapiMany != 0 || width == 0 {
			values = r.word()
		}
		if !known || r.damaged {
			return
		}
		for ; values > 0; values-- {
			value := r.value(width)
			if r.damaged || width == 0 && o.pace.Over(len(value)) {
				return
			}
			if width == 0 {
				take(property, mapiText(kind&^mapiMany, value))
			}
		}
	}
}

// A mapiReader reads the data of properties.
type mapiReader struct {
	data    []byte
	damaged bool // the data ended too early
}

// word reads a number; it is 0 if the data is damaged.
func (r *mapiReader) word() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// bytes reads n bytes; nil if the data is damaged.
func (r *mapiReader) bytes(n uint64) []byte {
	if r.damaged = r.damaged || n > uint64(len(r.data)); r.damaged {
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

// name reads the name of a property: an identifier, and a number or a text.
func (r *mapiReader) name() {
	r.bytes(16)
	named, size := r.word(), r.word()
	if named != 0 {
		r.bytes((uint64(size) + 3) &^ 3)
	}
}

// value reads a value of the given width, or with 0 one behind its size. The latter ends at a multiple of 4
// bytes.
func (r *mapiReader) value(width uint64) []byte {
	if width > 0 {
		return r.bytes(width)
	}
	size := uint64(r.word())
	value := r.bytes(size)
	r.data = r.data[min(uint64(len(r.data)), -size&3):]
	return value
}

// mapiText returns a value of a type, texts as UTF-8.
func mapiText(kind uint16, value []byte) []byte {
	switch kind {
	case 0x1e:
		return asUTF8(bytes.TrimRight(value, "\x00"))
	case 0x1f:
		return bytes.TrimRight([]byte(fromUTF16LE(value)), "\x00")
	}
	return value
}

// fromUTF16LE decodes UTF-16, little-endian.
func fromUTF16LE(value []byte) string {
	units := make([]uint16, len(value)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(value[2*i:])
	}
	return string(utf16.Decode(units))
}

// asUTF8 returns text, which is UTF-8 or windows-1252, as UTF-8.
func asUTF8(text []byte) []byte {
	if !bytes.ContainsFunc(text, func(r rune) bool { return r == '\ufffd' }) {
		return text
	}
	out := make([]byte, 0, 2*len(text))
	for _, c := range text {
		out = append(out, string(charmap.Windows1252.DecodeByte(c))...)
	}
	return out
}

// The text that each compressed RTF refers to.
//
// Source: Microsoft, [MS-OXRTFCP] 2.1.2.1.
const rtfPrefix = `{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript ` +
	`\fdecor MS Sans ` +
	`SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0` + "\r\n" + `\par \pard\plain\f0\fs20\b\i\u\tab\tx`

// fromRTF returns the text of a compressed RTF: its words and line ends, without fonts, colours,
// pictures and the tags of a page that was made RTF.
func (o *opener) fromRTF(data []byte) []byte {
	if len(data) < 16 {
		return nil
	}
	source := data[16:]
	if binary.LittleEndian.Uint32(data[8:]) == 0x75465a4c { // "LZFu"
		source = o.inflateRTF(source)
	}
	return o.rtfText(source)
}

// inflateRTF decompresses data, within the budget.
func (o *opener) inflateRTF(data []byte) []byte {
	const window = 4096
	out := append(make([]byte, 0, 4*len(data)), rtfPrefix...)
	start := len(out)
	for len(data) > 0 {
		flags := data[0]
		data = data[1:]
		for bit := range 8 {
			if len(data) == 0 || len(out)-start >= o.budget.Bytes || o.pace.Over(1) {
				data = nil
				break
			}
			if flags>>bit&1 == 0 {
				out, data = append(out, data[0]), data[1:]
				continue
			}
			if len(data) < 2 {
				data = nil
				break
			}
			offset, size := int(data[0])<<4|int(data[1])>>4, int(data[1]&15)+2
			data = data[2:]
			// The offset is one into a ring of which out is the history.
			back := (len(out)%window - offset + window) % window
			if back == 0 {
				data = nil // the end
				break
			}
			for range size {
				if back > len(out) {
					break
				}
				out = append(out, out[len(out)-back])
			}
		}
	}
	o.budget.Bytes = max(0, o.budget.Bytes-(len(out)-start))
	return out[start:]
}

// rtfText returns the text of RTF, and behind it the links of its fields, a line each.
func (o *opener) rtfText(source []byte) []byte {
	r := rtfReader{unicode: 1}
	for at := 0; at < len(source) && len(r.out)+len(r.links) < maxText && !o.pace.Over(1); {
		c := source[at]
		at++
		switch {
		case c == '{':
			r.depth++
		case c == '}':
			r.endGroup()
		case c == '\r', c == '\n':
		case c == '\\':
			at += r.control(source[at:])
		case r.skip > 0:
			r.skip--
		default:
			r.show(c)
		}
	}
	if len(r.links) > 0 {
		r.out = append(append(r.out, '\n'), r.links...)
	}
	return r.out
}

// An rtfReader is the state of reading RTF.
type rtfReader struct {
	out     []byte
	depth   int // open groups
	hidden  int // depth of the group that is not shown, 0 outside
	field   int // depth of the group that says what a field is, 0 outside
	unicode int // bytes that replace a character for old readers
	skip    int // of them, the bytes that are left
	htmlrtf bool
	links   []byte // what fields are, a line each
}

func (r *rtfReader) show(text ...byte) {
	if r.field > 0 {
		r.links = append(r.links, text...)
	} else if r.hidden == 0 && !r.htmlrtf {
		r.out = append(r.out, text...)
	}
}

// hide hides the present group, unless it is hidden.
func (r *rtfReader) hide() {
	if r.hidden == 0 {
		r.hidden = max(1, r.depth)
	}
}

func (r *rtfReader) endGroup() {
	if r.depth == r.hidden {
		r.hidden = 0
	}
	if r.depth == r.field && r.field > 0 {
		r.field = 0
		r.links = append(r.links, '\n')
	}
	r.depth = max(0, r.depth-1)
}

// control reads what follows a backslash, and returns its size.
func (r *rtfReader) control(text []byte) (size int) {
	if len(text) == 0 {
		return 0
	}
	n := 0
	for n < len(text) && text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z' {
		n++
	}
	if n == 0 {
		return r.symbol(text)
	}
	word := string(text[:n])
	number, sign, given := 0, 1, false
	if n < len(text) && text[n] == '-' {
		sign = -1
		n++
	}
	for n < len(text) && text[n] >= '0' && text[n] <= '9' && number < 1<<20 {
		number, given = number*10+int(text[n]-'0'), true
		n++
	}
	if n < len(text) && text[n] == ' ' {
		n++
	}
	r.word(word, sign*number, given)
	return n
}

// symbol reads a control symbol and returns its size.
func (r *rtfReader) symbol(text []byte) (size int) {
	switch c := text[0]; {
	case c == '\'' && len(text) > 2:
		if value, ok := hexByte(text[1:]); ok && r.skip == 0 {
			r.show([]byte(string(charmap.Windows1252.DecodeByte(value)))...)
		}
		r.skip = max(0, r.skip-1)
		return 3
	case c == '*':
		r.hide()
	case c == '~':
		r.show(' ')
	case c == '{' || c == '}' || c == '\\':
		r.show(c)
	}
	return 1
}

// word handles a control word with its number; given is false if it has none.
func (r *rtfReader) word(word string, number int, given bool) {
	switch word {
	case "par", "line", "row", "sect", "page":
		r.show('\n')
	case "tab", "cell":
		r.show(' ')
	case "u":
		r.show([]byte(string(rune(uint16(number))))...)
		r.skip = r.unicode
	case "uc":
		r.unicode = min(max(number, 0), 8)
	case "htmlrtf":
		r.htmlrtf = !given || number != 0
	case "v":
		if !given || number != 0 {
			r.hide()
		} else if r.hidden == r.depth {
			r.hidden = 0
		}
	case "fldinst":
		r.field = max(1, r.depth)
	case "fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "htmltag", "mhtmltag", "themedata",
		"listtable", "generator":
		r.hide()
	}
}

// hexByte reads the two hexadecimal digits at the start of text.
func hexByte(text []byte) (value byte, ok bool) {
	for _, c := range text[:2] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		value = value<<4 | c
	}
	return value, true
}
