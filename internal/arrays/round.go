package arrays

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// A Round is the sequence of adds to one array over a period, in the order of its writer. A replica
// that equalled the array before the round, and applies it, equals the array after it, cell by
// cell. Servers exchange rounds while little changes. Rounds are smaller than the changed cells
// (about 6 bytes a key in place of 8 to 10) and keep H1 exact, because a replica receives the adds
// themselves in their order. They show which cells were reported, and nothing about the signature
// behind them.
//
// A Round may be used by one goroutine at a time.
type Round struct {
	// Geometry and Generation are copied from the array.
	Geometry   Geometry
	Generation uint64
	// From and To are the array's versions before and after; see Version.
	From, To uint64

	ops   []op
	floor uint32 // floor of the array from which it is recorded; see [Counting.SetFloor]
}

// op is one add, or several of one key with no other add to its line in between.
type op struct {
	line  uint64
	code  uint64 // cells: seven bits each, ascending; bits: Lo of the key
	n     uint32 // sum of the adds, saturating; 0 in bit arrays
	times uint32 // number of adds
}

// Len returns the number of adds; consecutive adds of one key count once.
func (r *Round) Len() int { return len(r.ops) }

// Increase returns the sum of all adds: how much the origin counted.
func (r *Round) Increase() (sum uint64) {
	for _, o := range r.ops {
		sum += uint64(max(o.n, 1))
	}
	return sum
}

// Pages returns the number of pages that the round changes. The round must have been closed or
// parsed.
func (r *Round) Pages() (n int) {
	for i := range r.ops {
		if i == 0 || r.ops[i].line/PageLines != r.ops[i-1].line/PageLines {
			n++
		}
	}
	return n
}

// Version returns the sum of the versions of all pages: how often the array changed.
func (a *array) Version() (sum uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version()
}

func (a *array) version() (sum uint64) {
	for i := range a.pages {
		sum += a.pages[i].Version
	}
	return sum
}

// NewRound returns an empty round that begins at c's present state. It must be given every add from
// now on.
func (c *Counting) NewRound() *Round {
	return &Round{Geometry: c.geo, Generation: c.Generation(), From: c.Version()}
}

// NewRound returns an empty round that begins at b's present state. It must be given every key from
// now on.
func (b *Bits) NewRound() *Round {
	return &Round{Geometry: b.geo, Generation: b.Generation(), From: b.Version()}
}

// Record records the adds of one [Counting.AddBatch], with the counts before that it returned. Call
// [Round.Close] after the last one.
func (r *Round) Record(keys []Key, n, before []uint32) {
	keep, fill := cellMasks(r.Geometry.K)
	for i, k := range keys {
		if n[i] == 0 || before[i] == Many {
			continue // changed nothing, so the version did not change either
		}
		raise := shown(r.floor, before[i], n[i])
		if raise == 0 {
			continue
		}
		x := pick(k.Lo, keep, fill)
		r.ops = append(r.ops, op{line(k.Hi, r.Geometry.Lines), x.set(r.Geometry.K).code(), raise, 1})
	}
}

// RecordBits records the keys of one [Bits.SetBatch], with the results that it returned.
func (r *Round) RecordBits(keys []Key, before []bool) {
	for i, k := range keys {
		if before[i] {
			continue
		}
		lo := k.Lo
		if r.Geometry.K == 8 {
			lo &= 0x3f * lanes
		}
		r.ops = append(r.ops, op{line(k.Hi, r.Geometry.Lines), lo, 0, 1})
	}
}

// code returns the cells of m as seven bits each, ascending.
func (m mask) code() (code uint64) {
	for shift := 0; !m.empty(); shift += 7 {
		var c uint64
		c, m = m.pop()
		code |= c << shift
	}
	return code
}

