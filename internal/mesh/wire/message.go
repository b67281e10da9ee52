package wire

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
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
//	study: 8 bytes of the addressee's key, v 1, v length of its data, which is a study
//	       of docs/specs/lesson.md; lesson: the same with a lesson
const (
	messageVersion = 2
	signatureText  = "bulkhead mesh message v2\x00"
)

// A Kind is the kind of a message, by its letter.
type Kind byte

const (
	KindDelta Kind = 'd'
	KindHead  Kind = 'h'
	KindAsk   Kind = 'a'
	KindImage Kind = 'i'
	// These are sent under the topic of asks.
	KindPages  Kind = 'p'
	KindRefill Kind = 'r'
	KindStudy  Kind = 's'
	KindLesson Kind = 'l'
)

// Bounds on one message.
const (
	MaxMessage = 8 << 20   // bytes
	MaxParts   = 1024      // rounds, arrays or pages
	MaxName    = 64        // bytes
	MaxAsk     = 256 << 10 // bytes of a message under the topic of asks
	maxProofs  = 8
)

var (
	// errMessage reports bytes that are no message.
	errMessage = errors.New("mesh: malformed message")
	// ErrNewer reports bytes that may be a message of a later version of the program.
	ErrNewer = errors.New("mesh: message of another version")
)

// A Stamp orders the messages of an origin.
type Stamp struct {
	Incarnation uint64 // milliseconds since 1970 when the incarnation began, or more
	Boot        uint64 // milliseconds since 1970 when the process started, or more
	Seq         uint64 // number of the message in its boot, from 1
	At          uint64 // milliseconds since 1970
}

// Time returns the sender's clock at the message.
func (s Stamp) Time() time.Time { return time.UnixMilli(int64(s.At)) }

// Newer reports whether s was made after o; both are of one incarnation.
func (s Stamp) Newer(o Stamp) bool {
	return s.Boot > o.Boot || s.Boot == o.Boot && s.Seq > o.Seq
}

// A Ref identifies an array of an origin.
type Ref struct {
	Array engine.Array
	Start uint64
}

// A Round is the body of a round of one array, and the versions that it leads from and to.
type Round struct {
	Ref
	From, To  uint64
	Geometry  filter.Geometry // zero in a parsed message unless announced
	Announce  bool            // geometry and lineage are included
	Lineage   Lineage         // nil in a parsed message unless announced
	Data      []byte          // body of a arrays.Round; the message has its other fields
	Boot      uint64          // of the origin when it sent the round
	Statement []byte          // the statement that the round came with
}

// An ArrayHead is the version of one array: of the sender's in a head, of the replica in an ask.
type ArrayHead struct {
	Ref
	Version  uint64
	Boot     uint64          // ask: the origin's boot that led to the version; 0 if unknown
	Partial  bool            // ask: images are missing
	Geometry filter.Geometry // head
	Lineage  Lineage         // head
}

// An Image is pages of one array at one version.
type Image struct {
	Ref
	At       uint64 // version of the array
	Geometry filter.Geometry
	Lineage  Lineage // up to At
	Pages    [][]byte
}

// A LostPages lists pages of an array that its origin has lost.
type LostPages struct {
	Ref
	Geometry filter.Geometry
	List     []uint64 // page numbers
	Pages    [][]byte // refill: the listed pages, empty if the replica lacks one
}

// Topic returns the topic kind under which messages of kind k are sent.
func (k Kind) Topic() Kind {
	switch k {
	case KindPages, KindRefill, KindStudy, KindLesson:
		return KindAsk
	}
	return k
}

