package document

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"strings"
)

// maxEntries is how many files an archive may have to be opened, since their table is read
// before any of them.
const maxEntries = 1000

// zip opens a zip archive, or the office document that it is.
func (o *opener) zip(data []byte, depth int) bool {
	if bytes.Count(data, []byte("PK\x01\x02")) > maxEntries {
		return false
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if z == nil || err != nil && len(z.File) == 0 {
		return false
	}
	entries := make(map[string]*zip.File, len(z.File))
	for _, f := range z.File {
		entries[f.Name] = f
	}
	switch {
	case entries["[Content_Types].xml"] != nil:
		o.office(z.File, isOpenXML, depth)
		return true
	case entries["content.xml"] != nil && entries["mimetype"] != nil:
		o.office(z.File, isOpenDocument, depth)
		return true
	case entries["META-INF/MANIFEST.MF"] != nil:
		return false // a program: its files are mostly those of libraries
	}
	for _, f := range z.File {
		if o.done() {
			break
		}
		if strings.HasSuffix(f.Name, "/") || f.Flags&1 != 0 {
			continue // folders, and what is encrypted
		}
		o.member(f.Name, o.entry(f, false), depth)
	}
	return true
}

// entry returns a file of a zip archive, or nothing of one that is damaged.
func (o *opener) entry(f *zip.File, part bool) []byte {
	if !part && f.UncompressedSize64 > uint64(o.budget.Bytes) {
		return nil // a large file must not use up what the others need
	}
	r, err := f.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	return o.read(r, part)
}

func (o *opener) gzip(name string, data []byte, depth int) bool {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return false
	}
	if inner, ok := strings.CutSuffix(strings.ToLower(name), ".tgz"); ok {
		name = inner + ".tar"
	} else if inner, ok := strings.CutSuffix(strings.ToLower(name), ".svgz"); ok {
		name = inner + ".svg"
	} else {
		name = strings.TrimSuffix(name, ".gz")
	}
	inside := o.read(r, false)
	if len(inside) > 262 && string(inside[257:262]) == "ustar" {
		return o.tar(inside, depth)
	}
	o.member(name, inside, depth)
	return true
}

func (o *opener) tar(data []byte, depth int) bool {
	r := tar.NewReader(bytes.NewReader(data))
	for range maxEntries {
		h, err := r.Next()
		if err != nil || o.done() {
			break
		}
		if h.Typeflag == tar.TypeReg {
			o.member(h.Name, o.read(r, false), depth)
		}
	}
	return true
}