// Close orders the round for encoding, so that it reveals as little as possible about the order in
// which the adds came: by line, and within a line by their cells or bits. Adds without a common
// cell do not affect each other. Adds with a common cell keep their order, since the array depends
// on it.
func (r *Round) Close() {
	slices.SortStableFunc(r.ops, func(a, b op) int { return cmp.Compare(a.line, b.line) })
	out := r.ops[:0]
	r.To = r.From
	first := 0 // index of the first add to the line
	for _, o := range r.ops {
		r.To += uint64(o.times)
		if len(out) > 0 && out[len(out)-1].line != o.line {
			first = len(out)
		}
		at, same := r.place(out[first:], o)
		if same {
			had := &out[first+at]
			had.n = uint32(min(uint64(had.n)+uint64(o.n), Many))
			had.times += o.times
			continue
		}
		out = slices.Insert(out, first+at, o)
	}
	r.ops = out
}

// place returns the position of o among ordered adds to its line, all of which came before it. That
// is next to adds of the same key, or before the first add that is larger and, like all adds after
// it, has no cell in common with o. The resulting order is unique: adds that may change places end
// up in the same order, whatever order they came in.
func (r *Round) place(ops []op, o op) (at int, same bool) {
	at = len(ops)
	for i := len(ops) - 1; i >= 0; i-- {
		switch {
		case ops[i].code == o.code:
			return i, true
		case r.meet(ops[i].code, o.code):
			return at, false
		case ops[i].code > o.code:
			at = i
		}
	}
	return at, false
}

// meet reports whether two codes have a cell or bit in common.
func (r *Round) meet(a, b uint64) bool {
	if r.Geometry.Kind == Cells {
		k := r.Geometry.K
		x, y := (&op{code: a}).cells(k).set(k), (&op{code: b}).cells(k).set(k)
		return !x.and(y).empty()
	}
	x, y := pattern(a, r.Geometry.K == 16), pattern(b, r.Geometry.K == 16)
	for i := range x {
		if x[i]&y[i] != 0 {
			return true
		}
	}
	return false
}

// AppendBody appends the encoding of the closed round to dst, for a container that itself states the
// array and version of the round, and protects its bytes. [ParseRoundBody] parses it. It is, with v
// for a number of 7 bits a byte:
//
//	v number of operations
//	for each operation, in bits: gap between lines in Rice's code; the cells as
//	their rank among all sets of k cells, or the bits themselves; for cells, the
//	increase and the number of adds in Elias' gamma code
func (r *Round) AppendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.ops)))
	w := codec.BitWriter{Dst: dst}
	gap := codec.RiceBits(int(r.Geometry.Lines), len(r.ops))
	at := uint64(0)
	for _, o := range r.ops {
		w.Rice(o.line-at, gap)
		at = o.line
		r.putOp(&w, o)
	}
	return w.Bytes()
}

func (r *Round) putOp(w *codec.BitWriter, o op) {
	if r.Geometry.Kind == Bitmap {
		putBits(w, o.code, r.Geometry.K)
		return
	}
	w.Put(rankOf(o.code, r.Geometry.K), rankBits(r.Geometry.K))
	w.Gamma(uint64(o.n))
	w.Gamma(uint64(min(o.times, Many)))
}

// putBits writes the bits of a key: six of each byte of Lo where eight bits are set, all of Lo
// where sixteen are.
func putBits(w *codec.BitWriter, lo uint64, k uint8) {
	if k == 16 {
		w.Put(lo&0xffffffff, 32)
		w.Put(lo>>32, 32)
		return
	}
	for i := range 8 {
		w.Put(lo>>(8*i)&63, 6)
	}
}

func getBits(r *codec.BitReader, k uint8) (lo uint64) {
	if k == 16 {
		lo = r.Get(32)
		return lo | r.Get(32)<<32
	}
	for i := range 8 {
		lo |= r.Get(6) << (8 * i)
	}
	return lo
}

