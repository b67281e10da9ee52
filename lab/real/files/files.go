// Package files makes files in which mail hides its text, as small as programs that read them accept.
package files

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"html"
	"slices"
	"strings"
)

// Zip returns an archive of files, each a name and its content.
func Zip(files ...[2]string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		out, _ := z.Create(f[0])
		_, _ = out.Write([]byte(f[1]))
	}
	z.Close()
	return b.Bytes()
}

// PDF returns a document of one page with lines and links, and three identifiers in digits that make it another file.
//
// Source: ISO 32000-1, 7.5.
func PDF(lines, links []string, comment, id, changed string) []byte {
	var text, stream bytes.Buffer
	escape := strings.NewReplacer("(", `\(`, ")", `\)`, `\`, `\\`)
	text.WriteString("BT /F1 11 Tf 72 760 Td 14 TL\n")
	for _, line := range lines {
		fmt.Fprintf(&text, "(%s) Tj T*\n", escape.Replace(line))
	}
	text.WriteString("ET\n")
	z := zlib.NewWriter(&stream)
	_, _ = z.Write(text.Bytes())
	z.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%%PDF-1.4\n%% %s\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"+
		"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"+
		"3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Annots [", comment)
	for _, url := range links {
		fmt.Fprintf(&b, "<< /Type /Annot /Subtype /Link /A << /S /URI /URI (%s) >> >> ", escape.Replace(url))
	}
	fmt.Fprintf(&b, "] >>\nendobj\n4 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n", stream.Len())
	b.Write(stream.Bytes())
	fmt.Fprintf(&b, "\nendstream\nendobj\ntrailer\n<< /Root 1 0 R /ID [<%s> <%s>] >>\n%%%%EOF\n", id, changed)
	return b.Bytes()
}

// Winmail returns a file winmail.dat with a text as the body of its message.
//
// Source: Microsoft, [MS-OXTNEF] 2.1.
func Winmail(key uint16, message, text string) []byte {
	little := binary.LittleEndian
	b := little.AppendUint16(little.AppendUint32(nil, 0x223e9f78), key)
	attribute := func(id uint32, value []byte) {
		b = little.AppendUint32(little.AppendUint32(append(b, 1), id), uint32(len(value)))
		b = append(b, value...)
		sum := uint16(0)
		for _, c := range value {
			sum += uint16(c)
		}
		b = little.AppendUint16(b, sum)
	}
	attribute(0x00018009, []byte(message+"\x00")) // identifier of the message
	attribute(0x0002800c, []byte(strings.ReplaceAll(text, "\n", "\r\n")+"\x00"))
	return b
}

// Document returns a text document (docx) with the paragraphs of a text, and links.
//
// Source: ECMA-376, Part 1, 17.2 and Part 2, 9.3.
func Document(text string, links []string, creator string) []byte {
	var body strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		fmt.Fprintf(&body, "<w:p><w:r><w:t>%s</w:t></w:r></w:p>", html.EscapeString(p))
	}
	rels := ""
	for i, url := range links {
		rels += fmt.Sprintf("<Relationship Id=\"r%d\" Target=\"%s\" TargetMode=\"External\"/>", i, html.EscapeString(url))
	}
	return Zip([2]string{"[Content_Types].xml", "<Types/>"},
		[2]string{"docProps/core.xml", "<creator>" + creator + "</creator>"},
		[2]string{"word/_rels/document.xml.rels", "<Relationships>" + rels + "</Relationships>"},
		[2]string{"word/document.xml", "<w:document><w:body>" + body.String() + "</w:body></w:document>"})
}

// UUEncoded returns a file as old programs put it into a text.
//
// Source: POSIX, uuencode.
func UUEncoded(name, content string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "begin 644 %s\n", name)
	for chunk := range slices.Chunk([]byte(content), 45) {
		b.WriteByte(' ' + byte(len(chunk)))
		for three := range slices.Chunk(append(chunk, 0, 0)[:(len(chunk)+2)/3*3:(len(chunk)+2)/3*3], 3) {
			bits := uint32(three[0])<<16 | uint32(three[1])<<8 | uint32(three[2])
			for shift := 18; shift >= 0; shift -= 6 {
				c := byte(bits>>shift) & 0x3f
				if c == 0 {
					c = '`' - ' '
				}
				b.WriteByte(' ' + c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String() + "`\nend\n"
}
