package dnsbl

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// The sizes of RFC 1035 and RFC 6891 that are needed here.
const (
	maxText    = 255 // bytes of one character string
	plainUDP   = 512 // bytes of an answer to a client without EDNS
	maxUDP     = 1232
	maxTCP     = 1<<16 - 1
	maxRecords = 8 // additional records of a query that are read

	typeIXFR dnsmessage.Type  = 251
	badVers  dnsmessage.RCode = 16 // RFC 6891 section 6.1.3
)

// A query is one parsed query, and is reused.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	asked    bool   // there is a question
	name     []byte // of the question in lower case, without the dot at the end; part of text
	odd      bool   // name holds a byte outside printable ASCII
	edns     bool
	cookie   cookie
	udpSize  int
	code     dnsmessage.RCode // of the answer, if the query itself is at fault
	text     [255]byte
}

// one is the counts in the header of a query: one question, no answer, no authority. The
// additional records come after that.
const one = 1 << 32

// parse reads a query and leaves a fault in code. It reports false if it must not be
// answered.
func (q *query) parse(msg []byte) bool {
	// Do not clear the whole q: clearing fields that are overwritten anyway takes as long as
	// parsing.
	q.asked, q.odd, q.edns, q.name, q.udpSize = false, false, false, nil, plainUDP
	q.cookie.given = false
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(msg); err != nil || q.header.Response {
		return false
	}
	if q.header.OpCode != 0 {
		q.code = dnsmessage.RCodeNotImplemented
		return true
	}
	q.code = dnsmessage.RCodeFormatError
	if q.question, err = p.Question(); err != nil {
		return true
	}
	q.asked = true
	counts := binary.BigEndian.Uint64(msg[4:])
	switch counts >> 16 {
	case one:
	case one + 1: // RFC 1995 section 3: the client's SOA
		if q.question.Type != typeIXFR {
			return true
		}
	default:
		return true
	}
	name := q.question.Name.Data[:q.question.Name.Length-1]
	q.name = q.text[:len(name)]
	for i, c := range name {
		if c-'A' < 26 {
			c += 'a' - 'A'
		}
		q.odd = q.odd || c-'!' > '~'-'!'
		q.name[i] = c
	}
	q.code = dnsmessage.RCodeSuccess
	if counts&0xffff != 0 {
		q.code = q.readAdditional(&p)
	}
	return true
}

// readAdditional looks for an OPT record among the additional ones.
func (q *query) readAdditional(p *dnsmessage.Parser) dnsmessage.RCode {
	// The sections before the additional records are empty, except the authority section of IXFR.
	if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return dnsmessage.RCodeFormatError
	}
	for range maxRecords {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			return dnsmessage.RCodeSuccess
		}
		if err != nil {
			return dnsmessage.RCodeFormatError
		}
		if h.Type == dnsmessage.TypeOPT {
			if q.edns || h.Name.Length != 1 {
				return dnsmessage.RCodeFormatError // RFC 6891 section 6.1.1: one, of the root
			}
			q.edns = true
			q.udpSize = min(max(int(h.Class), plainUDP), maxUDP)
			if version := h.TTL >> 16 & 0xff; version != 0 {
				return badVers
			}
			if h.Length > 0 {
				if code := q.readOptions(p); code != dnsmessage.RCodeSuccess {
					return code
				}
				continue
			}
		}
		// Others, such as TSIG, are ignored, not refused.
		if p.SkipAdditional() != nil {
			return dnsmessage.RCodeFormatError
		}
	}
	return dnsmessage.RCodeFormatError
}

// A reply is the answer to a query: records of one type.
type reply struct {
	code          dnsmessage.RCode
	authoritative bool
	zone          *zone // for SOA and NS, and the TTL
	kind          dnsmessage.Type
	negative      bool      // the SOA is for the authority section: RFC 2308
	codes         [][4]byte // of A records
	texts         []string  // of TXT records
}

