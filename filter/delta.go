package filter

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// A Delta is what changed in one page of one array between two versions: by how
// much each cell grew, or which bits were newly set. It is a difference of what
// the cells stand for, not of their nibbles, so it may be applied to a copy of
// the page ([Image.Apply], [Counting.Apply], [Bits.Apply]) or be added to an
// array that sums several ([Counting.Accumulate]).
//
// Only a server's own array may be the source of deltas that others add up:
// differences of a merged array undercount.
type Delta struct {
	// GeometryID is the fingerprint of the geometry of the array.
	GeometryID uint64
	// Generation and Page say which page it is of.
	Generation uint64
	Page       int
	// From and To are the page's versions before and after.
	From, To uint64
	// Index is the journal index of the page at version To.
	Index uint64
	// NewKeys is by how much the number of keys grew.
	NewKeys uint64

	kind  Kind
	slots slotList
}

// Diff returns the delta that turns from into to. Its error wraps [ErrGeometry]
// or [ErrVersion] if they are not copies of one page, or if any cell, or the
// version, index or keys, is smaller in to than in from.
func Diff(from, to *Image) (*Delta, error) {
	switch {
	case from.Geometry != to.Geometry:
		return nil, fmt.Errorf("%w: delta from %v to %v", ErrGeometry, from.Geometry, to.Geometry)
	case from.Generation != to.Generation || from.Page != to.Page:
		return nil, fmt.Errorf("%w: delta from page %d of generation %d to page %d of %d",
			ErrVersion, from.Page, from.Generation, to.Page, to.Generation)
	case to.Info.Version < from.Info.Version || to.Info.Index < from.Info.Index || to.Info.Keys < from.Info.Keys:
		return nil, fmt.Errorf("%w: delta back from version %d to %d", ErrVersion, from.Info.Version, to.Info.Version)
	}
	d := &Delta{
		GeometryID: to.Geometry.ID(),
		Generation: to.Generation,
		Page:       to.Page,
		From:       from.Info.Version,
		To:         to.Info.Version,
		Index:      to.Info.Index,
		NewKeys:    to.Info.Keys - from.Info.Keys,
		kind:       to.Geometry.Kind,
	}
	ok := true
	if d.kind == Cells {
		d.slots, ok = from.increase(to.plane)
	} else {
		d.slots, ok = newBits(from.lines, to.lines)
	}
	if !ok {
		return nil, fmt.Errorf("%w: page %d has smaller cells at version %d than at %d", ErrVersion, d.Page, d.To, d.From)
	}
	return d, nil
}

// newBits returns the bits of to that from has not, and whether it has none more.
func newBits(from, to []words) (slotList, bool) {
	fresh := make([]words, len(to))
	for i := range to {
		for j := range to[i] {
			if from[i][j]&^to[i][j] != 0 {
				return slotList{}, false
			}
			fresh[i][j] = to[i][j] &^ from[i][j]
		}
	}
	return setBits(fresh), true
}

// Len returns the number of cells or bits that changed.
func (d *Delta) Len() int { return len(d.slots.at) }

// Increase returns the sum of the increases of all cells, or the number of new
// bits: a measure of how much the origin counted, at most K times its reports.
func (d *Delta) Increase() (sum uint64) {
	if d.kind != Cells {
		return uint64(d.Len())
	}
	for _, v := range d.slots.values {
		sum += uint64(v)
	}
	return sum
}

// starts returns an error unless d starts from the state info of a page.
func (d *Delta) starts(info PageInfo) error {
	if d.From != info.Version {
		return fmt.Errorf("%w: delta from version %d, page %d is at %d", ErrVersion, d.From, d.Page, info.Version)
	}
	return nil
}

// after returns the state of a page at info after d.
func (d *Delta) after(info PageInfo, overflow int) PageInfo {
	return PageInfo{Version: d.To, Index: d.Index, Keys: info.Keys + d.NewKeys, Overflow: overflow}
}

// Apply brings m forward to version d.To, so that it equals the image that d was
// made from. It returns an error that wraps [ErrGeometry], [ErrVersion] or
// [ErrCorrupt], and changes nothing, if d is of another page or does not start
// at m's version, or if a cell would exceed [Many].
func (m *Image) Apply(d *Delta) error {
	switch {
	case d.GeometryID != m.Geometry.ID():
		return fmt.Errorf("%w: delta of geometry %016x on a page of %016x", ErrGeometry, d.GeometryID, m.Geometry.ID())
	case d.Generation != m.Generation || d.Page != m.Page:
		return fmt.Errorf("%w: delta of page %d of generation %d on page %d of %d",
			ErrVersion, d.Page, d.Generation, m.Page, m.Generation)
	}
	if err := d.starts(m.Info); err != nil {
		return err
	}
	pl, err := d.applied(m.plane)
	if err != nil {
		return err
	}
	m.plane, m.Info = pl, d.after(m.Info, len(pl.high))
	return nil
}

// applied returns pl with d added.
func (d *Delta) applied(pl plane) (plane, error) {
	if d.kind == Bitmap {
		return plane{lines: d.orWith(pl.lines)}, nil
	}
	r, exact := pl.raisedBy(d.slots)
	if !exact {
		return plane{}, d.beyondMany()
	}
	return r, nil
}

func (d *Delta) beyondMany() error {
	return fmt.Errorf("%w: delta raises a cell of page %d above %d", ErrCorrupt, d.Page, Many)
}

