package document

import (
	"bytes"
	"compress/zlib"
	"encoding/ascii85"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/tiff/lzw"
)

// The limits of what is read of a PDF.
const (
	maxObjects = 4096     // objects that are found again by their number
	maxDict    = 4 << 10  // bytes of what stands before a stream
	maxGlyphs  = 64 << 10 // characters in all fonts
	maxStreams = 256      // streams that are decompressed
	maxNames   = 256      // dictionaries of fonts
)

// A pdf is a PDF while it is read.
type pdf struct {
	*opener
	objects map[int][]byte // by number: what stands between obj and endobj, or the stream
	maps    map[int]glyphs // likewise, of ToUnicode streams
	content [][]byte
	links   []byte
	left    int // characters that fonts may yet have
	streams int // that were decompressed
}

// pdf takes the text that a PDF shows, by its content streams in the order of the file,
// and the links that it has.
func (o *opener) pdf(name string, data []byte) bool {
	if bytes.Contains(data, []byte("/Encrypt")) {
		return false
	}
	d := pdf{opener: o, objects: make(map[int][]byte), maps: make(map[int]glyphs), left: maxGlyphs}
	for rest := data; len(rest) > 0 && !d.pace.Over(1); {
		i := bytes.Index(rest, []byte("obj"))
		if i < 0 {
			break
		}
		number, ok := numberBefore(rest[:i])
		rest = rest[i+3:]
		if !ok {
			continue
		}
		n := d.object(number, rest)
		if d.pace.Over(n) {
			break
		}
		rest = rest[n:]
	}
	fonts := d.fonts()
	var text []byte
	for _, c := range d.content {
		if len(text) > maxText || o.pace.Err() != nil {
			break
		}
		t := shower{dst: text, fonts: fonts, pace: o.pace}
		t.show(c)
		text = append(t.dst, '\n')
	}
	o.add(Item{Name: name, Kind: Text, Data: append(text[:min(len(text), maxText)],
		d.links[:min(len(d.links), maxText)]...)})
	return true
}

// numberBefore returns the number of the object whose word "obj" comes next.
func numberBefore(text []byte) (int, bool) {
	fields := bytes.Fields(text[max(0, len(text)-24):])
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.Atoi(string(fields[len(fields)-2]))
	_, bad := strconv.Atoi(string(fields[len(fields)-1]))
	return n, err == nil && bad == nil && n > 0
}

// object takes the object at the start of text, and returns how long it is.
func (d *pdf) object(number int, text []byte) int {
	head := text[:min(len(text), maxDict)]
	stream := bytes.Index(head, []byte("stream"))
	if end := bytes.Index(head, []byte("endobj")); stream < 0 || end >= 0 && end < stream {
		// The searched text is consumed, so no part of it is read twice.
		if end < 0 {
			end = bytes.Index(text, []byte("endobj"))
		}
		if end < 0 {
			end = len(text)
		}
		d.keep(number, text[:end])
		return end
	}
	dict, body := text[:stream], text[stream+len("stream"):]
	body = bytes.TrimPrefix(bytes.TrimPrefix(body, []byte("\r")), []byte("\n"))
	size := bytes.Index(body, []byte("endstream"))
	if size < 0 {
		size = len(body)
	}
	d.stream(number, dict, body[:size])
	return len(text) - len(body) + size
}

// keep notes an object that is no stream, and its links.
func (d *pdf) keep(number int, text []byte) {
	if len(d.objects) < maxObjects {
		d.objects[number] = text
	}
	for len(d.links) < maxText {
		i := bytes.Index(text, []byte("/URI"))
		if i < 0 {
			return
		}
		text = bytes.TrimLeft(text[i+4:], " \r\n\t")
		s, n := pdfString(text)
		if isLink(s) {
			d.links = append(append(d.links, s...), '\n')
		}
		text = text[n:]
	}
}

// stream takes a stream: of text, of objects, or of a map of characters. It ignores pictures,
// fonts and what is encoded in other ways.
func (d *pdf) stream(number int, dict, body []byte) {
	dict = bytes.Join(bytes.Fields(dict), nil)
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return bytes.Contains(dict, []byte(n)) })
	}
	if has("/Subtype/Image", "/Length1/", "/Length2/", "/Type/XRef", "Type0C", "Type1C", "/OpenType") || d.done() {
		return
	}
	if _, names, ok := bytes.Cut(dict, []byte("/Filter")); ok {
		r := unfiltered(names, body)
		if d.streams++; r == nil || d.streams > maxStreams || d.pace.Over(len(body)) {
			return
		}
		body = d.read(r, true)
	}
	switch {
	case has("/ObjStm"):
		d.packed(body)
	case bytes.Contains(body, []byte("begincmap")):
		d.maps[number] = d.glyphs(body)
	case bytes.Contains(body, []byte("BT")) && (bytes.Contains(body, []byte("Tj")) || bytes.Contains(body, []byte("TJ"))):
		d.content = append(d.content, body)
	default:
		d.keep(number, body)
	}
}

