package document

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// A tnefFile builds a file winmail.dat.
type tnefFile struct{ b []byte }

func newTNEF() *tnefFile {
	return &tnefFile{binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint32(nil, tnefMagic), 7)}
}

func (f *tnefFile) add(id uint32, value []byte) *tnefFile {
	level := byte(1)
	if id == tnefAttachBegin || id == tnefAttachTitle || id == tnefAttachData || id == tnefAttachProps {
		level = 2
	}
	f.b = append(f.b, level)
	f.b = binary.LittleEndian.AppendUint32(f.b, id)
	f.b = binary.LittleEndian.AppendUint32(f.b, uint32(len(value)))
	f.b = append(append(f.b, value...), 0, 0)
	return f
}

// A property is one of MAPI, with its type.
type property struct {
	tag   uint32
	value []byte
}

func mapiProps(props ...property) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(props)))
	for _, p := range props {
		b = binary.LittleEndian.AppendUint32(b, p.tag)
		switch uint16(p.tag) {
		case 0x03, 0x40:
			b = append(b, p.value...)
			continue
		}
		b = binary.LittleEndian.AppendUint32(b, 1)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p.value)))
		b = append(b, p.value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return b
}

func utf16Of(text string) []byte {
	var b []byte
	for _, u := range append(utf16.Encode([]rune(text)), 0) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// uncompressedRTF returns RTF in the form that says that it is not compressed.
func uncompressedRTF(text string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(text)+12))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, "MELA\x00\x00\x00\x00"...)
	return append(b, text...)
}

// TestTNEF checks that bodies and files in winmail.dat are found.
func TestTNEF(t *testing.T) {
	const page = "<p>the page</p>"
	number := property{0x00170003, []byte{1, 0, 0, 0}}
	when := property{0x00390040, make([]byte, 8)}
	files := func() *tnefFile {
		return newTNEF().add(0x00089006, []byte{0, 0, 1, 0}).add(tnefMessageProps, mapiProps(number, when,
			property{0x10130102, []byte(page)}))
	}
	for name, c := range map[string]struct {
		file *tnefFile
		want string
	}{
		"page": {files(), "body.html 2 " + page},
		"page and text": {newTNEF().add(tnefBody, []byte("the text\x00")).add(tnefMessageProps,
			mapiProps(property{0x10130102, []byte(page)})), "body.html 2 " + page},
		"text":         {newTNEF().add(tnefBody, []byte("the text\x00")), "body.txt 1 the text"},
		"western text": {newTNEF().add(tnefBody, []byte("Gr\xfc\xdfe\x00")), "body.txt 1 Grüße"},
		"wide text": {newTNEF().add(tnefMessageProps, mapiProps(number, property{0x1000001f, utf16Of("Größe")})),
			"body.txt 1 Größe"},
		"rtf": {newTNEF().add(tnefMessageProps, mapiProps(property{0x10090102, uncompressedRTF(
			`{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\*\generator x;}\pard Gr\'fc\u223?e \{here\}\par line two}`)})),
			"body.txt 1 Grüße {here}\nline two"},
		"rtf from html": {newTNEF().add(tnefMessageProps, mapiProps(property{0x10090102, uncompressedRTF(
			`{\rtf1\ansi\fromhtml1{\*\htmltag64 <p>}\htmlrtf {\htmlrtf0 shown{\*\htmltag72 </p>}\htmlrtf ` +
				`not\par}\htmlrtf0 }`)})),
			"body.txt 1 shown"},
		"file": {newTNEF().add(tnefAttachBegin, make([]byte, 14)).add(tnefAttachTitle, []byte("A.EXE\x00")).
			add(tnefAttachData, []byte("MZ data")), "A.EXE 0 MZ data"},
		"two files": {newTNEF().add(tnefAttachBegin, nil).add(tnefAttachTitle, []byte("A~1.HTM\x00")).
			add(tnefAttachData, []byte(page)).add(tnefAttachProps, mapiProps(property{0x3707001f, utf16Of("Größe.html")})).
			add(tnefAttachBegin, nil).add(tnefAttachTitle, []byte("b.txt\x00")).add(tnefAttachData, []byte("b")),
			"Größe.html 2 " + page + "|b.txt 0 b"},
	} {
		var got []string
		budget := Budget{Bytes: 1 << 20, Items: 8}
		for _, item := range Open(t.Context(), "winmail.dat", c.file.b, &budget) {
			got = append(got, item.Name+" "+string(rune('0'+item.Kind))+" "+strings.TrimSpace(string(item.Data)))
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		for cut := range len(c.file.b) {
			budget := Budget{Bytes: 1 << 20, Items: 8}
			Open(t.Context(), "winmail.dat", c.file.b[:cut], &budget)
		}
	}
}

// TestCompressedRTF checks the example of the specification, [MS-OXRTFCP] 4.1.1 and 4.2.
func TestCompressedRTF(t *testing.T) {
	simple := []byte{0x2d, 0, 0, 0, 0x2b, 0, 0, 0, 0x4c, 0x5a, 0x46, 0x75, 0xf1, 0xc5, 0xc7, 0xa7, 0x03, 0, 0x0a, 0,
		0x72, 0x63, 0x70, 0x67, 0x31, 0x32, 0x35, 0x42, 0x32, 0x0a, 0xf3, 0x20, 0x68, 0x65, 0x6c, 0x09, 0, 0x20, 0x62, 0x77,
		0x05, 0xb0, 0x6c, 0x64, 0x7d, 0x0a, 0x80, 0x0f, 0xa0}
	crossing := []byte{0x1a, 0, 0, 0, 0x1c, 0, 0, 0, 0x4c, 0x5a, 0x46, 0x75, 0xe2, 0xd4, 0x4b, 0x51, 0x41, 0, 0x04, 0x20,
		0x57, 0x58, 0x59, 0x5a, 0x0d, 0x6e, 0x7d, 0x01, 0x0e, 0xb0}
	for _, c := range []struct {
		data []byte
		want string
	}{{simple, "{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"}, {crossing, `{\rtf1 WXYZWXYZWXYZWXYZWXYZ}`}} {
		o := opener{budget: &Budget{Bytes: 1 << 16, Items: 1}}
		if got := o.inflateRTF(c.data[16:]); string(got) != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	o := opener{budget: &Budget{Bytes: 8, Items: 1}}
	if got := o.inflateRTF(bytes.Repeat([]byte{0, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, 100)); len(got) > 8 {
		t.Errorf("%d bytes beyond the budget of 8", len(got))
	}
}

func FuzzTNEF(f *testing.F) {
	f.Add(newTNEF().add(tnefMessageProps, mapiProps(property{0x1000001f, utf16Of("a")},
		property{0x10090102, uncompressedRTF(`{\rtf1\u1?\'41}`)})).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		budget := Budget{Bytes: 1 << 16, Items: 8}
		Open(t.Context(), "winmail.dat", data, &budget)
		o := opener{budget: &Budget{Bytes: 1 << 16, Items: 1}}
		o.rtfText(data)
		o.inflateRTF(data)
		o.mapi(data, func(uint16, []byte) {})
	})
}
