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

// mapi calls take with the properties in data, texts as UTF-8, up to the first that is damaged.
func (o *opener) mapi(data []byte, take func(property uint16, value []byte)) {
	word := func() (n uint32, ok bool) {
		if len(data) < 4 {
			return 0, false
		}
		n, data = binary.LittleEndian.Uint32(data), data[4:]
		return n, true
	}
	skip := func(n uint64) bool {
		if n > uint64(len(data)) {
			return false
		}
		data = data[n:]
		return true
	}
	count, ok := word()
	for ; ok && count > 0 && !o.pace.Over(8); count-- {
		var tag uint32
		if tag, ok = word(); !ok {
			return
		}
		kind, property := uint16(tag), uint16(tag>>16)
		if property >= 0x8000 { // a named one: an identifier, and a number or a name
			var named, size uint32
			if !skip(16) {
				return
			}
			if named, ok = word(); !ok {
				return
			}
			if size, ok = word(); !ok {
				return
			}
			if named != 0 && !skip((uint64(size)+3)&^3) {
				return
			}
		}
		values := uint32(1)
		variable := false
		width := uint64(4)
		switch kind &^ 0x1000 {
		case 0x02, 0x03, 0x04, 0x0a, 0x0b: // numbers of up to 4 bytes
		case 0x05, 0x06, 0x07, 0x14, 0x40: // numbers of 8 bytes, times
			width = 8
		case 0x48:
			width = 16
		case 0x0d, 0x1e, 0x1f, 0x102: // an object, texts, bytes
			variable = true
		default:
			return
		}
		if kind&0x1000 != 0 || variable {
			if values, ok = word(); !ok {
				return
			}
		}
		for ; values > 0; values-- {
			if !variable {
				if !skip(width) {
					return
				}
				continue
			}
			var size uint32
			if size, ok = word(); !ok || uint64(size) > uint64(len(data)) {
				return
			}
			value := data[:size]
			if !skip(min(uint64(len(data)), (uint64(size)+3)&^3)) || o.pace.Over(int(size)) {
				return
			}
			switch kind &^ 0x1000 {
			case 0x1e:
				value = asUTF8(bytes.TrimRight(value, "\x00"))
			case 0x1f:
				value = bytes.TrimRight([]byte(fromUTF16LE(value)), "\x00")
			}
			take(property, value)
		}
	}
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

// rtfText returns the text of RTF.
func (o *opener) rtfText(source []byte) []byte {
	var out []byte
	hidden := 0 // depth of the group that is not shown, 0 outside
	depth := 0
	unicode, skip := 1, 0 // bytes that replace a character for old readers, and how many of them are left
	htmlrtf := false
	show := func(text ...byte) {
		if hidden == 0 && !htmlrtf {
			out = append(out, text...)
		}
	}
	for at := 0; at < len(source) && len(out) < maxText && !o.pace.Over(1); {
		c := source[at]
		at++
		switch c {
		case '{':
			depth++
		case '}':
			if depth == hidden {
				hidden = 0
			}
			depth = max(0, depth-1)
		case '\r', '\n':
		case '\\':
			if at == len(source) {
				return out
			}
			n := at
			for n < len(source) && (source[n]|0x20) >= 'a' && (source[n]|0x20) <= 'z' {
				n++
			}
			word := string(source[at:n])
			if word == "" {
				c = source[at]
				at++
				switch {
				case c == '\'' && at+1 < len(source):
					if value, ok := hexByte(source[at:]); ok && skip == 0 {
						show([]byte(string(charmap.Windows1252.DecodeByte(value)))...)
					}
					skip = max(0, skip-1)
					at += 2
				case c == '*' && hidden == 0:
					hidden = max(1, depth)
				case c == '~':
					show(' ')
				case c == '{' || c == '}' || c == '\\':
					show(c)
				}
				continue
			}
			number, sign, given := 0, 1, false
			if n < len(source) && source[n] == '-' {
				sign = -1
				n++
			}
			for n < len(source) && source[n] >= '0' && source[n] <= '9' && number < 1<<20 {
				number, given = number*10+int(source[n]-'0'), true
				n++
			}
			if number *= sign; n < len(source) && source[n] == ' ' {
				n++
			}
			at = n
			switch word {
			case "par", "line", "row", "sect", "page":
				show('\n')
			case "tab", "cell":
				show(' ')
			case "u":
				show([]byte(string(rune(uint16(number))))...)
				skip = unicode
			case "uc":
				unicode = min(max(number, 0), 8)
			case "htmlrtf":
				htmlrtf = !given || number != 0
			case "fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "htmltag", "mhtmltag", "themedata",
				"listtable", "generator":
				if hidden == 0 {
					hidden = max(1, depth)
				}
			}
		default:
			if skip > 0 {
				skip--
				continue
			}
			show(c)
		}
	}
	return out
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
