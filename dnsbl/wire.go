package dnsbl

import (
	"errors"
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

// A query is one parsed query. It is used again for the next one.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	asked    bool   // there is a question
	name     []byte // of the question in lower case, without the dot at the end
	odd      bool   // name holds a byte outside printable ASCII
	edns     bool
	udpSize  int
	code     dnsmessage.RCode // of the answer, if the query itself is at fault
}

// errNoAnswer is of what must not be answered at all.
var errNoAnswer = errors.New("not a query")

// parse reads a query. It returns errNoAnswer, or leaves a fault in code.
func (q *query) parse(msg []byte) error {
	*q = query{name: q.name[:0], udpSize: plainUDP}
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(msg); err != nil || q.header.Response {
		return errNoAnswer
	}
	if q.header.OpCode != 0 {
		q.code = dnsmessage.RCodeNotImplemented
		return nil
	}
	q.code = dnsmessage.RCodeFormatError
	if q.question, err = p.Question(); err != nil {
		return nil
	}
	q.asked = true
	// One question, no answer, no authority.
	_, second := p.Question()
	_, answer := p.AnswerHeader()
	_, authority := p.AuthorityHeader()
	for _, err := range [...]error{second, answer, authority} {
		if err != dnsmessage.ErrSectionDone {
			return nil
		}
	}
	name := q.question.Name.Data[:q.question.Name.Length-1]
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		q.odd = q.odd || c <= ' ' || c > '~'
		q.name = append(q.name, c)
	}
	q.code = q.readAdditional(&p)
	return nil
}

// readAdditional looks for an OPT record among the additional ones.
func (q *query) readAdditional(p *dnsmessage.Parser) dnsmessage.RCode {
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
		}
		// Others, TSIG and the like, are not ours, and no reason to refuse.
		if p.SkipAdditional() != nil {
			return dnsmessage.RCodeFormatError
		}
	}
	return dnsmessage.RCodeFormatError
}

// A reply is what is answered to a query: at most one record.
type reply struct {
	code          dnsmessage.RCode
	authoritative bool
	zone          *zone // for SOA and NS, and the time that a record may be kept
	kind          dnsmessage.Type
	negative      bool // the SOA is for the authority section: RFC 2308
	text          string
}

// answer appends the reply to q, of at most limit bytes, to dst. One beyond that
// gives way to an empty one that sends the client to TCP.
func (q *query) answer(dst []byte, r *reply, limit int) []byte {
	out, err := q.build(dst, r, false)
	if err != nil || len(out)-len(dst) > limit {
		// Without records it has a known size, which fits.
		out, _ = q.build(dst, &reply{code: r.code, authoritative: r.authoritative}, true)
	}
	return out
}

func (q *query) build(dst []byte, r *reply, truncated bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(dst, dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, Authoritative: r.authoritative, Truncated: truncated,
		RecursionDesired: q.header.RecursionDesired, RCode: r.code & 0xf,
	})
	var err error
	if q.asked {
		err = errors.Join(b.StartQuestions(), b.Question(q.question))
	}
	if err == nil && r.kind != 0 {
		err = q.addRecord(&b, r)
	}
	if err == nil && q.edns {
		var h dnsmessage.ResourceHeader
		err = errors.Join(b.StartAdditionals(), h.SetEDNS0(maxUDP, r.code, false), b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// addRecord adds the one record of r.
func (q *query) addRecord(b *dnsmessage.Builder, r *reply) error {
	z := r.zone
	h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: z.ttl}
	start := b.StartAnswers
	if r.negative {
		h.Name, start = z.name, b.StartAuthorities
	}
	if err := start(); err != nil {
		return err
	}
	switch r.kind {
	case dnsmessage.TypeA:
		return b.AResource(h, dnsmessage.AResource{A: z.code})
	case dnsmessage.TypeTXT:
		return b.TXTResource(h, dnsmessage.TXTResource{TXT: []string{r.text[:min(len(r.text), maxText)]}})
	case dnsmessage.TypeNS:
		return b.NSResource(h, dnsmessage.NSResource{NS: z.host})
	}
	// MinTTL is how long a negative answer may be kept (RFC 2308 section 4).
	return b.SOAResource(h, dnsmessage.SOAResource{
		NS: z.host, MBox: z.mailbox, Serial: z.serial(), Refresh: 3600, Retry: 600, Expire: 7 * 86400, MinTTL: z.ttl,
	})
}

// dnsName returns a name in lower case as messages have it.
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
