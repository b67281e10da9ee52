package dnsbl

import (
	"encoding/binary"
	"errors"
	"strings"
)

// The sizes and numbers of RFC 1035 and RFC 6891 that are needed here.
const (
	headerSize  = 12
	maxName     = 255 // bytes on the wire
	maxLabel    = 63
	maxText     = 255 // bytes of one character string
	plainUDP    = 512 // bytes of an answer to a client without EDNS
	maxUDP      = 1232
	maxTCP      = 1<<16 - 1
	maxRecords  = 8 // additional records of a query that are read
	zonePointer = 0xc000
)

type rrType uint16

const (
	typeA    rrType = 1
	typeNS   rrType = 2
	typeSOA  rrType = 6
	typeTXT  rrType = 16
	typeOPT  rrType = 41
	typeIXFR rrType = 251
	typeAXFR rrType = 252
	typeANY  rrType = 255
	classIN         = 1
	classANY        = 255
)

type rcode uint16

const (
	noError  rcode = 0
	formErr  rcode = 1
	nxDomain rcode = 3
	notImp   rcode = 4
	refused  rcode = 5
	badVers  rcode = 16
)

const (
	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8
	opcode = 0xf << 11
)

// A query is one parsed query. It is used again for the next one.
type query struct {
	id       uint16
	flags    uint16 // opcode and RD alone
	question []byte // name, type and class as received; nil if they could not be read
	name     []byte // in lower case, with dots, without one at the end; a dot inside a label is NUL
	offsets  []int  // of each label of name within question
	odd      bool   // a label holds a dot or a byte outside printable ASCII
	kind     rrType
	class    uint16
	edns     bool
	udpSize  int
	code     rcode // of the answer, if the query itself is at fault
}

var (
	errNoAnswer = errors.New("not a query")
	errFormat   = errors.New("format error")
)

// parse reads a query. It returns errNoAnswer for what must not be answered at
// all; any other fault is left in code.
func (q *query) parse(msg []byte) error {
	*q = query{name: q.name[:0], offsets: q.offsets[:0], udpSize: plainUDP}
	if len(msg) < headerSize {
		return errNoAnswer
	}
	flags := binary.BigEndian.Uint16(msg[2:])
	if flags&flagQR != 0 {
		return errNoAnswer
	}
	q.id = binary.BigEndian.Uint16(msg)
	q.flags = flags & (opcode | flagRD)
	switch {
	case flags&opcode != 0:
		q.code = notImp
		return nil
	case binary.BigEndian.Uint16(msg[4:]) != 1, binary.BigEndian.Uint32(msg[6:]) != 0:
		q.code = formErr // one question, no answer, no authority
		return nil
	}
	end, err := q.readQuestion(msg)
	if err != nil {
		q.code = formErr
		return nil
	}
	q.question = msg[headerSize:end]
	q.code = q.readAdditional(msg[end:], int(binary.BigEndian.Uint16(msg[10:])))
	return nil
}

// readQuestion reads the question and returns where it ends.
func (q *query) readQuestion(msg []byte) (end int, err error) {
	at := headerSize
	for {
		if at >= len(msg) {
			return 0, errFormat
		}
		n := int(msg[at])
		if n == 0 {
			break
		}
		// A pointer (RFC 1035 section 4.1.4) has nothing to point to in a question.
		if n > maxLabel || at+1+n >= len(msg) || at+2+n-headerSize > maxName-1 {
			return 0, errFormat
		}
		q.offsets = append(q.offsets, at-headerSize)
		for _, c := range msg[at+1 : at+1+n] {
			switch {
			case c >= 'A' && c <= 'Z':
				c += 'a' - 'A'
			case c == '.':
				c, q.odd = 0, true // so that it is not taken for the end of a label
			case c <= ' ' || c > '~':
				q.odd = true
			}
			q.name = append(q.name, c)
		}
		q.name = append(q.name, '.')
		at += 1 + n
	}
	at++
	if at+4 > len(msg) {
		return 0, errFormat
	}
	if len(q.name) > 0 {
		q.name = q.name[:len(q.name)-1]
	}
	q.kind = rrType(binary.BigEndian.Uint16(msg[at:]))
	q.class = binary.BigEndian.Uint16(msg[at+2:])
	return at + 4, nil
}

// readAdditional looks for an OPT record among n records.
func (q *query) readAdditional(rest []byte, n int) rcode {
	if n > maxRecords {
		return formErr
	}
	for range n {
		end := skipName(rest)
		if end < 0 || end+10 > len(rest) {
			return formErr
		}
		record := rest[end:]
		length := int(binary.BigEndian.Uint16(record[8:]))
		if 10+length > len(record) {
			return formErr
		}
		rest = record[10+length:]
		if rrType(binary.BigEndian.Uint16(record)) != typeOPT {
			continue // TSIG and the like: not ours, and no reason to refuse
		}
		if q.edns || end != 1 {
			return formErr // RFC 6891 section 6.1.1: one, of the root
		}
		q.edns = true
		q.udpSize = min(max(int(binary.BigEndian.Uint16(record[2:])), plainUDP), maxUDP)
		if version := record[5]; version != 0 {
			return badVers
		}
	}
	return noError
}

