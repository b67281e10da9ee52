// Package pages writes arrays to files of a checkpoint, page by page, and reads them back. A
// file is the pages of one array in order, each preceded by its length in four bytes,
// little-endian.
package pages

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// An Array is what is written and read: *arrays.Counting or *arrays.Bits.
type Array interface {
	Version() uint64
	Geometry() filter.Geometry
	CopyPage(page int, m *arrays.Image)
	LoadPage(b []byte) (page int, err error)
	Load(m *arrays.Image) error
	Generation() uint64
}

var (
	_ Array = (*arrays.Counting)(nil)
	_ Array = (*arrays.Bits)(nil)
)

// pagesAtOnce is the number of pages copied between two batches: 1 MiB, about 100 microseconds of
// the writer's time.
const pagesAtOnce = 16

// Writer returns a function that writes every page of an array. It copies the pages in functions
// that it passes to between. between must run them while the array does not change.
func Writer(array Array, between func(func())) func(io.Writer) error {
	return func(w io.Writer) error { return writePages(array, between, w, func(*arrays.Image, []byte) {}) }
}

// writePages writes every page of an array, and calls each with the page and its encoding.
func writePages(array Array, between func(func()), w io.Writer, each func(m *arrays.Image, page []byte)) error {
	var buf []byte
	var images [pagesAtOnce]arrays.Image // reused, or the garbage collector would run
	pages := array.Geometry().Pages()
	for page := 0; page < pages; page += pagesAtOnce {
		n := min(pagesAtOnce, pages-page)
		between(func() {
			for i := range n {
				array.CopyPage(page+i, &images[i])
			}
		})
		for i := range n { // encoding takes ten times as long as copying, and no report waits for it
			m := &images[i]
			buf = appendSized(buf[:0], m.Append)
			each(m, buf[sizeBytes:])
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendSized appends what f appends, preceded by its length in four bytes.
func appendSized(b []byte, f func([]byte) []byte) []byte {
	at := len(b)
	var size [4]byte
	b = f(append(b, size[:]...))
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-len(size)))
	return b
}

// maxPage bounds the encoding of one page: its cells, and an overflow entry
// for each of them.
const maxPage = 2 << 20

// readAhead is the number of bytes of a file that are read at once: several pages.
const readAhead = 256 << 10

// Load reads the pages of an array from a file of a store. Every page must be present, once and in
// order: if one were missing, the array would silently undercount.
//
// From a store that is being salvaged, Load takes the pages that a damaged file still has. The
// other pages stay empty; [Scan] returns them.
func Load(st *store.Store, name string, array Array) error {
	if n := st.Salvaged(); n != nil && n.Damaged(name) {
		_, err := Salvage(n, name, array.Geometry(), array.Generation(), array.Load)
		return err
	}
	f, err := st.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, readAhead)
	var buf []byte
	var size [4]byte
	for want := range array.Geometry().Pages() {
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return unreadable(name, want, err)
		}
		n := binary.LittleEndian.Uint32(size[:])
		if n > maxPage {
			return Damaged(name, fmt.Errorf("page %d of %d bytes, limit %d", want, n, maxPage))
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if _, err := io.ReadFull(r, buf); err != nil {
			return unreadable(name, want, err)
		}
		page, err := array.LoadPage(buf)
		if err != nil {
			return Damaged(name, fmt.Errorf("page %d: %w", want, err))
		}
		if page != want {
			return Damaged(name, fmt.Errorf("page %d where page %d belongs", page, want))
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("bytes after the last page")
		}
		return unreadable(name, array.Geometry().Pages(), err)
	}
	return nil
}

// unreadable returns the store's own error about a damaged file unchanged, and wraps any other
// error.
func unreadable(name string, page int, err error) error {
	var damage *store.DamageError
	if errors.As(err, &damage) {
		return err
	}
	return Damaged(name, fmt.Errorf("page %d: %w", page, err))
}

// Damaged returns the error for a file whose content is wrong.
func Damaged(name string, err error) error {
	return &store.DamageError{File: name, What: err.Error(),
		Advice: "see what \"bulkhead doctor\" says of the data folder, and mend it with --repair or restore a backup"}
}