// ParseRoundBody decodes b, all of which must be the output of [Round.AppendBody] for a round of an
// array with the given geometry and generation that begins at version from. The caller guarantees
// this, and the integrity of the bytes; from and the number of adds determine To. The error wraps
// [ErrCorrupt] or [ErrGeometry]. Memory is allocated in proportion to len(b).
func ParseRoundBody(b []byte, g Geometry, generation, from uint64) (*Round, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	r := &Round{Geometry: g, Generation: generation, From: from}
	if err := r.parseBody(b); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Round) parseBody(body []byte) error {
	g := r.Geometry
	count, n := binary.Uvarint(body)
	if n <= 0 {
		return fmt.Errorf("%w: a round ends before its adds", ErrCorrupt)
	}
	body = body[n:]
	if least := uint64(opBits(g) + 1); count > uint64(len(body))*8/least {
		return fmt.Errorf("%w: %d operations in %d bytes", ErrCorrupt, count, len(body))
	}
	r.ops = make([]op, count)
	rd := codec.BitReader{Src: body}
	gap := codec.RiceBits(int(g.Lines), int(count))
	at := uint64(0)
	r.To = r.From
	for i := range r.ops {
		at += rd.Rice(gap, g.Lines)
		if at >= g.Lines {
			return fmt.Errorf("%w: line %d of %d in a round", ErrCorrupt, at, g.Lines)
		}
		o := op{line: at, times: 1}
		if g.Kind == Bitmap {
			o.code = getBits(&rd, g.K)
		} else if err := o.parseCells(&rd, g.K); err != nil {
			return err
		}
		r.To += uint64(o.times)
		r.ops[i] = o
	}
	if r.To < r.From {
		return fmt.Errorf("%w: a round from version %d ends before it", ErrCorrupt, r.From)
	}
	return rd.End()
}

func (o *op) parseCells(rd *codec.BitReader, k uint8) error {
	x := rd.Get(rankBits(k))
	if x >= choose(lineCells, int(k)) {
		return fmt.Errorf("%w: cells of rank %d in a round", ErrCorrupt, x)
	}
	o.code = unrank(x, k)
	n, times := rd.Gamma(), rd.Gamma()
	if n > Many || times > Many {
		return fmt.Errorf("%w: increase of %d in %d adds in a round", ErrCorrupt, n, times)
	}
	o.n, o.times = uint32(n), uint32(times)
	return nil
}

// opBits returns the minimum number of bits of an operation without its gap.
func opBits(g Geometry) int {
	switch {
	case g.Kind == Cells:
		return int(rankBits(g.K)) + 2
	case g.K == 16:
		return 64
	}
	return 48
}

// cells returns the first k cells of a code, one byte each.
func (o *op) cells(k uint8) (c cells) {
	for i := range int(k) {
		c |= cells(o.code>>(7*i)&127) << (8 * i)
	}
	return c
}

// ApplyRound applies the round to c, a replica of the array from which it was recorded. It returns
// an error that wraps [ErrGeometry] or [ErrVersion], and changes nothing, if the round belongs to a
// different array or does not begin at c's version. index is as in [Counting.AddBatch]. If index is
// not 0 and replayed is true, the version is not checked: pages that have seen the entry skip it.
func (c *Counting) ApplyRound(index uint64, r *Round, replayed bool) error {
	return c.admit(r, !replayed, func() { c.take(index, r) })
}

// AddRound applies the adds of a round of a different array to c, as if they had been made to c. If
// that array was merged into c at the round's beginning or earlier, c continues to count no less
// than it. The array must have c's geometry and generation; otherwise AddRound changes nothing and
// returns an error that wraps [ErrGeometry] or [ErrVersion].
func (c *Counting) AddRound(r *Round) error {
	return c.admit(r, false, func() { c.take(0, r) })
}