// unfiltered returns what the filters of a stream decode: Flate or LZW, also within one of the encodings as text. It
// returns nil for other filters, as those of pictures. names is what follows the key, without blanks.
//
// Source: ISO 32000-1, 7.4.
func unfiltered(names, body []byte) io.Reader {
	if list, ok := bytes.CutPrefix(names, []byte("[")); ok {
		names = list[:max(0, bytes.IndexByte(list, ']'))]
	} else if at := bytes.IndexAny(names[min(1, len(names)):], "/<>[]"); at >= 0 {
		names = names[:1+at]
	}
	filters := strings.FieldsFunc(string(names), func(r rune) bool { return r == '/' })
	if len(filters) == 0 {
		return nil
	}
	var r io.Reader = bytes.NewReader(body)
	switch first := filters[0]; first {
	case "ASCII85Decode", "A85":
		text, _, _ := bytes.Cut(bytes.TrimPrefix(body, []byte("<~")), []byte("~"))
		r, filters = ascii85.NewDecoder(bytes.NewReader(text)), filters[1:]
	case "ASCIIHexDecode", "AHx":
		text, _, _ := bytes.Cut(body, []byte(">"))
		r, filters = bytes.NewReader(hexadecimal(text)), filters[1:]
	}
	switch {
	case len(filters) == 0:
		return r
	case len(filters) > 1:
		return nil
	}
	switch filters[0] {
	case "FlateDecode", "Fl":
		if z, err := zlib.NewReader(r); err == nil {
			return z
		}
	case "LZWDecode", "LZW":
		return lzw.NewReader(r, lzw.MSB, 8)
	}
	return nil
}

// packed takes a stream of objects, which begins with their numbers and places.
func (d *pdf) packed(body []byte) {
	first := bytes.IndexAny(body, "<[(/")
	if first < 0 {
		return
	}
	head := bytes.Fields(body[:first])
	before := 0
	for i := 0; i+1 < len(head); i += 2 {
		number, err1 := strconv.Atoi(string(head[i]))
		from, err2 := strconv.Atoi(string(head[i+1]))
		to := len(body) - first
		if i+3 < len(head) {
			if n, err := strconv.Atoi(string(head[i+3])); err == nil {
				to = min(to, n)
			}
		}
		if err1 != nil || err2 != nil || from < before || from > to || d.pace.Over(to-from) {
			return
		}
		before = to
		d.keep(number, body[first:][from:to])
	}
}

// fonts returns the fonts' maps of characters, by the names that pages give the fonts. Where
// pages differ, the first one counts.
func (d *pdf) fonts() map[string]glyphs {
	fonts := make(map[string]glyphs)
	dicts := 0
	for _, number := range slices.Sorted(maps.Keys(d.objects)) {
		text := d.objects[number]
		for at := 0; dicts < maxNames; {
			i := bytes.Index(text[at:], []byte("/Font"))
			if i < 0 {
				break
			}
			at += i + len("/Font")
			names := bytes.TrimLeft(text[at:], " \r\n\t")
			if number, ok := reference(names); ok {
				names = bytes.TrimLeft(d.objects[number], " \r\n\t")
			}
			if bytes.HasPrefix(names, []byte("<<")) {
				d.named(fonts, names[:min(len(names), maxDict)])
				dicts++
			}
		}
	}
	return fonts
}

// named takes the fonts of a dictionary of names.
func (d *pdf) named(fonts map[string]glyphs, dict []byte) {
	if end := bytes.Index(dict, []byte(">>")); end > 0 {
		dict = dict[2:end]
	}
	for entry := range bytes.SplitSeq(dict, []byte("/")) {
		name, ref, ok := bytes.Cut(bytes.TrimSpace(entry), []byte(" "))
		number, isRef := reference(ref)
		if !ok || !isRef || d.pace.Over(len(entry)) {
			continue
		}
		font := d.objects[number]
		font = font[:min(len(font), maxDict)]
		i := bytes.Index(font, []byte("/ToUnicode"))
		if i < 0 || fonts[string(name)].codes != nil {
			continue
		}
		if to, ok := reference(font[i+len("/ToUnicode"):]); ok {
			fonts[string(name)] = d.maps[to]
		}
	}
}

// reference reads "12 0 R".
func reference(text []byte) (int, bool) {
	fields := bytes.Fields(text[:min(len(text), 24)])
	if len(fields) < 3 || fields[2][0] != 'R' {
		return 0, false
	}
	n, err := strconv.Atoi(string(fields[0]))
	return n, err == nil
}
