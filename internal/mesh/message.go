package mesh

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// A message has this form, in little endian; v is a number of 7 bits a byte:
//
//	version 2, kind, 8 bytes of the sender's public key
//	v length of the claim
//	the claim: v incarnation, v boot (milliseconds since incarnation), v sequence,
//	v time (milliseconds since boot), the body by kind
//	the data: the rounds, pages or proofs of the body, one after the other
//	64 bytes Ed25519 signature over signatureText, all bytes to the end of the claim, and
//	the SHA-512/256 of the data
//
// The bytes up to the end of the claim, the sum of the data and the signature are a statement. It
// proves the content of the claim to any node, including the sender, without the data.
//
// An array is one byte (0 counts, 1 spam, 2 revoked) and v start of its generation. A geometry is v
// lines and one byte k; its kind and key follow from the array and the network. For an array made
// with a former secret of the network, k has 128 added, and 8 bytes follow: the ID of that secret.
// A lineage up to a version is v count, and for each epoch, newest first: v difference of its boot
// to the boot before it (for the first: to the sender's), v number of changes by which its base is
// below the version.
//
//	delta: v count; for each round: array byte, +16 if a geometry follows; v start,
//	       v from, v to-from, geometry with lineage up to to, v length of its data,
//	       which is the body of a arrays.Round
//	head:  v length and name; v first start of the generations that the sender
//	       keeps of the tally, v of the blocklist; v count; for each array: byte,
//	       v start, v version, geometry, lineage up to the version; then nothing,
//	       or 32 bytes new key, 32 old, 64 signature. The data of an aggregate are
//	       the first 8 bytes of the keys of all organisations in it, ascending
//	ask:   8 bytes of the addressee's key; v incarnation of the versions,
//	       v newest boot of it that was seen; v count; for each array: byte, +16 if
//	       images are missing, v start, v version held, v boot of the origin that it
//	       is from; v count, for each proof v length of its data. An ask without
//	       arrays requests a head
//	image: array byte, v start, v version of the array, geometry, lineage up to it,
//	       v count; for each page: v length, bytes
//	pages: 8 bytes of the addressee's key; array byte, v start, geometry; v count,
//	       v number of each page. The pages are of the sender's own array; it lost them
//	refill: the fields of pages; v count, for each page v length of its data: the page,
//	       or nothing if the replica lacks it
const (
	messageVersion = 2
	signatureText  = "bulkhead mesh message v2\x00"
)

type kind byte

const (
	kindDelta kind = 'd'
	kindHead  kind = 'h'
	kindAsk   kind = 'a'
	kindImage kind = 'i'
	// These two are sent under the topic of asks.
	kindPages  kind = 'p'
	kindRefill kind = 'r'
)

// Bounds on one message.
const (
	maxMessage = 8 << 20 // bytes
	maxParts   = 1024    // rounds, arrays or pages
	maxName    = 64      // bytes
	maxAsk     = 256 << 10
	maxProofs  = 8
)

// errMessage reports that bytes are not a message; errNewer, that they may be one of a later
// version of the program.
var (
	errMessage = errors.New("mesh: malformed message")
	errNewer   = errors.New("mesh: message of another version")
)

// A stamp orders the messages of an origin.
type stamp struct {
	incarnation uint64 // milliseconds since 1970 when the incarnation began, or more
	boot        uint64 // milliseconds since 1970 when the process started, or more
	seq         uint64 // number of the message in its boot, from 1
	at          uint64 // milliseconds since 1970
}

func (s stamp) time() time.Time { return time.UnixMilli(int64(s.at)) }

// newer reports whether s was made after o; both are of one incarnation.
func (s stamp) newer(o stamp) bool {
	return s.boot > o.boot || s.boot == o.boot && s.seq > o.seq
}

// A ref identifies an array of an origin.
type ref struct {
	array engine.Array
	start uint64
}

