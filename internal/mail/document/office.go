package document

import (
	"archive/zip"
	"bytes"
	"path"
	"slices"
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
		return strings.HasSuffix(file, ".xml") && slices.ContainsFunc(wordParts[:],
			func(part string) bool { return strings.HasPrefix(file, part) })
	case folder == "xl/":
		return file == "sharedStrings.xml"
	}
	switch folder {
	case "xl/worksheets/", "ppt/slides/", "word/diagrams/", "xl/drawings/", "xl/diagrams/", "ppt/diagrams/":
		return true
	}
	return false
}

// wordParts are how the names of the parts of a letter begin that have a text. Some programs number the first of them.
var wordParts = [...]string{"document", "header", "footer", "footnotes", "endnotes", "comments"}

// isAnyXML reports whether a file of a document may have a text, whatever its name: the relations of a document name
// its parts. Properties of the document are not shown.
func isAnyXML(name string) bool {
	return strings.HasSuffix(name, ".xml") && !strings.HasPrefix(name, "docProps/") &&
		!strings.HasPrefix(name, "customXml/") && name != "[Content_Types].xml" && name != "META-INF/manifest.xml"
}

// isOpenDocument is isOpenXML for OpenDocument.
func isOpenDocument(name string) bool { return name == "content.xml" }

// office takes the text of an office document, its pictures, and the pages that it shows within.
func (o *opener) office(files []*zip.File, hasText func(string) bool, depth int) {
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
		case IsPage(f.Name), extension(f.Name) == ".rtf":
			o.member(f.Name, o.entry(f, false), depth)
		}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		for _, f := range files {
			if isAnyXML(f.Name) && !hasText(f.Name) && !o.done() && len(text) < maxText {
				text = o.words(text, o.entry(f, true))
			}
		}
	}
	o.add(Item{Kind: Text, Data: append(text, links...)})
}

// words appends the text of an XML file to dst: paragraphs, rows and cells in lines. Texts that are deleted or not to
// be shown are left out.
func (o *opener) words(dst, source []byte) []byte {
	t := markup.Over(scan.String(source), maxText)
	var name []byte
	hidden, inRun := false, false
	for len(dst) < maxText && t.Next() && !o.pace.Over(len(t.Raw())) {
		switch t.Kind() {
		case markup.Text:
			if !hidden {
				dst = t.AppendText(dst)
			}
		case markup.Start, markup.SelfClosing:
			name = t.AppendName(name[:0])
			switch _, local, _ := bytes.Cut(name, []byte(":")); string(local) {
			case "tab", "br", "s", "line-break":
				dst = append(dst, ' ')
			case "a":
				dst = o.attribute(dst, &t, "xlink:href")
			case "hlink":
				dst = o.attribute(dst, &t, "w:dest")
			case "r":
				inRun, hidden = t.Kind() == markup.Start, false
			case "vanish": // outside of a run, it is of the mark of a paragraph
				hidden = inRun && isOn(&t)
			case "deltext", "tracked-changes":
				hidden = t.Kind() == markup.Start
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
			case "r":
				inRun, hidden = false, false
			case "deltext", "tracked-changes":
				hidden = false
			}
		}
	}
	return append(dst[:min(len(dst), maxText)], '\n')
}

// isOn reports whether the value of a tag that switches a property of a text does not switch it off.
func isOn(t *markup.Tokens) bool {
	on := true
	t.Attributes(func(key, written string) bool {
		if key == "w:val" {
			value := markup.Value(written)
			on = value != "0" && value != "false" && value != "off"
		}
		return on
	})
	return on
}

// flat takes a document that is no archive, and reports whether the file is one.
func (o *opener) flat(name string, data []byte) bool {
	flat, isXML := isFlat(name, data)
	switch {
	case flat && isXML:
		o.add(Item{name, Text, o.words(nil, data)})
	case flat:
		o.add(Item{name, Page, data})
	}
	return flat
}

// isFlat reports whether a file is a document that is a single page or a single file of XML, by its name and its
// content, and whether it is XML. Office programs open a file by what is in it.
func isFlat(name string, data []byte) (flat, isXML bool) {
	if !begins(data, "<") {
		return false, false
	}
	isXML = begins(data, "<?xml")
	switch extension(name) {
	case ".doc", ".dot", ".xls", ".xlt", ".ppt":
		return true, isXML
	case ".fodt", ".fods", ".fodp":
		return isXML, isXML
	case ".xml":
		return isXML && bytes.Contains(data[:min(len(data), 1<<10)], []byte("<?mso-application ")), true
	}
	return false, false
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