// A Message is one parsed message. Of rounds, heads, wants and pages, only the fields of its kind
// are set; they point into the parsed bytes.
type Message struct {
	Kind   Kind
	From   Hint
	Stamp  Stamp
	Rounds []Round
	Name   string
	Floors [2]uint64 // head: first start of the kept generations, of the tally and of the blocklist
	Heads  []ArrayHead
	// Organisations, in a head, are the organisations whose counts are in the sender's arrays,
	// ascending; nil if the counts are the sender's alone.
	Organisations []Organisation
	Proof         *Succession // head
	Key           Public      // the new key that proof names
	To            Hint        // ask, pages and refill: the addressee
	Incarnation   uint64      // ask: incarnation of the versions
	Boot          uint64      // ask: newest boot of that incarnation seen
	Wants         []ArrayHead // ask: with the versions that the asking node holds
	Proofs        [][]byte    // ask: the addressee's own statements about a past that it may have forgotten
	Image         Image
	Lost          LostPages // pages and refill
	Teaching                // study and lesson
	Statement     []byte    // statement of a verified message
	KeyID         uint64    // ID of the network's secret; 0 in a message to be sent: all its arrays are of that secret
}

// A Teaching is the data of a study or a lesson.
type Teaching struct {
	Study  *lesson.Study
	Lesson *lesson.Lesson
}

// ArrayByte returns the byte of an array in a claim.
func ArrayByte(a engine.Array) byte {
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

// AppendMessage appends the message to b, signed by its sender. The stamp, From and KeyID are set.
func AppendMessage(b []byte, m *Message, by Signer) []byte {
	claim, data := m.claim(by.Public())
	head := len(b)
	b = append(b, messageVersion, byte(m.Kind))
	h := by.Public().Hint()
	b = append(b, h[:]...)
	b = AppendBytes(b, claim)
	sum := dataSum(data)
	text := slices.Concat([]byte(signatureText), b[head:], sum[:])
	b = append(b, data...)
	return append(b, by.Sign(text)...)
}

// claim returns the claim of the message of the node with the given key, and its data.
func (m *Message) claim(key Public) (b, data []byte) {
	b = binary.AppendUvarint(b, m.Stamp.Incarnation)
	b = binary.AppendUvarint(b, m.Stamp.Boot-m.Stamp.Incarnation)
	b = binary.AppendUvarint(b, m.Stamp.Seq)
	b = binary.AppendUvarint(b, m.Stamp.At-m.Stamp.Boot)
	switch m.Kind {
	case KindDelta:
		b = binary.AppendUvarint(b, uint64(len(m.Rounds)))
		for i := range m.Rounds {
			b, data = m.Rounds[i].append(b, data, m.Stamp.Boot, m.KeyID)
		}
	case KindHead:
		b = AppendBytes(b, []byte(m.Name))
		b = binary.AppendUvarint(b, m.Floors[0])
		b = binary.AppendUvarint(b, m.Floors[1])
		b = appendHeads(b, m)
		data = appendOrganisations(nil, m.Organisations)
		if m.Proof != nil {
			b = append(b, key[:]...)
			b = append(b, m.Proof.Old[:]...)
			b = append(b, m.Proof.Signature[:]...)
		}
	case KindAsk:
		b = append(b, m.To[:]...)
		b = binary.AppendUvarint(b, m.Incarnation)
		b = binary.AppendUvarint(b, m.Boot)
		b = appendWants(b, m.Wants)
		b, data = appendData(b, data, m.Proofs)
	case KindImage:
		b = append(b, ArrayByte(m.Image.Array))
		b = binary.AppendUvarint(b, m.Image.Start)
		b = binary.AppendUvarint(b, m.Image.At)
		b = appendGeometry(b, m.Image.Geometry, m.KeyID)
		b = m.Image.Lineage.append(b, m.Stamp.Boot, m.Image.At)
		b, data = appendData(b, data, m.Image.Pages)
	case KindPages, KindRefill:
		b = append(b, m.To[:]...)
		b = append(b, ArrayByte(m.Lost.Array))
		b = binary.AppendUvarint(b, m.Lost.Start)
		b = appendGeometry(b, m.Lost.Geometry, m.KeyID)
		b = binary.AppendUvarint(b, uint64(len(m.Lost.List)))
		for _, page := range m.Lost.List {
			b = binary.AppendUvarint(b, page)
		}
		if m.Kind == KindRefill {
			b, data = appendData(b, data, m.Lost.Pages)
		}
	case KindStudy:
		b, data = appendData(append(b, m.To[:]...), data, [][]byte{m.Study.Append(nil)})
	case KindLesson:
		b, data = appendData(append(b, m.To[:]...), data, [][]byte{m.Lesson.Append(nil)})
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

// AppendBytes appends the length of data as a uvarint, and data.
func AppendBytes(b, data []byte) []byte {
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
func (l Lineage) append(b []byte, boot, version uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for _, e := range slices.Backward(l) {
		b = binary.AppendUvarint(b, boot-e.Boot)
		b = binary.AppendUvarint(b, version-min(e.Base, version))
		boot = e.Boot
	}
	return b
}

func appendHeads(b []byte, m *Message) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.Heads)))
	for _, h := range m.Heads {
		b = append(b, ArrayByte(h.Array))
		b = binary.AppendUvarint(b, h.Start)
		b = binary.AppendUvarint(b, h.Version)
		b = appendGeometry(b, h.Geometry, m.KeyID)
		b = h.Lineage.append(b, m.Stamp.Boot, h.Version)
	}
	return b
}