// answer appends the reply to q, of at most limit bytes, to dst. A longer one goes
// without its SOA, or is replaced by an empty one that sends the client to TCP.
func (q *query) answer(dst []byte, r *reply, limit int) []byte {
	out, err := q.build(dst, r, false)
	if err == nil && r.negative && len(out)-len(dst) > limit {
		out, err = q.build(dst, &reply{code: r.code, authoritative: r.authoritative}, false)
	}
	if err != nil || len(out)-len(dst) > limit {
		out = q.cut(dst, r, limit)
	}
	return out
}

// cut appends the empty answer that sends the client to TCP.
func (q *query) cut(dst []byte, r *reply, limit int) []byte {
	out, err := q.build(dst, &reply{code: r.code, authoritative: r.authoritative}, true)
	if err != nil || len(out)-len(dst) > limit {
		// A compressed name in the question can be longer when written out.
		q.asked, q.edns = false, false
		out, _ = q.build(dst, &reply{code: dnsmessage.RCodeFormatError}, false)
	}
	return out
}

// build writes header and question, followed by the zone's ready records.
func (q *query) build(dst []byte, r *reply, truncated bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(dst, dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, Authoritative: r.authoritative, Truncated: truncated,
		RecursionDesired: q.header.RecursionDesired, RCode: r.code & 0xf,
	})
	if q.asked {
		if err := b.StartQuestions(); err != nil {
			return nil, err
		}
		if err := b.Question(q.question); err != nil {
			return nil, err
		}
	}
	if r.kind == dnsmessage.TypeTXT {
		if err := addText(&b, q.question.Name, r); err != nil {
			return nil, err
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil, err
	}
	return q.appendRecords(out, len(dst), r), nil
}

func addText(b *dnsmessage.Builder, name dnsmessage.Name, r *reply) error {
	if err := b.StartAnswers(); err != nil {
		return err
	}
	h := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: r.zone.ttl}
	for _, text := range r.texts {
		if err := b.TXTResource(h, dnsmessage.TXTResource{TXT: []string{text[:min(len(text), maxText)]}}); err != nil {
			return err
		}
	}
	return nil
}

// The low bytes of the counts in a header (RFC 1035 section 4.1.1).
const (
	answersAt     = 7
	authoritiesAt = 9
	additionalsAt = 11
)

// appendRecords appends the records of the zone and the OPT record (RFC 6891
// section 6.1.2) to the message that begins at start.
func (q *query) appendRecords(out []byte, start int, r *reply) []byte {
	at, count := answersAt, 1
	switch r.kind {
	case dnsmessage.TypeA:
		for _, code := range r.codes {
			out = append(append(out, r.zone.hit...), code[:]...)
		}
		count = len(r.codes)
	case dnsmessage.TypeNS:
		out = append(out, r.zone.ns...)
	case dnsmessage.TypeSOA:
		if out = r.zone.appendSOA(out); r.negative {
			at = authoritiesAt
		}
	}
	if r.kind == dnsmessage.TypeTXT {
		count = len(r.texts)
	}
	if r.kind != 0 {
		out[start+at] = byte(count)
	}
	if q.edns {
		out = append(out,
			0, 0, byte(dnsmessage.TypeOPT), // of the root
			maxUDP>>8, maxUDP&0xff,
			byte(r.code>>4), 0, 0, 0, // the upper bits of the code, version, flags
			0, 0) // the length of the options
		if q.cookie.given {
			options := len(out)
			out = q.cookie.append(out)
			out[options-1] = byte(len(out) - options)
		}
		out[start+additionalsAt] = 1
	}
	return out
}

// dnsName returns a name in lower case in the form of messages.
func dnsName(text string) (dnsmessage.Name, error) {
	text = strings.ToLower(strings.Trim(text, "."))
	for label := range strings.SplitSeq(text, ".") {
		if len(label) < 1 || len(label) > 63 {
			return dnsmessage.Name{}, fmt.Errorf("name %.80q has a label of %d bytes, want 1 to 63", text, len(label))
		}
		if strings.ContainsFunc(label, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return dnsmessage.Name{}, fmt.Errorf("name %.80q has bytes outside printable ASCII", text)
		}
	}
	if len(text) > 253 {
		return dnsmessage.Name{}, fmt.Errorf("name of %d bytes, limit 253", len(text))
	}
	return dnsmessage.NewName(text + ".")
}
