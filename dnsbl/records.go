package dnsbl

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/net/dns/dnsmessage"
)

// records are the answers of a zone, as they follow a question. They are written once:
// otherwise most of an answer's time would go into writing the same names.
type records struct {
	hit []byte // A without its address, with a pointer to the name of the question
	ns  []byte
	soa []byte // without the right serial number, which follows the list
}

// serialAt is the offset of a SOA record's serial number from its end: five numbers of
// four bytes close it (RFC 1035 section 3.3.13).
const serialAt = 20

func (z *zone) appendSOA(dst []byte) []byte {
	dst = append(dst, z.soa...)
	binary.BigEndian.PutUint32(dst[len(dst)-serialAt:], z.serial())
	return dst
}

// makeRecords writes the records of a zone.
func (z *zone) makeRecords() error {
	h := dnsmessage.ResourceHeader{Name: z.name, Class: dnsmessage.ClassINET, TTL: z.ttl}
	// MinTTL is how long a negative answer may be cached (RFC 2308 section 4).
	soa := dnsmessage.SOAResource{NS: z.host, MBox: z.mailbox, Refresh: 3600, Retry: 600, Expire: 7 * 86400, MinTTL: z.ttl}
	var errs [3]error
	z.hit, errs[0] = z.record(true, func(b *dnsmessage.Builder) error {
		return b.AResource(h, dnsmessage.AResource{A: z.code})
	})
	z.hit = z.hit[:max(0, len(z.hit)-4)]
	z.ns, errs[1] = z.record(false, func(b *dnsmessage.Builder) error {
		return b.NSResource(h, dnsmessage.NSResource{NS: z.host})
	})
	z.soa, errs[2] = z.record(false, func(b *dnsmessage.Builder) error { return b.SOAResource(h, soa) })
	return errors.Join(errs[:]...)
}

// record returns the bytes that add adds to an answer to the question for the apex; if
// compressed, with a pointer to the name of that question, whatever it is.
func (z *zone) record(compress bool, add func(*dnsmessage.Builder) error) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{})
	if compress {
		b.EnableCompression()
	}
	steps := []func() error{
		b.StartQuestions,
		func() error { return b.Question(dnsmessage.Question{Name: z.name}) },
		b.StartAnswers,
		func() error { return add(&b) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	msg, err := b.Finish()
	if err != nil {
		return nil, err
	}
	// Behind header and question: in a message a name takes a byte more than in
	// text, and type and class follow it.
	return bytes.Clone(msg[12+int(z.name.Length)+1+4:]), nil
}