// skipName returns where the name at the start of b ends, or -1.
func skipName(b []byte) int {
	for at := 0; at < len(b) && at < maxName; {
		switch n := int(b[at]); {
		case n == 0:
			return at + 1
		case n >= 0xc0:
			return at + 2
		case n > maxLabel:
			return -1
		default:
			at += 1 + n
		}
	}
	return -1
}

// zoneOffset returns where the name's last bytes, n of them, begin in a message
// that repeats the question.
func (q *query) zoneOffset(n int) uint16 {
	skip := strings.Count(string(q.name[:len(q.name)-n]), ".")
	return uint16(headerSize + q.offsets[skip])
}

// A reply writes one answer after the header and the question.
type reply struct {
	buf   []byte
	start int // of the message in buf
	limit int // bytes of the message
}

// begin appends header and question to dst.
func (q *query) begin(dst []byte, code rcode, authoritative bool, limit int) *reply {
	r := &reply{start: len(dst), limit: limit}
	flags := flagQR | q.flags | uint16(code)&0xf
	if authoritative {
		flags |= flagAA
	}
	dst = binary.BigEndian.AppendUint16(dst, q.id)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	questions := uint16(0)
	if q.question != nil {
		questions = 1
	}
	dst = binary.BigEndian.AppendUint16(dst, questions)
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	r.buf = append(dst, q.question...)
	return r
}

// count raises the number of records of a section: 6 answer, 8 authority, 10
// additional.
func (r *reply) count(section int) {
	at := r.start + section
	binary.BigEndian.PutUint16(r.buf[at:], binary.BigEndian.Uint16(r.buf[at:])+1)
}

// record appends the head of a record whose name stands at offset name of the
// message.
func (r *reply) record(name uint16, kind rrType, ttl uint32, length int) {
	b := binary.BigEndian.AppendUint16(r.buf, zonePointer|name)
	b = binary.BigEndian.AppendUint16(b, uint16(kind))
	b = binary.BigEndian.AppendUint16(b, classIN)
	b = binary.BigEndian.AppendUint32(b, ttl)
	r.buf = binary.BigEndian.AppendUint16(b, uint16(length))
}

func (r *reply) addA(ttl uint32, code [4]byte) {
	r.record(headerSize, typeA, ttl, 4)
	r.buf = append(r.buf, code[:]...)
	r.count(6)
}

func (r *reply) addTXT(ttl uint32, text string) {
	text = text[:min(len(text), maxText)]
	r.record(headerSize, typeTXT, ttl, 1+len(text))
	r.buf = append(append(r.buf, byte(len(text))), text...)
	r.count(6)
}

func (r *reply) addNS(z *zone, apex uint16) {
	host := z.hostName(apex)
	r.record(apex, typeNS, z.ttl, len(host))
	r.buf = append(r.buf, host...)
	r.count(6)
}

// hostName returns the name of the zone's server, as a pointer to the apex
// where it can be.
func (z *zone) hostName(apex uint16) []byte {
	if z.host != nil {
		return z.host
	}
	return binary.BigEndian.AppendUint16(nil, zonePointer|apex)
}

// mailbox is the first label of the zone's RNAME; the apex follows.
const mailbox = "\x0ahostmaster"

// addSOA appends the zone's SOA to a section. Its last number is how long a
// negative answer may be kept (RFC 2308 section 4).
func (r *reply) addSOA(z *zone, apex uint16, section int) {
	host := z.hostName(apex)
	r.record(apex, typeSOA, z.ttl, len(host)+len(mailbox)+2+20)
	b := append(r.buf, host...)
	b = append(b, mailbox...)
	b = binary.BigEndian.AppendUint16(b, zonePointer|apex)
	for _, n := range [...]uint32{z.serial(), 3600, 600, 7 * 86400, z.ttl} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	r.buf = b
	r.count(section)
}

// end appends the OPT record and returns the whole. An answer beyond the limit
// gives way to an empty one that sends the client to TCP.
func (r *reply) end(q *query, code rcode) []byte {
	opt := 0
	if q.edns {
		opt = 11
	}
	if len(r.buf)-r.start+opt > r.limit {
		r.buf = r.buf[:r.start+headerSize+len(q.question)]
		clear(r.buf[r.start+6 : r.start+headerSize])
		r.buf[r.start+2] |= flagTC >> 8
	}
	if q.edns {
		b := append(r.buf, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(typeOPT))
		b = binary.BigEndian.AppendUint16(b, maxUDP)
		b = append(b, byte(code>>4), 0, 0, 0) // upper bits of the code, version, flags
		r.buf = append(b, 0, 0)
		r.count(10)
	}
	return r.buf
}