// take adds the content of r to the pages that have not seen the entry index.
func (c *Counting) take(index uint64, r *Round) {
	c.calls++
	for i := range r.ops {
		o := &r.ops[i]
		p := &c.pages[o.line/PageLines]
		if !c.due(p, index, c.calls) {
			continue
		}
		version := p.Version
		c.add(o.line, o.cells(c.k)|cells(c.fill), o.n)
		p.Version = version + uint64(o.times)
	}
	c.flushKeys()
}

// ApplyRound applies the round to b, as [Counting.ApplyRound] does.
func (b *Bits) ApplyRound(index uint64, r *Round, replayed bool) error {
	return b.admit(r, !replayed, func() { b.take(index, r) })
}

// AddRound applies the keys of a round of a different array to b, as [Counting.AddRound] does.
func (b *Bits) AddRound(r *Round) error {
	return b.admit(r, false, func() { b.take(0, r) })
}

// take sets the content of r on the pages that have not seen the entry index.
func (b *Bits) take(index uint64, r *Round) {
	b.calls++
	for i := range r.ops {
		o := &r.ops[i]
		p := &b.pages[o.line/PageLines]
		if !b.due(p, index, b.calls) {
			continue
		}
		version := p.Version
		b.set(o.line, o.code)
		p.Version = version + 1
	}
	b.flushKeys()
}

// admit calls take under a's lock if r has a's geometry and generation and, if it must continue a,
// begins at a's version.
func (a *array) admit(r *Round, continues bool, take func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Geometry != a.geo {
		return fmt.Errorf("%w: round of %v on %v", ErrGeometry, r.Geometry, a.geo)
	}
	if r.Generation != a.generation {
		return fmt.Errorf("%w: round of generation %d on %d", ErrVersion, r.Generation, a.generation)
	}
	if v := a.version(); continues && v != r.From {
		return fmt.Errorf("%w: round from version %d, the array is at %d", ErrVersion, r.From, v)
	}
	take()
	return nil
}

// LoadAt is Load for a replica whose changes are entries of the caller's journal: the page records
// index, and is left alone if it has seen it.
func (c *Counting) LoadAt(index uint64, m *Image) error {
	if c.seen(index, m) {
		return nil
	}
	m.Info.Index = index
	return c.Load(m)
}

// LoadAt is Load with a journal index, as [Counting.LoadAt].
func (b *Bits) LoadAt(index uint64, m *Image) error {
	if b.seen(index, m) {
		return nil
	}
	m.Info.Index = index
	return b.Load(m)
}

// seen reports whether the page that m may replace has seen the entry with the index.
func (a *array) seen(index uint64, m *Image) bool {
	return index != 0 && a.fits(m.Geometry.ID(), m.Generation, m.Page) == nil && a.PageInfo(m.Page).Index >= index
}

// binomials holds C(n, k) for n up to 128 cells and k up to 8.
var binomials = func() (t [lineCells + 1][9]uint64) {
	for n := range t {
		t[n][0] = 1
		for k := 1; k <= 8 && n > 0; k++ {
			t[n][k] = t[n-1][k-1] + t[n-1][k]
		}
	}
	return t
}()

func choose(n, k int) uint64 { return binomials[n][k] }

// rankBits returns the number of bits that distinguish all sets of k of 128 cells.
func rankBits(k uint8) uint { return uint(bits.Len64(choose(lineCells, int(k)) - 1)) }

// rankOf returns the position of a set of k cells among all such sets, in the order of their
// largest members (the combinatorial number system).
func rankOf(code uint64, k uint8) (x uint64) {
	for i := range int(k) {
		x += choose(int(code>>(7*i)&127), i+1)
	}
	return x
}

// unrank returns the set of cells at position x.
func unrank(x uint64, k uint8) (code uint64) {
	c := lineCells - 1
	for i := int(k); i > 0; i-- {
		for choose(c, i) > x {
			c--
		}
		x -= choose(c, i)
		code |= uint64(c) << (7 * (i - 1))
		c--
	}
	return code
}