func appendWants(b []byte, wants []ArrayHead) []byte {
	b = binary.AppendUvarint(b, uint64(len(wants)))
	for _, w := range wants {
		code := ArrayByte(w.Array)
		if w.Partial {
			code |= flagPartial
		}
		b = append(b, code)
		b = binary.AppendUvarint(b, w.Start)
		b = binary.AppendUvarint(b, w.Version)
		b = binary.AppendUvarint(b, w.Boot)
	}
	return b
}

func (r *Round) append(b, all []byte, boot, keyID uint64) (claim, out []byte) {
	code := ArrayByte(r.Array)
	if r.Announce {
		code |= flagGeometry
	}
	b = append(b, code)
	b = binary.AppendUvarint(b, r.Start)
	b = binary.AppendUvarint(b, r.From)
	b = binary.AppendUvarint(b, r.To-r.From)
	if r.Announce {
		b = appendGeometry(b, r.Geometry, keyID)
		b = r.Lineage.append(b, boot, r.To)
	}
	return binary.AppendUvarint(b, uint64(len(r.Data))), append(all, r.Data...)
}

// RoundCost is the memory in bytes that a waiting round is charged in addition to its data. It
// bounds the number of waiting rounds, and so the time to search them.
const RoundCost = 512

// Cost returns the memory in bytes that the round is charged while it waits.
func (x *Round) Cost() int { return RoundCost + len(x.Data) + len(x.Statement) }

// MaxAhead is how far ahead of this node's clock an incarnation may have begun. Clocks that are
// wrong by days are reported with the generations that they begin. No incarnation might ever follow
// one that began further ahead.
const MaxAhead = 366 * 24 * time.Hour

// KeepKnown drops from a message the arrays made with a secret that this node never had, because it
// joined later. It reports whether the message has any content left.
func (m *Message) KeepKnown(known func(keyID uint64) bool) bool {
	if m.Kind == KindImage {
		return known(m.Image.Geometry.KeyID)
	}
	m.Heads = slices.DeleteFunc(m.Heads, func(h ArrayHead) bool { return !known(h.Geometry.KeyID) })
	had := len(m.Rounds)
	m.Rounds = slices.DeleteFunc(m.Rounds, func(x Round) bool { return x.Announce && !known(x.Geometry.KeyID) })
	return had == 0 || len(m.Rounds) > 0
}

// Ahead reports whether the clock of a stamp is far ahead of now.
func (s Stamp) Ahead(now time.Time) bool {
	limit := uint64(max(now.Add(MaxAhead).UnixMilli(), 0))
	return s.Incarnation > limit || s.Boot > limit || s.At > limit
}

// Arrays returns the arrays of the rounds in m.
func (m *Message) Arrays() (out []Ref) {
	for i := range m.Rounds {
		out = append(out, m.Rounds[i].Ref)
	}
	return out
}

// AllExpired is a floor of a node that lists none of its arrays.
const AllExpired = 1 << 62

// FloorIndex returns the index of the floor in a head that applies to an array.
func FloorIndex(a engine.Array) int {
	if a == engine.ArrayCounts {
		return 0
	}
	return 1
}
