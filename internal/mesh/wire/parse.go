package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// A reader consumes numbers and bytes of a message; after the first error every read returns zero.
type reader struct {
	b     []byte
	keyID uint64
	boot  uint64   // of the sender
	sizes []uint64 // of the items of the data
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errMessage, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("a number ends early")
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("%d bytes, %d left", n, len(r.b))
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// count reads a number of items of at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > MaxParts || n > uint64(len(r.b)/size) {
		r.fail("%d items in %d bytes, limit %d", n, len(r.b), MaxParts)
		return 0
	}
	return int(n)
}

// sum returns a+b, both read from the message.
func (r *reader) sum(a, b uint64) uint64 {
	if a+b < a || a+b > 1<<62 {
		r.fail("number over 2^62")
		return 0
	}
	return a + b
}

func (r *reader) array(code byte) engine.Array {
	switch code {
	case 0:
		return engine.ArrayCounts
	case 1:
		return engine.ArraySpam
	case 2:
		return engine.ArrayRevoked
	}
	r.fail("array %d", code)
	return ""
}

func (r *reader) geometry(a engine.Array) filter.Geometry {
	g := filter.Geometry{Kind: kindOf(a), Lines: r.uvarint(), K: r.byte(), KeyID: r.keyID}
	if g.K&flagFormer != 0 {
		g.K &^= flagFormer
		if id := r.bytes(8); len(id) == 8 {
			g.KeyID = binary.LittleEndian.Uint64(id)
		}
		if r.err == nil && g.KeyID == r.keyID {
			r.fail("a former secret that is the present one")
		}
	}
	if err := g.Validate(); err != nil && r.err == nil {
		r.fail("%v", err)
	}
	return g
}

func kindOf(a engine.Array) filter.Kind {
	if a == engine.ArrayCounts {
		return filter.Cells
	}
	return filter.Bitmap
}