type round struct {
	ref
	from, to uint64
	geometry filter.Geometry // zero in a parsed message unless announced
	announce bool            // geometry and lineage are included
	lineage  lineage         // nil in a parsed message unless announced
	data     []byte          // body of a arrays.Round; the message has its other fields
	boot     uint64          // of the origin when it sent the round
	said     []byte          // the statement that the round came with
}

type arrayHead struct {
	ref
	version  uint64
	boot     uint64          // ask: the origin's boot that led to the version; 0 if unknown
	partial  bool            // ask: images are missing
	geometry filter.Geometry // head
	lineage  lineage         // head
}

type image struct {
	ref
	at       uint64
	geometry filter.Geometry
	lineage  lineage
	pages    [][]byte
}

// A lostPages lists pages of an array that its origin has lost.
type lostPages struct {
	ref
	geometry filter.Geometry
	list     []uint64 // page numbers
	pages    [][]byte // refill: the listed pages, empty if the replica lacks one
}

// topic returns the topic kind under which messages of kind k are sent.
func (k kind) topic() kind {
	if k == kindPages || k == kindRefill {
		return kindAsk
	}
	return k
}

// A message is one parsed message. Of rounds, heads, wants and pages, only the fields of its kind
// are set; they point into the parsed bytes.
type message struct {
	kind   kind
	from   hint
	stamp  stamp
	rounds []round
	name   string
	floors [2]uint64 // head: first start of the kept generations, of the tally and of the blocklist
	heads  []arrayHead
	// organisations, in a head, are the organisations whose counts are in the sender's arrays,
	// ascending; nil if the counts are the sender's alone.
	organisations []Organisation
	proof         *succession // head
	key           public      // the new key that proof names
	to            hint        // ask, pages and refill: the addressee
	life          uint64      // ask: incarnation of the versions
	boot          uint64      // ask: newest boot of that incarnation seen
	wants         []arrayHead // ask: with the versions that the asking node holds
	proofs        [][]byte    // ask: the addressee's own statements about a past that it may have forgotten
	image         image
	lost          lostPages // pages and refill
	said          []byte    // statement of a verified message
	keyID         uint64    // ID of the network's secret; 0 in a message to be sent: all its arrays are of that secret
}

func arrayByte(a engine.Array) byte {
	switch a {
	case engine.ArrayCounts:
		return 0
	case engine.ArraySpam:
		return 1
	}
	return 2
}

const (
	flagGeometry = 16
	flagPartial  = 16 // in an ask
	flagFormer   = 128
)

// appendMessage appends the signed message.
func appendMessage(b []byte, m *message, id *Identity) []byte {
	claim, data := m.claim(id)
	head := len(b)
	b = append(b, messageVersion, byte(m.kind))
	h := id.public.hint()
	b = append(b, h[:]...)
	b = appendBytes(b, claim)
	sum := dataSum(data)
	text := slices.Concat([]byte(signatureText), b[head:], sum[:])
	b = append(b, data...)
	return append(b, ed25519.Sign(id.private, text)...)
}

