package dnsbl

import (
	"context"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead/door"
)

// A desk answers queries one after the other, and is reused.
type desk struct {
	query query
	count counts
	hits  []hit
	codes [][4]byte // of hits, each once
}

// counts are a desk's additions to [Stats] for queries that arrived together. Counting
// each query there would move the counters' cache line between processors.
type counts struct{ queries, hits, misses, refused, broken, slipped, failed int64 }

// answerAll is the handler of packets.
func (s *Server) answerAll(_ context.Context, packets []*door.Packet) {
	d := s.pool.Get().(*desk)
	defer s.done(d)
	for _, p := range packets {
		p.Reply = d.answer(s, p.Reply, p.Data, p.Client.Addr(), maxUDP)
	}
}

// answer appends the answer to msg, which client sent, to dst, or nothing if there must
// be none. limit is the transport's limit in bytes; over UDP the query may set a lower
// one.
func (s *Server) answer(dst, msg []byte, client netip.Addr, limit int) []byte {
	d := s.pool.Get().(*desk)
	defer s.done(d)
	return d.answer(s, dst, msg, client, limit)
}

func (s *Server) done(d *desk) {
	s.Stats.Queries.Add(d.count.queries)
	s.Stats.Hits.Add(d.count.hits)
	s.Stats.Misses.Add(d.count.misses)
	s.Stats.Refused.Add(d.count.refused)
	s.Stats.Broken.Add(d.count.broken)
	s.Stats.Slipped.Add(d.count.slipped)
	s.Stats.Failed.Add(d.count.failed)
	d.count = counts{}
	s.pool.Put(d)
}

func (d *desk) answer(s *Server, dst, msg []byte, client netip.Addr, limit int) []byte {
	q := &d.query
	if !q.parse(msg) {
		d.count.broken++
		return dst
	}
	proven := q.cookie.given && s.baker.check(&q.cookie, client)
	if limit != maxTCP {
		limit = q.udpSize
		if !proven && !client.IsLoopback() && !door.Within(s.Exempt, client) {
			// The source address may be forged, except that of this machine.
			limit = min(limit, len(msg)+len(msg)/2)
			if !s.unproven.Allow(door.NetworkOf(client), 1) {
				return d.slip(s, dst, limit)
			}
		}
	}
	d.count.queries++
	r := d.reply(s, q)
	return q.answer(dst, &r, limit)
}

// slip answers queries beyond [Server.Unproven]: every second one gets an empty answer
// that sends the client to TCP, where its address proves itself; the others get none.
func (d *desk) slip(s *Server, dst []byte, limit int) []byte {
	d.count.slipped++
	if s.slips.Add(1)%2 == 0 {
		return dst
	}
	return d.query.cut(dst, new(reply), limit)
}

func (d *desk) reply(s *Server, q *query) reply {
	kind, class := q.question.Type, q.question.Class
	switch {
	case q.code != dnsmessage.RCodeSuccess:
		d.count.broken++
		return reply{code: q.code}
	case class != dnsmessage.ClassINET && class != dnsmessage.ClassANY, kind == dnsmessage.TypeAXFR, kind == typeIXFR:
		return d.refuse()
	}
	// Copies for each query would let garbage grow to the size of a list before it is collected. No
	// caller keeps the name longer than q.
	z, labels := s.find(unsafe.String(unsafe.SliceData(q.name), len(q.name)))
	switch {
	case z == nil:
		return d.refuse()
	case !z.known():
		d.count.failed++
		return reply{code: dnsmessage.RCodeServerFailure}
	case labels == "":
		return z.ofApex(kind)
	}
	return d.ofName(q, z, labels)
}

func (d *desk) refuse() reply {
	d.count.refused++
	return reply{code: dnsmessage.RCodeRefused}
}

// ofName answers for a name below the apex. The address of a hit is given for A
// and ANY, its reason for TXT; every other type exists without data.
func (d *desk) ofName(q *query, z *zone, labels string) reply {
	found := absent
	if !q.odd {
		found, d.hits = z.look(labels, d.hits[:0])
	}
	kind := q.question.Type
	switch {
	case found == absent:
		d.count.misses++
		return z.nothing(dnsmessage.RCodeNameError)
	case found != between && (kind == dnsmessage.TypeA || kind == dnsmessage.TypeALL):
		d.count.hits++
		d.codes = d.codes[:0]
		if found == test {
			d.codes = append(d.codes, z.code)
		}
		for i := range d.hits {
			if code := d.hits[i].value(); !slices.Contains(d.codes, code) {
				d.codes = append(d.codes, code)
			}
		}
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeA, codes: d.codes}
	case found == test && kind == dnsmessage.TypeTXT:
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeTXT, texts: []string{testReason}}
	case found == present && kind == dnsmessage.TypeTXT:
		d.count.hits++
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeTXT, texts: d.texts(z, labels)}
	}
	return z.nothing(dnsmessage.RCodeSuccess)
}

// texts returns the texts of the hits, each once.
func (d *desk) texts(z *zone, labels string) []string {
	queried := labels
	if z.Form == Addresses {
		if addr, complete, ok := reversedAddr(labels); ok && complete {
			queried = addr.Unmap().String()
		}
	}
	var texts []string
	for i := range d.hits {
		if text := d.hits[i].describe(queried); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

func (z *zone) ofApex(kind dnsmessage.Type) reply {
	switch kind {
	case dnsmessage.TypeSOA, dnsmessage.TypeALL:
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeSOA}
	case dnsmessage.TypeNS:
		return reply{authoritative: true, zone: z, kind: dnsmessage.TypeNS}
	}
	return z.nothing(dnsmessage.RCodeSuccess)
}

// nothing is the answer without a record; the zone's SOA limits how long it is cached.
func (z *zone) nothing(code dnsmessage.RCode) reply {
	return reply{code: code, authoritative: true, zone: z, kind: dnsmessage.TypeSOA, negative: true}
}