// Parse parses a whole message of the network with the given key ID. It does not check the
// signature. Its error wraps errMessage or errNewer.
func (e *Envelope) Parse(keyID uint64) (*Message, error) {
	m, sizes, err := e.ParseClaim(keyID)
	if err != nil {
		return nil, err
	}
	var items [][]byte
	data := e.data
	if m.Kind == KindHead {
		if m.Organisations, err = parseOrganisations(data); err != nil {
			return nil, err
		}
		return m, nil
	}
	for _, n := range sizes {
		if n > uint64(len(data)) {
			return nil, fmt.Errorf("%w: item of %d bytes, %d left", errMessage, n, len(data))
		}
		items, data = append(items, data[:n:n]), data[n:]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%w: %d bytes of data too many", errMessage, len(data))
	}
	switch m.Kind {
	case KindDelta:
		for i := range m.Rounds {
			m.Rounds[i].Data = items[i]
		}
	case KindAsk:
		m.Proofs = items
	case KindImage:
		m.Image.Pages = items
	case KindRefill:
		m.Lost.Pages = items
	case KindStudy, KindLesson:
		if err := m.lesson(items); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ParseClaim parses a message except its data. It returns the sizes of the data items.
func (e *Envelope) ParseClaim(keyID uint64) (*Message, []uint64, error) {
	m := &Message{Kind: e.Kind, From: e.From, KeyID: keyID}
	r := &reader{b: e.claim, keyID: keyID}
	m.Stamp.Incarnation = r.sum(r.uvarint(), 0)
	m.Stamp.Boot = r.sum(m.Stamp.Incarnation, r.uvarint())
	r.boot = m.Stamp.Boot
	m.Stamp.Seq = r.uvarint()
	m.Stamp.At = r.sum(m.Stamp.Boot, r.uvarint())
	switch m.Kind {
	case KindDelta:
		r.rounds(m)
	case KindHead:
		r.head(m)
	case KindAsk:
		copy(m.To[:], r.bytes(uint64(len(m.To))))
		m.Incarnation = r.uvarint()
		m.Boot = r.uvarint()
		m.Wants = r.wants()
		r.items(maxProofs)
	case KindImage:
		r.image(&m.Image)
	case KindPages, KindRefill:
		copy(m.To[:], r.bytes(uint64(len(m.To))))
		r.lost(&m.Lost, m.Kind == KindRefill)
	case KindStudy, KindLesson:
		copy(m.To[:], r.bytes(uint64(len(m.To))))
		r.items(1)
	default:
		return nil, nil, fmt.Errorf("%w: kind %q", ErrNewer, byte(m.Kind))
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	return m, r.sizes, nil
}

// lesson reads the data of a study or a lesson.
func (m *Message) lesson(items [][]byte) (err error) {
	switch {
	case len(items) != 1:
		return fmt.Errorf("%w: %d items, want 1", errMessage, len(items))
	case m.Kind == KindStudy:
		m.Study, err = lesson.ParseStudy(items[0])
	default:
		m.Lesson, err = lesson.Parse(items[0])
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errMessage, err)
	}
	return nil
}

// items reads the sizes of the data items.
func (r *reader) items(limit int) {
	n := r.count(1)
	if n > limit {
		r.fail("%d items, limit %d", n, limit)
		return
	}
	for range n {
		r.sizes = append(r.sizes, r.uvarint())
	}
}

func (r *reader) rounds(m *Message) {
	for range r.count(5) {
		var p Round
		code := r.byte()
		p.Array = r.array(code &^ flagGeometry)
		p.Start = r.uvarint()
		p.From = r.uvarint()
		p.To = r.sum(p.From, r.uvarint())
		if code&flagGeometry != 0 {
			p.Announce, p.Geometry, p.Lineage = true, r.geometry(p.Array), r.lineage(p.To)
		}
		r.sizes = append(r.sizes, r.uvarint())
		if r.err != nil {
			return
		}
		m.Rounds = append(m.Rounds, p)
	}
}

func (r *reader) head(m *Message) {
	name := r.bytes(r.uvarint())
	if len(name) > MaxName {
		r.fail("name of %d bytes, limit %d", len(name), MaxName)
	}
	m.Name = string(name)
	m.Floors = [2]uint64{r.uvarint(), r.uvarint()}
	m.Heads = r.heads()
	if r.err != nil || len(r.b) == 0 {
		return
	}
	m.Proof = &Succession{}
	copy(m.Key[:], r.bytes(uint64(len(m.Key))))
	copy(m.Proof.Old[:], r.bytes(uint64(len(m.Proof.Old))))
	copy(m.Proof.Signature[:], r.bytes(uint64(len(m.Proof.Signature))))
}

func (r *reader) heads() (out []ArrayHead) {
	for range r.count(6) {
		var h ArrayHead
		h.Array = r.array(r.byte())
		h.Start = r.uvarint()
		h.Version = r.uvarint()
		h.Geometry = r.geometry(h.Array)
		h.Lineage = r.lineage(h.Version)
		if r.err != nil {
			return nil
		}
		out = append(out, h)
	}
	return out
}

func (r *reader) wants() (out []ArrayHead) {
	for range r.count(4) {
		var w ArrayHead
		code := r.byte()
		w.Array, w.Partial = r.array(code&^flagPartial), code&flagPartial != 0
		w.Start = r.uvarint()
		w.Version = r.uvarint()
		w.Boot = r.uvarint()
		if r.err != nil {
			return nil
		}
		out = append(out, w)
	}
	return out
}

// lineage reads the lineage of an array up to a version. It begins with the sender's own process,
// whose boot is the newest.
func (r *reader) lineage(version uint64) Lineage {
	n := r.count(2)
	if r.err == nil && (n == 0 || n > MaxEpochs) {
		r.fail("lineage of %d epochs, want 1 to %d", n, MaxEpochs)
		return nil
	}
	l := make(Lineage, n)
	boot, base := r.boot, version
	for i := range n {
		ago, below := r.uvarint(), r.uvarint()
		if r.err != nil || ago > boot || below > version || i > 0 && (ago == 0 || version-below >= base) ||
			i == 0 && ago != 0 {
			r.fail("epoch %d of a lineage is out of order", i)
			return nil
		}
		boot, base = boot-ago, version-below
		l[n-1-i] = Epoch{boot, base}
	}
	return l
}

func (r *reader) image(m *Image) {
	m.Array = r.array(r.byte())
	m.Start = r.uvarint()
	m.At = r.uvarint()
	m.Geometry = r.geometry(m.Array)
	m.Lineage = r.lineage(m.At)
	r.items(MaxParts)
}

func (r *reader) lost(x *LostPages, refill bool) {
	x.Array = r.array(r.byte())
	x.Start = r.uvarint()
	x.Geometry = r.geometry(x.Array)
	for range r.count(1) {
		x.List = append(x.List, r.uvarint())
	}
	if !refill {
		return
	}
	if r.items(MaxParts); r.err == nil && len(r.sizes) != len(x.List) {
		r.fail("%d pages for %d numbers", len(r.sizes), len(x.List))
	}
}