// claim returns the claim of the message and its data.
func (m *message) claim(id *Identity) (b, data []byte) {
	b = binary.AppendUvarint(b, m.stamp.incarnation)
	b = binary.AppendUvarint(b, m.stamp.boot-m.stamp.incarnation)
	b = binary.AppendUvarint(b, m.stamp.seq)
	b = binary.AppendUvarint(b, m.stamp.at-m.stamp.boot)
	switch m.kind {
	case kindDelta:
		b = binary.AppendUvarint(b, uint64(len(m.rounds)))
		for i := range m.rounds {
			b, data = m.rounds[i].append(b, data, m.stamp.boot, m.keyID)
		}
	case kindHead:
		b = appendBytes(b, []byte(m.name))
		b = binary.AppendUvarint(b, m.floors[0])
		b = binary.AppendUvarint(b, m.floors[1])
		b = appendHeads(b, m)
		data = appendOrganisations(nil, m.organisations)
		if m.proof != nil {
			b = append(b, id.public[:]...)
			b = append(b, m.proof.old[:]...)
			b = append(b, m.proof.signature[:]...)
		}
	case kindAsk:
		b = append(b, m.to[:]...)
		b = binary.AppendUvarint(b, m.life)
		b = binary.AppendUvarint(b, m.boot)
		b = appendWants(b, m.wants)
		b, data = appendData(b, data, m.proofs)
	case kindImage:
		b = append(b, arrayByte(m.image.array))
		b = binary.AppendUvarint(b, m.image.start)
		b = binary.AppendUvarint(b, m.image.at)
		b = appendGeometry(b, m.image.geometry, m.keyID)
		b = m.image.lineage.append(b, m.stamp.boot, m.image.at)
		b, data = appendData(b, data, m.image.pages)
	case kindPages, kindRefill:
		b = append(b, m.to[:]...)
		b = append(b, arrayByte(m.lost.array))
		b = binary.AppendUvarint(b, m.lost.start)
		b = appendGeometry(b, m.lost.geometry, m.keyID)
		b = binary.AppendUvarint(b, uint64(len(m.lost.list)))
		for _, page := range m.lost.list {
			b = binary.AppendUvarint(b, page)
		}
		if m.kind == kindRefill {
			b, data = appendData(b, data, m.lost.pages)
		}
	}
	return b, data
}

// appendData appends the number of items and their lengths to a claim, and the items to its data.
func appendData(b, data []byte, items [][]byte) (claim, all []byte) {
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, x := range items {
		b = binary.AppendUvarint(b, uint64(len(x)))
		data = append(data, x...)
	}
	return b, data
}

func appendBytes(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

func appendGeometry(b []byte, g filter.Geometry, keyID uint64) []byte {
	b = binary.AppendUvarint(b, g.Lines)
	if keyID == 0 || g.KeyID == keyID {
		return append(b, g.K)
	}
	return binary.LittleEndian.AppendUint64(append(b, g.K|flagFormer), g.KeyID)
}

// append appends the lineage of an array up to a version; boot is the sender's.
func (l lineage) append(b []byte, boot, version uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for _, e := range slices.Backward(l) {
		b = binary.AppendUvarint(b, boot-e.Boot)
		b = binary.AppendUvarint(b, version-min(e.Base, version))
		boot = e.Boot
	}
	return b
}

func appendHeads(b []byte, m *message) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.heads)))
	for _, h := range m.heads {
		b = append(b, arrayByte(h.array))
		b = binary.AppendUvarint(b, h.start)
		b = binary.AppendUvarint(b, h.version)
		b = appendGeometry(b, h.geometry, m.keyID)
		b = h.lineage.append(b, m.stamp.boot, h.version)
	}
	return b
}

func appendWants(b []byte, wants []arrayHead) []byte {
	b = binary.AppendUvarint(b, uint64(len(wants)))
	for _, w := range wants {
		code := arrayByte(w.array)
		if w.partial {
			code |= flagPartial
		}
		b = append(b, code)
		b = binary.AppendUvarint(b, w.start)
		b = binary.AppendUvarint(b, w.version)
		b = binary.AppendUvarint(b, w.boot)
	}
	return b
}

func (r *round) append(b, all []byte, boot, keyID uint64) (claim, out []byte) {
	code := arrayByte(r.array)
	if r.announce {
		code |= flagGeometry
	}
	b = append(b, code)
	b = binary.AppendUvarint(b, r.start)
	b = binary.AppendUvarint(b, r.from)
	b = binary.AppendUvarint(b, r.to-r.from)
	if code&flagGeometry != 0 {
		b = appendGeometry(b, r.geometry, keyID)
		b = r.lineage.append(b, boot, r.to)
	}
	return binary.AppendUvarint(b, uint64(len(r.data))), append(all, r.data...)
}