// orWith returns a copy of lines with the bits of d.
func (d *Delta) orWith(lines []words) []words {
	r := append([]words(nil), lines...)
	flat := unsafe.Slice(&r[0][0], len(r)*lineWords)
	for _, at := range d.slots.at {
		flat[at>>6] |= 1 << (at & 63)
	}
	return r
}

// Apply brings the page of d forward to version d.To, as [Image.Apply] does.
// It is for copies of another server's array.
func (c *Counting) Apply(d *Delta) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fits(d.GeometryID, d.Generation, d.Page); err != nil {
		return err
	}
	info := c.pages[d.Page].PageInfo
	if err := d.starts(info); err != nil {
		return err
	}
	overflow, exact := c.grow(d.Page, d.slots, true)
	if !exact {
		return d.beyondMany()
	}
	c.setInfo(d.Page, d.after(info, overflow))
	return nil
}

// Apply brings the page of d forward to version d.To, as [Image.Apply] does.
func (b *Bits) Apply(d *Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fits(d.GeometryID, d.Generation, d.Page); err != nil {
		return err
	}
	info := b.pages[d.Page].PageInfo
	if err := d.starts(info); err != nil {
		return err
	}
	b.store(d.Page, d.orWith(b.pageWords(d.Page)))
	b.setInfo(d.Page, d.after(info, 0))
	return nil
}

// Accumulate adds the increases of d to c, which sums the arrays of several
// servers, saturating at [Many]. Geometry and generation must be c's, versions
// are not looked at: the caller sees to it that each delta of each server is
// added once and in full. Its error wraps [ErrGeometry] or [ErrVersion]; c is
// then unchanged. The page keeps c's journal index.
func (c *Counting) Accumulate(d *Delta) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fits(d.GeometryID, d.Generation, d.Page); err != nil {
		return err
	}
	info := c.pages[d.Page].PageInfo
	info.Overflow, _ = c.grow(d.Page, d.slots, false)
	info.Version++
	info.Keys += d.NewKeys
	c.setInfo(d.Page, info)
	return nil
}

// Accumulate sets the bits of d in b, which joins the arrays of several servers,
// under the conditions of [Counting.Accumulate]. Bits may be set twice.
func (b *Bits) Accumulate(d *Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fits(d.GeometryID, d.Generation, d.Page); err != nil {
		return err
	}
	info := b.pages[d.Page].PageInfo
	b.store(d.Page, d.orWith(b.pageWords(d.Page)))
	info.Version++
	info.Keys += d.NewKeys
	b.setInfo(d.Page, info)
	return nil
}

// The encoded delta has the header of an encoded page with these differences:
//
//	 0  4  magic "bkhD"
//	 6  1  zero
//	24  8  From
//	32  8  Index
//	40  8  NewKeys
//	56  4  cells or bits that changed
//
// and the payload begins with the 8 bytes of To, followed by the cells or bits
// as [slotList.append] writes them.
const deltaMagic = "bkhD"

// Append appends the encoding of d to dst: 72 bytes, and 1 to 2 bytes for each
// changed cell.
func (d *Delta) Append(dst []byte) []byte {
	head := len(dst)
	dst = append(dst, make([]byte, pageHeader)...)
	dst = binary.LittleEndian.AppendUint64(dst, d.To)
	dst = d.slots.append(dst, d.universe())
	h := dst[head:]
	copy(h, deltaMagic)
	h[4], h[5] = pageVersion, byte(d.kind)
	le := binary.LittleEndian
	le.PutUint64(h[8:], d.GeometryID)
	le.PutUint64(h[16:], d.Generation)
	le.PutUint64(h[24:], d.From)
	le.PutUint64(h[32:], d.Index)
	le.PutUint64(h[40:], d.NewKeys)
	le.PutUint32(h[48:], uint32(d.Page))
	le.PutUint32(h[52:], uint32(len(h)-pageHeader))
	le.PutUint32(h[56:], uint32(d.Len()))
	le.PutUint32(h[60:], pageSum(h))
	return dst
}

// universe returns the number of slots that gaps are coded for: that of a whole
// page, so that a delta can be encoded without knowing its geometry.
func (d *Delta) universe() int {
	if d.kind == Cells {
		return pageCells
	}
	return pageBits
}

// ParseDelta decodes b, all of which must be one delta of an array of geometry
// g. Its error wraps [ErrCorrupt], or [ErrGeometry] for a delta of another
// array. Memory is taken in proportion to len(b).
func ParseDelta(b []byte, g Geometry) (*Delta, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	h, err := parseHeader(b, deltaMagic, g)
	if err != nil {
		return nil, err
	}
	if b[6] != 0 || len(b) < pageHeader+8 {
		return nil, fmt.Errorf("%w: delta of %d bytes, form %d", ErrCorrupt, len(b), b[6])
	}
	le := binary.LittleEndian
	d := &Delta{
		GeometryID: g.ID(), Generation: h.generation, Page: h.page,
		From: le.Uint64(b[24:]), To: le.Uint64(b[pageHeader:]),
		Index: le.Uint64(b[32:]), NewKeys: le.Uint64(b[40:]), kind: g.Kind,
	}
	if d.To < d.From {
		return nil, fmt.Errorf("%w: delta back from version %d to %d", ErrCorrupt, d.From, d.To)
	}
	d.slots, err = parseSlots(b[pageHeader+8:], d.universe(), h.count, g.Kind == Cells)
	if err != nil {
		return nil, err
	}
	if n := len(d.slots.at); n > 0 && int(d.slots.at[n-1]) >= g.slots() {
		return nil, fmt.Errorf("%w: cell %d of a page of %d", ErrCorrupt, d.slots.at[n-1], g.slots())
	}
	return d, nil
}
