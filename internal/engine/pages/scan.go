package pages

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A Lost is a page of an array that cannot be read from its file, or that may be outdated there.
type Lost struct {
	Page int
	// Keys estimates the number of keys of the page: the average over the other pages, or 0 if
	// there are none.
	Keys uint64
	// Stale means that the page can be read, but may be older than it should be.
	Stale bool
}

// A Span is a range of bytes of a file's content that differs from what was written.
type Span struct{ From, To int64 }

const (
	sizeBytes = 4  // before each page
	pageHead  = 64 // bytes of the header in filter's encoding of a page
	lengthAt  = 52 // offset in it of the payload's length in bytes
	sumAt     = 60 // offset in it of the checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var pageMagic = []byte("bkhP")

// Scan reads a damaged file of pages of geometry g. It calls fn for every readable page of the
// generation, in order, and returns the others. A page has its own checksum, so a page in a bad
// span counts as good if some damage explains the span. If nothing explains it, the span may be an
// old one, and its pages are stale. If foreign is set, the file is not the one that was written,
// and all its pages are stale.
func Scan(r io.Reader, g filter.Geometry, generation uint64, bad []Span, foreign bool,
	fn func(*arrays.Image) error) ([]Lost, error) {
	s := &scan{r: bufio.NewReaderSize(r, pageHead+sizeBytes+maxPage), geometry: g, generation: generation}
	type place struct {
		page int
		span Span
	}
	var (
		places []place
		gaps   []Span
		keys   uint64
		want   int
		end    int64
	)
	for want < g.Pages() {
		m, span, mended, err := s.next(want)
		if err != nil {
			return nil, err
		}
		if m == nil {
			break
		}
		if span.From > end {
			gaps = append(gaps, Span{end, span.From})
		}
		if mended {
			gaps = append(gaps, span) // explains the bad block; the page itself is not lost
		}
		if err := fn(m); err != nil {
			return nil, err
		}
		places = append(places, place{m.Page, span})
		keys, want, end = keys+m.Info.Keys, m.Page+1, span.To
	}
	if want < g.Pages() {
		gaps = append(gaps, Span{end, 1 << 62})
	}
	have := make(map[int]bool, len(places))
	stale := make(map[int]bool)
	for _, p := range places {
		have[p.page], stale[p.page] = true, foreign
	}
	for _, b := range bad {
		explained := false
		for _, gap := range gaps {
			explained = explained || gap.From < b.To && b.From < gap.To
		}
		for _, p := range places {
			if !explained && p.span.From < b.To && b.From < p.span.To {
				stale[p.page] = true
			}
		}
	}
	var lost []Lost
	for page := range g.Pages() {
		if have[page] && !stale[page] {
			continue
		}
		l := Lost{Page: page, Stale: have[page]}
		if len(places) > 0 {
			l.Keys = (keys + uint64(len(places)) - 1) / uint64(len(places))
		}
		lost = append(lost, l)
	}
	return lost, nil
}

// Salvage is [Scan] for a file of a damaged store.
func Salvage(n *store.Inspection, name string, g filter.Geometry, generation uint64,
	fn func(*arrays.Image) error) ([]Lost, error) {
	var bad []Span
	for _, s := range n.BadSpans(name) {
		bad = append(bad, Span(s))
	}
	r, err := n.Content(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return Scan(r, g, generation, bad, n.Foreign(name), fn)
}

// parse reads a page in which one bit may be flipped. The encoding is described in filter's
// page.go: the checksum covers the first 60 bytes and the payload, and stands between the two.
func (s *scan) parse(b []byte, want int) (m *arrays.Image, mended bool) {
	fits := func(m *arrays.Image, err error) *arrays.Image {
		if err != nil || m.Page < want || m.Generation != s.generation {
			return nil
		}
		return m
	}
	if m := fits(arrays.ParseImage(b, s.geometry)); m != nil {
		return m, false
	}
	summed := append(bytes.Clone(b[:sumAt]), b[pageHead:]...)
	if !store.MendBit(summed, crc32.Checksum(summed, castagnoli), binary.LittleEndian.Uint32(b[sumAt:])) {
		return nil, false
	}
	fixed := append(bytes.Clone(summed[:sumAt]), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(fixed[sumAt:], crc32.Checksum(summed, castagnoli))
	return fits(arrays.ParseImage(append(fixed, summed[sumAt:]...), s.geometry)), true
}

// A scan looks for pages in damaged bytes.
type scan struct {
	r          *bufio.Reader
	geometry   filter.Geometry
	generation uint64
	at         int64
}

// next returns the next page with a number of at least want, the span of its size and bytes, and
// whether its size or one bit was wrong. It returns nil if there is no such page.
func (s *scan) next(want int) (m *arrays.Image, span Span, mended bool, err error) {
	for {
		b, err := s.r.Peek(s.r.Size())
		if err != nil && err != io.EOF {
			return nil, Span{}, false, err
		}
		i := bytes.Index(b, pageMagic)
		if i < 0 || len(b)-i < pageHead {
			if err == io.EOF {
				return nil, Span{}, false, nil
			}
			if i < 0 {
				i = len(b) - len(pageMagic) + 1
			}
			s.skip(i)
			continue
		}
		size := uint64(binary.LittleEndian.Uint32(b[i+lengthAt:])) + pageHead
		if uint64(len(b)-i) < size && size <= maxPage && err != io.EOF && i > 0 {
			s.skip(i) // so that all of it fits into the buffer
			continue
		}
		if uint64(len(b)-i) >= size {
			if m, mended := s.parse(b[i:uint64(i)+size], want); m != nil {
				span := Span{max(0, s.at+int64(i)-sizeBytes), s.at + int64(i) + int64(size)}
				mended = mended || i < sizeBytes || uint64(binary.LittleEndian.Uint32(b[i-sizeBytes:])) != size
				s.skip(i + int(size))
				return m, span, mended, nil
			}
		}
		s.skip(i + 1)
	}
}

func (s *scan) skip(n int) {
	k, _ := s.r.Discard(n) // what was peeked is there
	s.at += int64(k)
}
