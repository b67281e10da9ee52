package mesh

import (
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
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
	if n > maxParts || n > uint64(len(r.b)/size) {
		r.fail("%d items in %d bytes, limit %d", n, len(r.b), maxParts)
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

// parse parses a whole message of the network with the given key ID. It does not check the
// signature. Its error wraps errMessage or errNewer.
func (e *envelope) parse(keyID uint64) (*message, error) {
	m, sizes, err := e.parseClaim(keyID)
	if err != nil {
		return nil, err
	}
	var items [][]byte
	data := e.data
	if m.kind == kindHead {
		if m.organisations, err = parseOrganisations(data); err != nil {
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
	switch m.kind {
	case kindDelta:
		for i := range m.rounds {
			m.rounds[i].data = items[i]
		}
	case kindAsk:
		m.proofs = items
	case kindImage:
		m.image.pages = items
	case kindRefill:
		m.lost.pages = items
	}
	return m, nil
}

// parseClaim parses a message except its data. It returns the sizes of the data items.
func (e *envelope) parseClaim(keyID uint64) (*message, []uint64, error) {
	m := &message{kind: e.kind, from: e.from, keyID: keyID}
	r := &reader{b: e.claim, keyID: keyID}
	m.stamp.incarnation = r.sum(r.uvarint(), 0)
	m.stamp.boot = r.sum(m.stamp.incarnation, r.uvarint())
	r.boot = m.stamp.boot
	m.stamp.seq = r.uvarint()
	m.stamp.at = r.sum(m.stamp.boot, r.uvarint())
	switch m.kind {
	case kindDelta:
		r.rounds(m)
	case kindHead:
		r.head(m)
	case kindAsk:
		copy(m.to[:], r.bytes(uint64(len(m.to))))
		m.life = r.uvarint()
		m.boot = r.uvarint()
		m.wants = r.wants()
		r.items(maxProofs)
	case kindImage:
		r.image(&m.image)
	case kindPages, kindRefill:
		copy(m.to[:], r.bytes(uint64(len(m.to))))
		r.lost(&m.lost, m.kind == kindRefill)
	default:
		return nil, nil, fmt.Errorf("%w: kind %q", errNewer, byte(m.kind))
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	return m, r.sizes, nil
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

func (r *reader) rounds(m *message) {
	for range r.count(5) {
		var p round
		code := r.byte()
		p.array = r.array(code &^ flagGeometry)
		p.start = r.uvarint()
		p.from = r.uvarint()
		p.to = r.sum(p.from, r.uvarint())
		if code&flagGeometry != 0 {
			p.announce, p.geometry, p.lineage = true, r.geometry(p.array), r.lineage(p.to)
		}
		r.sizes = append(r.sizes, r.uvarint())
		if r.err != nil {
			return
		}
		m.rounds = append(m.rounds, p)
	}
}

func (r *reader) head(m *message) {
	name := r.bytes(r.uvarint())
	if len(name) > maxName {
		r.fail("name of %d bytes, limit %d", len(name), maxName)
	}
	m.name = string(name)
	m.floors = [2]uint64{r.uvarint(), r.uvarint()}
	m.heads = r.heads()
	if r.err != nil || len(r.b) == 0 {
		return
	}
	m.proof = &succession{}
	copy(m.key[:], r.bytes(uint64(len(m.key))))
	copy(m.proof.old[:], r.bytes(uint64(len(m.proof.old))))
	copy(m.proof.signature[:], r.bytes(uint64(len(m.proof.signature))))
}

func (r *reader) heads() (out []arrayHead) {
	for range r.count(6) {
		var h arrayHead
		h.array = r.array(r.byte())
		h.start = r.uvarint()
		h.version = r.uvarint()
		h.geometry = r.geometry(h.array)
		h.lineage = r.lineage(h.version)
		if r.err != nil {
			return nil
		}
		out = append(out, h)
	}
	return out
}

func (r *reader) wants() (out []arrayHead) {
	for range r.count(4) {
		var w arrayHead
		code := r.byte()
		w.array, w.partial = r.array(code&^flagPartial), code&flagPartial != 0
		w.start = r.uvarint()
		w.version = r.uvarint()
		w.boot = r.uvarint()
		if r.err != nil {
			return nil
		}
		out = append(out, w)
	}
	return out
}

// lineage reads the lineage of an array up to a version. It begins with the sender's own process,
// whose boot is the newest.
func (r *reader) lineage(version uint64) lineage {
	n := r.count(2)
	if r.err == nil && (n == 0 || n > maxEpochs) {
		r.fail("lineage of %d epochs, want 1 to %d", n, maxEpochs)
		return nil
	}
	l := make(lineage, n)
	boot, base := r.boot, version
	for i := range n {
		ago, below := r.uvarint(), r.uvarint()
		if r.err != nil || ago > boot || below > version || i > 0 && (ago == 0 || version-below >= base) ||
			i == 0 && ago != 0 {
			r.fail("epoch %d of a lineage is out of order", i)
			return nil
		}
		boot, base = boot-ago, version-below
		l[n-1-i] = epoch{boot, base}
	}
	return l
}

func (r *reader) image(m *image) {
	m.array = r.array(r.byte())
	m.start = r.uvarint()
	m.at = r.uvarint()
	m.geometry = r.geometry(m.array)
	m.lineage = r.lineage(m.at)
	r.items(maxParts)
}

func (r *reader) lost(x *lostPages, refill bool) {
	x.array = r.array(r.byte())
	x.start = r.uvarint()
	x.geometry = r.geometry(x.array)
	for range r.count(1) {
		x.list = append(x.list, r.uvarint())
	}
	if !refill {
		return
	}
	if r.items(maxParts); r.err == nil && len(r.sizes) != len(x.list) {
		r.fail("%d pages for %d numbers", len(r.sizes), len(x.list))
	}
}
