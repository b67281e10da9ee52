package document

import (
	"archive/zip"
	"bytes"
	"path"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/markup"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// maxText is how many bytes of a document's text are returned.
const maxText = 256 << 10

// isOpenXML reports whether a file of an Office Open XML document has its text or links.
func isOpenXML(name string) bool {
	folder, file := path.Split(name)
	switch {
	case strings.HasSuffix(name, ".rels"):
		return strings.Contains(folder, "/_rels/")
	case folder == "word/":
		return file == "document.xml" || strings.HasPrefix(file, "header") || strings.HasPrefix(file, "footer")
	case folder == "xl/":
		return file == "sharedStrings.xml"
	case folder == "xl/worksheets/":
		return true
	}
	return folder == "ppt/slides/"
}

// isOpenDocument is isOpenXML for OpenDocument.
func isOpenDocument(name string) bool { return name == "content.xml" }

// office takes the text of an office document, and its pictures.
func (o *opener) office(files []*zip.File, hasText func(string) bool) {
	var text, links []byte
	for _, f := range files {
		if o.done() || len(text) > maxText {
			break
		}
		switch {
		case hasText(f.Name) && strings.HasSuffix(f.Name, ".rels"):
			links = o.targets(links, o.entry(f, true))
		case hasText(f.Name):
			text = o.words(text, o.entry(f, true))
		case strings.Contains(f.Name, "media/") || strings.HasPrefix(f.Name, "Pictures/"):
			o.add(Item{path.Base(f.Name), File, o.entry(f, false)})
		}
	}
	o.add(Item{Kind: Text, Data: append(text, links...)})
}

// words appends the text of an XML file to dst: paragraphs, rows and cells in lines.
func (o *opener) words(dst, source []byte) []byte {
	t := markup.Over(scan.String(source), maxText)
	var name []byte
	for len(dst) < maxText && t.Next() && !o.pace.Over(len(t.Raw())) {
		switch t.Kind() {
		case markup.Text:
			dst = t.AppendText(dst)
		case markup.Start, markup.SelfClosing:
			name = t.AppendName(name[:0])
			switch _, local, _ := bytes.Cut(name, []byte(":")); string(local) {
			case "tab", "br", "s", "line-break":
				dst = append(dst, ' ')
			case "a":
				dst = o.attribute(dst, &t, "xlink:href")
			}
		case markup.End:
			name = t.AppendName(name[:0])
			local := name
			if _, after, ok := bytes.Cut(name, []byte(":")); ok {
				local = after
			}
			switch string(local) {
			case "p", "h", "si", "row", "tc", "c", "v", "instrtext":
				dst = append(dst, '\n')
			}
		}
	}
	return append(dst[:min(len(dst), maxText)], '\n')
}

// targets appends the links to elsewhere that a file of relations names.
func (o *opener) targets(dst, source []byte) []byte {
	t := markup.Over(scan.String(source), maxText)
	var name []byte
	for len(dst) < maxText && t.Next() && !o.pace.Over(len(t.Raw())) {
		if t.Kind() == markup.Start || t.Kind() == markup.SelfClosing {
			if name = t.AppendName(name[:0]); string(name) == "relationship" {
				dst = o.attribute(dst, &t, "target")
			}
		}
	}
	return dst
}

// attribute appends the link in an attribute of a tag, as a line.
func (o *opener) attribute(dst []byte, t *markup.Tokens, name string) []byte {
	n := 0
	t.Attributes(func(key, written string) bool {
		if key == name {
			if link := markup.Value(written); isLink(link) {
				dst = append(append(append(dst, '\n'), link...), '\n')
			}
		}
		n++
		return n < 16
	})
	return dst
}

// isLink reports whether a target leads out of a document.
func isLink[T string | []byte](target T) bool {
	return len(target) > 4 && strings.EqualFold(string(target[:4]), "http")
}
