package arrays

import (
	"fmt"
	"math/bits"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// An Image is a copy of one page at one moment, of a counting or of a bit array. It is what is
// written to disk and sent to peers.
//
// An Image is made by [Counting.Image], [Bits.Image] or [ParseImage]. Later writes to the array do
// not change it.
type Image struct {
	// Geometry is the geometry of the page's array.
	Geometry Geometry
	// Generation is the time slice of the array.
	Generation uint64
	// Page is the page's number in the array.
	Page int
	// Info is the state of the page.
	Info PageInfo

	plane // high is nil in bit arrays
	floor uint32
}

// Floor returns the floor of the array; see [Counting.SetFloor]. It returns 0 for a copy of the
// content that the page shows to others.
func (m *Image) Floor() uint32 { return m.floor }

// Image returns a copy of page p, 0 to Pages()-1.
func (c *Counting) Image(p int) *Image {
	m := new(Image)
	c.CopyPage(p, m)
	return m
}

// CopyPage makes m a copy of page p, 0 to Pages()-1. It reuses the memory of m.
func (c *Counting) CopyPage(p int, m *Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copyPage(p, m)
	m.floor = c.floor
	m.high = c.pages[p].table.Load().values(m.lines, m.Info.Overflow)
}

// Image returns a copy of page p, 0 to Pages()-1.
func (b *Bits) Image(p int) *Image {
	m := new(Image)
	b.CopyPage(p, m)
	return m
}

// CopyPage makes m a copy of page p, as [Counting.CopyPage] does.
func (b *Bits) CopyPage(p int, m *Image) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copyPage(p, m)
}

// copyPage copies the lines of page p to m, for the holder of a.mu.
func (a *array) copyPage(p int, m *Image) {
	*m = Image{
		Geometry:   a.geo,
		Generation: a.generation,
		Page:       p,
		Info:       a.pages[p].PageInfo,
		plane:      plane{lines: append(m.lines[:0], a.pageWords(p)...)},
	}
}

// fits returns an error that wraps [ErrGeometry] or [ErrVersion] unless page p, with the given
// generation and the geometry of fingerprint id, can belong to a.
func (a *array) fits(id, generation uint64, p int) error {
	switch {
	case id != a.id:
		return fmt.Errorf("%w: page of geometry %016x in an array of %016x", ErrGeometry, id, a.id)
	case generation != a.generation:
		return fmt.Errorf("%w: page of generation %d in an array of %d", ErrVersion, generation, a.generation)
	case p < 0 || p >= len(a.pages):
		return fmt.Errorf("%w: page %d in an array of %d", ErrCorrupt, p, len(a.pages))
	}
	return nil
}

// takes returns an error unless m may replace a page of a.
func (a *array) takes(m *Image) error {
	if err := a.fits(m.Geometry.ID(), m.Generation, m.Page); err != nil {
		return err
	}
	if len(m.lines) != a.geo.LinesInPage() {
		return fmt.Errorf("%w: image of %d lines, want %d", ErrCorrupt, len(m.lines), a.geo.LinesInPage())
	}
	return nil
}

// setInfo replaces the state of page p, for the holder of a.mu.
func (a *array) setInfo(p int, info PageInfo) {
	a.keys.Add(info.Keys - a.pages[p].Keys)
	a.pages[p].PageInfo = info
}

// store makes page p equal to pl, for the holder of c.mu. Concurrent counts see either the old
// value of a cell or the new one. grown means that no cell shrinks.
func (c *Counting) store(p int, pl plane, grown bool) {
	pg := &c.pages[p]
	old := pg.table.Load()
	if c.blankAt(p) && blank(pl.lines) {
		return
	}
	dst := c.ownPage(p)
	// First the table gets all cells that are heavy before or after, so that readers find every
	// escape they may see; then the nibbles are written.
	var stale []uint64
	if !grown {
		stale = old.entriesOutside(pl.lines)
	}
	t := pl.table(stale)
	pg.table.Store(t)
	publishAll(dst, pl.lines)
	if len(stale) > 0 {
		t = pl.table(nil)
		pg.table.Store(t)
	}
	c.overflow.Add(t.bytes() - old.bytes())
}

// entriesOutside returns entries for the cells of t that are not heavy in lines.
func (t *table) entriesOutside(lines []words) (out []uint64) {
	if t == nil {
		return nil
	}
	for _, e := range t.slots {
		if e <= removedSlot {
			continue
		}
		v, set := unpack(e)
		l := &lines[e>>54]
		var gone mask
		for !set.empty() {
			var cell uint64
			if cell, set = set.pop(); nibble(l, cell) != escape {
				gone = gone.with(cell)
			}
		}
		if !gone.empty() {
			out = append(out, entry(e>>54, v, gone))
		}
	}
	return out
}

// publishAll copies to dst the lines of src that differ.
func publishAll(dst, src []words) {
	for i := range dst {
		if dst[i] != src[i] {
			publish(&dst[i], &src[i])
		}
	}
}

// store makes the lines of page p equal to lines, for the holder of b.mu.
func (b *Bits) store(p int, lines []words) {
	if !b.blankAt(p) || !blank(lines) {
		publishAll(b.ownPage(p), lines)
	}
}

// Load replaces the page of which m is a copy. It returns an error that wraps [ErrGeometry] or
// [ErrVersion], and changes nothing, if the array of m has a different geometry or generation.
func (c *Counting) Load(m *Image) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.takes(m); err != nil {
		return err
	}
	info := m.Info
	switch {
	case m.floor == c.floor:
	case m.floor == 0: // the content that such a page showed to others
		info.Shown, info.ShownKeys = info.Version, info.Keys
	default:
		return fmt.Errorf("%w: page of an array with a floor of %d in one with %d", ErrGeometry, m.floor, c.floor)
	}
	old := c.oldPage(m.Page)
	c.store(m.Page, m.plane, false)
	c.slicePage(m.Page, c.writes, old)
	c.shrunk()
	c.setInfo(m.Page, info)
	return nil
}

// Load replaces the page of which m is a copy, as [Counting.Load] does.
func (b *Bits) Load(m *Image) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.takes(m); err != nil {
		return err
	}
	old := b.oldPage(m.Page)
	b.store(m.Page, m.lines)
	b.slicePage(m.Page, b.writes, old)
	b.setInfo(m.Page, m.Info)
	return nil
}

// Equal reports whether m and o are copies of the same page with the same state and content.
func (m *Image) Equal(o *Image) bool {
	return m.Geometry == o.Geometry && m.Generation == o.Generation && m.Page == o.Page &&
		m.Info == o.Info && m.floor == o.floor && m.equal(o.plane)
}

// setBits returns the positions of the one bits of lines.
func setBits(lines []words) (s codec.Slots) {
	for i := range lines {
		for j, w := range lines[i] {
			for ; w != 0; w &= w - 1 {
				s.At = append(s.At, uint32(i*lineBits+j*64+bits.TrailingZeros64(w)))
			}
		}
	}
	return s
}
