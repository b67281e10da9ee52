package dcc

import (
	"crypto/md5"
	"crypto/subtle"
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// An Op is the operation of a packet. The values are the protocol's.
//
// Source: docs/specs/dcc.md#operations.
type Op uint8

// The operations.
const (
	NOP Op = iota + 1
	Report
	Query
	Answer
	Admin
	OK
	Error
	Delete
	GreyReport
	GreyQuery
	GreySpam
	GreyWhite
)

// String returns the name of the operation as the specification writes it, or "unknown".
func (o Op) String() string {
	names := [...]string{"", "NOP", "REPORT", "QUERY", "ANSWER", "ADMN", "OK", "ERROR", "DELETE", "GREY_REPORT",
		"GREY_QUERY", "GREY_SPAM", "GREY_WHITE"}
	if o == 0 || int(o) >= len(names) {
		return "unknown"
	}
	return names[o]
}

// Versions of packets. A NOP may have a later one, to learn ours.
const (
	MinVersion    = 4
	MaxVersion    = 12
	maxNOPVersion = 32
)

// Sizes in bytes and limits, docs/specs/dcc.md#packets to #requests.
const (
	headerSize    = 24
	signatureSize = md5.Size
	minPacket     = headerSize + signatureSize
	checksumSize  = 18
	maxChecksums  = 14
	maxTargets    = 2000
	deleteSize    = 64
	brandSize     = 64
	maxErrorText  = 128
	maxPacket     = 1600
)

// MaxPassword is the largest length of a DCC client's password, in bytes.
const MaxPassword = 32

// Special totals, docs/specs/dcc.md#answers.
const (
	Many    = 0x00FFFFF0 // infinity
	White   = 0x00FFFFF1 // "ok": whitelisted
	White2  = 0x00FFFFF2 // "ok2": half whitelisted
	NoValue = 0x01000000 // "this type is not kept", as a previous total
)

// Flags of the targets of a REPORT, docs/specs/dcc.md#requests.
const (
	targetsSpam = 0x01000000 // the client claims that it is spam
	targetsRep  = 0x02000000 // the sender's reputation made it spam
	targetsMask = 0x00FFFFFF
)

// Ranges of ids, docs/specs/dcc.md#identity-and-signature.
const (
	AnonymousID = 1
	MinServerID = 100
	MaxServerID = 32767
	MinClientID = 32768
	MaxClientID = 16777215
)

// A Checksum is one entry of a request.
type Checksum struct {
	Type digests.Type
	Sum  [md5.Size]byte
}

// A packet is a parsed request. Its slices share the datagram.
type packet struct {
	raw     []byte
	version uint8
	op      Op
	sender  uint32
	id      [16]byte // h, p, r and t, opaque
	body    []byte

	// Of a REPORT or QUERY:
	targets   uint32 // recipients; at least 1 for a REPORT that counts
	spam      bool   // counts as many
	byRep     bool   // because of the sender's reputation
	none      bool   // a REPORT of no targets: a query
	n         int
	checksums [maxChecksums]Checksum
}

// errDrop wraps the reasons for dropping a packet silently.
var errDrop = fmt.Errorf("dcc: %w", bulkhead.ErrMalformed)

// parse reads a request by the rules that a real server enforces; packets that break one
// are dropped silently.
//
// Source: docs/specs/dcc.md#packets to #requests.
func (p *packet) parse(data []byte) error {
	if len(data) < minPacket {
		return fmt.Errorf("%w: packet of %d bytes, want at least %d", errDrop, len(data), minPacket)
	}
	if n := int(binary.BigEndian.Uint16(data)); n != len(data) {
		return fmt.Errorf("%w: packet of %d bytes says %d", errDrop, len(data), n)
	}
	p.raw, p.version, p.op = data, data[2], Op(data[3])
	p.sender = binary.BigEndian.Uint32(data[4:])
	copy(p.id[:], data[8:headerSize])
	p.body = data[headerSize : len(data)-signatureSize]
	latest := uint8(MaxVersion)
	if p.op == NOP {
		latest = maxNOPVersion
	}
	if p.version < MinVersion || p.version > latest {
		return fmt.Errorf("%w: version %d, want %d to %d", errDrop, p.version, MinVersion, latest)
	}
	if p.sender != AnonymousID && (p.sender < MinServerID || p.sender > MaxClientID) {
		return fmt.Errorf("%w: sender %d", errDrop, p.sender)
	}
	switch p.op {
	case NOP:
		if len(p.body) != 0 {
			return fmt.Errorf("%w: NOP with a body of %d bytes", errDrop, len(p.body))
		}
	case Report, Query:
		return p.parseChecksums()
	case Delete:
		return p.parseDelete()
	case Admin:
		if len(p.body) < adminSize || len(p.body) > adminSize+maxAdminText {
			return fmt.Errorf("%w: ADMN body of %d bytes, want %d to %d", errDrop, len(p.body),
				adminSize, adminSize+maxAdminText)
		}
	default:
		return fmt.Errorf("%w: operation %d", errDrop, p.op)
	}
	return nil
}

func (p *packet) parseChecksums() error {
	if len(p.body) < 4 || (len(p.body)-4)%checksumSize != 0 || (len(p.body)-4)/checksumSize > maxChecksums {
		return fmt.Errorf("%w: %s body of %d bytes", errDrop, p.op, len(p.body))
	}
	if err := p.parseTargets(binary.BigEndian.Uint32(p.body)); err != nil {
		return err
	}
	p.n = (len(p.body) - 4) / checksumSize
	last := digests.Type(0)
	for i := range p.n {
		c := &p.checksums[i]
		if err := c.parse(p.body[4+i*checksumSize:]); err != nil {
			return err
		}
		if c.Type <= last {
			return fmt.Errorf("%w: checksum of type %d after one of type %d", errDrop, c.Type, last)
		}
		last = c.Type
	}
	return nil
}

func (p *packet) parseTargets(v uint32) error {
	p.targets, p.spam, p.byRep, p.none = v&targetsMask, false, false, false
	if p.op == Query {
		return nil
	}
	switch {
	case v == Many:
		p.spam, p.targets = true, 1
	case v&^(targetsSpam|targetsRep|targetsMask) != 0 || p.targets > maxTargets:
		return fmt.Errorf("%w: targets %#x, limit %d", errDrop, v, maxTargets)
	case v&(targetsSpam|targetsRep) != 0:
		p.spam, p.byRep = true, v&targetsSpam == 0
		p.targets = max(p.targets, 1)
	case v == 0:
		p.none = true
	}
	return nil
}

func (c *Checksum) parse(b []byte) error {
	c.Type = digests.Type(b[0])
	if c.Type < digests.TypeIP || c.Type > digests.TypeRepBulk {
		return fmt.Errorf("%w: checksum of type %d, want %d to %d", errDrop, c.Type, digests.TypeIP, digests.TypeRepBulk)
	}
	if b[1] != checksumSize {
		return fmt.Errorf("%w: checksum of length %d, want %d", errDrop, b[1], checksumSize)
	}
	copy(c.Sum[:], b[2:checksumSize])
	return nil
}

func (p *packet) parseDelete() error {
	if len(p.raw) != deleteSize {
		return fmt.Errorf("%w: DELETE of %d bytes, want %d", errDrop, len(p.raw), deleteSize)
	}
	// Packets reuse the memory of earlier ones.
	p.targets, p.spam, p.byRep, p.none, p.n = 0, false, false, false, 1
	return p.checksums[0].parse(p.body[4:])
}

// date is the sender's time in a DELETE or ADMN, in seconds since 1970.
func (p *packet) date() uint32 { return binary.BigEndian.Uint32(p.body) }

// sign returns the signature of a packet without its own: the MD5 of the
// password, padded, and the packet.
//
// Source: docs/specs/dcc.md#identity-and-signature.
func sign(password string, unsigned []byte) [signatureSize]byte {
	var buf [MaxPassword + maxPacket]byte
	copy(buf[:MaxPassword], password)
	return md5.Sum(append(buf[:MaxPassword], unsigned...))
}

// signedBy reports whether a packet carries the signature of a password.
func signedBy(raw []byte, password string) bool {
	at := len(raw) - signatureSize
	want := sign(password, raw[:at])
	return subtle.ConstantTimeCompare(want[:], raw[at:]) == 1
}

// An answerer signs the answers to one request.
type answerer struct {
	version  uint8
	id       [16]byte
	password string // "" for anonymous clients
}

// begin appends the header of an answer, length to be set by finish.
func (a *answerer) begin(dst []byte, op Op, serverID uint32) []byte {
	dst = append(dst, 0, 0, min(a.version, MaxVersion), byte(op))
	dst = binary.BigEndian.AppendUint32(dst, serverID)
	return append(dst, a.id[:]...)
}

// finish sets the length of the answer that begins at start, and signs it.
func (a *answerer) finish(dst []byte, start int) []byte {
	binary.BigEndian.PutUint16(dst[start:], uint16(len(dst)-start+signatureSize))
	var sum [signatureSize]byte
	switch {
	case a.password != "":
		sum = sign(a.password, dst[start:])
	case a.version <= 8:
		// For old clients, bytes that they sent themselves are the key.
		var buf [16 + maxPacket]byte
		copy(buf[:], a.id[:])
		sum = md5.Sum(append(buf[:16], dst[start:]...))
	}
	return append(dst, sum[:]...)
}

// ok appends an OK packet.
//
// Source: docs/specs/dcc.md#answers.
func (a *answerer) ok(dst []byte, serverID uint32, brand string) []byte {
	start := len(dst)
	dst = a.begin(dst, OK, serverID)
	// No queue delay: a lone node answers at once.
	dst = append(dst, min(max(a.version, MinVersion), MaxVersion), 0, 0, 0)
	var padded [brandSize]byte
	copy(padded[:brandSize-1], brand)
	return a.finish(append(dst, padded[:]...), start)
}

// error appends an ERROR packet with a text of at most 128 bytes, NUL included.
func (a *answerer) error(dst []byte, serverID uint32, text string) []byte {
	start := len(dst)
	dst = a.begin(dst, Error, serverID)
	dst = append(dst, text[:min(len(text), maxErrorText-1)]...)
	return a.finish(append(dst, 0), start)
}

// A Total is the count of one checksum: the targets with this report, and before it.
type Total struct {
	Current, Previous uint32
}

// answer appends an ANSWER packet. Versions 4 and 5 get the current totals only.
func (a *answerer) answer(dst []byte, serverID uint32, totals []Total) []byte {
	start := len(dst)
	dst = a.begin(dst, Answer, serverID)
	for _, t := range totals {
		dst = binary.BigEndian.AppendUint32(dst, t.Current)
		if a.version > 5 {
			dst = binary.BigEndian.AppendUint32(dst, t.Previous)
		}
	}
	return a.finish(dst, start)
}
