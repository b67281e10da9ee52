package mesh

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// verify reports whether the bytes of a message were signed by the holder of
// key.
func verify(b []byte, key *public) bool {
	end := len(b) - ed25519.SignatureSize
	if end < 0 {
		return false
	}
	text := append([]byte(signatureText), b[:end]...)
	return ed25519.Verify(key[:], text, b[end:])
}

// A reader takes numbers and bytes off a message; after the first error every
// read returns zero.
type reader struct {
	b     []byte
	keyID uint64
	boot  uint64 // of the sender
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
		r.fail("%d bytes where %d are left", n, len(r.b))
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

// parseMessage parses a message of the network whose key has the given id. It
// does not check the signature. Its error wraps errMessage or errNewer.
func parseMessage(b []byte, keyID uint64) (*message, error) {
	const least = 2 + len(hint{}) + 4 + ed25519.SignatureSize
	switch {
	case len(b) < 2 || len(b) > maxMessage:
		return nil, fmt.Errorf("%w: %d bytes, want %d to %d", errMessage, len(b), least, maxMessage)
	case b[0] != messageVersion:
		return nil, fmt.Errorf("%w: version %d, this program speaks %d", errNewer, b[0], messageVersion)
	case len(b) < least:
		return nil, fmt.Errorf("%w: %d bytes, want %d to %d", errMessage, len(b), least, maxMessage)
	}
	m := &message{kind: kind(b[1])}
	copy(m.from[:], b[2:])
	r := &reader{b: b[2+len(hint{}) : len(b)-ed25519.SignatureSize], keyID: keyID}
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
	case kindImage:
		r.image(&m.image)
	default:
		return nil, fmt.Errorf("%w: kind %q", errNewer, b[1])
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

func (r *reader) rounds(m *message) {
	for range r.count(6) {
		var p round
		code := r.byte()
		p.array = r.array(code &^ (flagGeometry | flagWhole))
		p.start = r.uvarint()
		p.from = r.uvarint()
		p.to = r.sum(p.from, r.uvarint())
		if code&flagGeometry != 0 {
			p.announce, p.geometry, p.lineage = true, r.geometry(p.array), r.lineage(p.to)
		}
		p.data = r.bytes(r.uvarint())
		p.short = code&flagWhole == 0
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

// lineage reads the lineage of an array up to a version. It begins with the
// sender's own process, whose boot is the newest.
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
		if r.err != nil || ago > boot || below > version || i > 0 && (ago == 0 || version-below >= base) || i == 0 && ago != 0 {
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
	for range r.count(2) {
		m.pages = append(m.pages, r.bytes(r.uvarint()))
	}
}
