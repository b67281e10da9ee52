package real

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A source is a sender of genuine mail.
type source struct {
	kind, family string // the family of a notice is a section of the grammar
	groups       []Group
	lang         grammar
	format       format
	brand        string
	name         string // of a person
	domain       string
	address      string
	carrier      *carrier
	via          *carrier // a gateway that forwards, or a list's server
	listID       string
	readers      []reader
	toAll        bool // each mailing goes to all readers
	link         func(r *rand.Rand) string
	varied       bool      // half of the words of a text are its own
	sections     [2]string // of text and subject
	site         string    // of a reset
	form         *form     // in which mail is written, nil for the format alone
}

// values returns the names in the texts of a source.
func (s *source) values() map[string]string {
	v := map[string]string{"brand": s.brand}
	if s.site != "" {
		v["site"] = s.site
	}
	return v
}

// genuineSenders draws the senders of genuine mail.
func (b *builder) genuineSenders() {
	r, users := b.r, 0
	for _, s := range b.plan.Sites {
		users += len(s.Users)
	}
	add := func(n int, make func() *source) {
		for range n {
			s := make()
			if len(s.readers) == 0 {
				s.readers = b.readers(1)
			}
			b.senders = append(b.senders, s)
		}
	}
	add(max(6, users), func() *source { return b.personal("personal", pick(r, b.places.providers)) })
	add(max(3, users/15), b.list)
	add(max(4, users/10), b.newsletter)
	for _, family := range []string{"shop", "bank", "forge", "calendar"} {
		add(max(2, users/20), func() *source { return b.notice(family) })
	}
	add(max(3, users/15), b.form)
	software := b.r.Uint64()
	add(max(5, users/6), func() *source { return b.reset(software) })
	add(max(4, users/8), func() *source {
		s := b.personal("forward", pick(r, b.places.providers))
		if chance(r, 0.3) {
			s = b.newsletter()
		}
		s.kind, s.via, s.toAll = "forward", pick(r, b.places.gateways), false
		s.groups = b.verifiedGroup(s.carrier.signsOwn || s.via.spf)
		return s
	})
	add(max(4, users/6), func() *source {
		hoster := pick(r, b.places.hosters)
		verified := chance(r, b.Verified*0.7)
		own := &carrier{domain: hoster.domain, nets: hoster.nets, signsCustomer: verified && chance(r, 0.5), spf: verified}
		s := b.personal("hoster", own)
		s.groups = b.verifiedGroup(verified)
		return s
	})
	add(max(3, users/15), b.office)
}

func (b *builder) verifiedGroup(verified bool) []Group {
	return []Group{{"verified", map[bool]string{true: "yes", false: "no"}[verified]}}
}

// personal is a person who writes to a few readers. Customers of providers have their address
// there, others a domain of their own.
func (b *builder) personal(kind string, c *carrier) *source {
	r := b.r
	s := &source{
		kind: kind, groups: b.verifiedGroup(true), lang: pick(r, languages), format: newFormat(r, b.Pages), name: person(r),
		carrier: c,
		domain:  c.domain, readers: b.readers(1 + r.IntN(4)), sections: [2]string{"talk", "subject.talk"},
	}
	if kind == "hoster" {
		s.domain = domainName(r, true)
	}
	s.address = fmt.Sprintf("%s%d@%s", strings.ToLower(strings.ReplaceAll(s.name, " ", ".")), r.IntN(100), s.domain)
	s.format.agent = fmt.Sprintf("Mail %d", 1+r.IntN(20))
	if chance(r, 0.3) {
		own := domainName(r, true)
		s.link = func(r *rand.Rand) string {
			switch r.IntN(6) {
			case 0:
				return platformLink(r, token(r))
			case 1:
				return shortLink(r, token(r))
			case 2:
				return "https://" + own + "/" + coin(r, 2)
			}
			return ""
		}
	}
	return s
}

// list is a mailing list, on a server with others.
func (b *builder) list() *source {
	r := b.r
	s := b.personal("list", pick(r, b.places.providers))
	s.via = pick(r, b.places.servers)
	s.brand = coin(r, 2)
	s.listID = s.brand + "." + s.via.domain
	s.groups = b.verifiedGroup(s.via.signsOwn)
	s.readers, s.toAll = b.readers(2+r.IntN(20)), true
	s.sections = [2]string{"tech", "subject.tech"}
	s.format.html = chance(r, 0.2)
	s.format.plain = true
	return s
}

// newsletter is a customer of a mail service, which signs with its own domain, the customer's or
// both.
func (b *builder) newsletter() *source {
	r := b.r
	c := pick(r, b.places.services)
	s := &source{
		kind: "newsletter", groups: b.verifiedGroup(true), lang: pick(r, languages), format: newFormat(r, max(0.8,
			b.Pages)), brand: title(coin(r, 2)),
		domain: domainName(r, true), carrier: c, readers: b.readers(2 + r.IntN(40)), toAll: true,
		sections: [2]string{"offer", "subject.offer"},
	}
	s.address = "news@" + s.domain
	s.format.unsubscribe = true
	s.link = func(r *rand.Rand) string {
		if r.IntN(3) == 0 {
			return "https://" + s.domain + "/" + coin(r, 2)
		}
		return "https://click." + c.domain + "/ls/" + token(r)
	}
	return s
}

// notice is a shop, bank, forge or calendar that fills a template in for one reader.
func (b *builder) notice(family string) *source {
	r := b.r
	s := &source{
		kind: "notice", family: family, lang: pick(r, languages), format: newFormat(r, max(0.7, b.Pages)),
		brand:  title(coin(r, 2)),
		domain: domainName(r, true), readers: b.readers(3 + r.IntN(40)), sections: [2]string{"notice." + family,
			"subject." + family},
	}
	s.address = "noreply@" + s.domain
	s.carrier = &carrier{domain: s.domain, nets: networks(r, 1+r.IntN(3)), signsOwn: chance(r, b.Verified),
		spf: chance(r, b.Verified)}
	if chance(r, 0.4) {
		s.carrier = pick(r, b.places.services)
	}
	s.groups = append(b.verifiedGroup(s.carrier.signsOwn || s.carrier.signsCustomer || s.carrier.spf), Group{"family",
		family})
	s.link = func(r *rand.Rand) string { return "https://www." + s.domain + "/" + family + "/" + token(r) }
	return s
}

// form is a person who shares a document or form on a platform, by the platform's own mail or by
// mail of their own.
func (b *builder) form() *source {
	r := b.r
	s := b.personal("form", pick(r, b.places.providers))
	s.family, s.brand = "form", s.name
	s.sections = [2]string{"notice.form", "subject.form"}
	if chance(r, 0.5) {
		at := pick(r, []string{"docs.google.com", "dropbox.com", "sharepointonline.com", "notion.so"})
		s.carrier = &carrier{domain: at, nets: networks(r, 3), signsOwn: true, spf: true}
		s.domain, s.address = at, "no-reply@"+at
	}
	s.readers = b.readers(2 + r.IntN(10))
	s.link = func(r *rand.Rand) string { return platformLink(r, token(r)) }
	return s
}

// reset is a site that runs the same software as others, which writes the same text for all.
func (b *builder) reset(software uint64) *source {
	r := b.r
	same := rand.New(rand.NewPCG(software, r.Uint64N(2)))
	hoster := pick(r, b.places.hosters)
	verified := chance(r, b.Verified*0.6)
	s := &source{
		kind: "reset", family: "reset", groups: b.verifiedGroup(verified), lang: languages[same.IntN(len(languages))],
		format: newFormat(same, 0),
		brand:  title(coin(same, 2)), domain: domainName(r, true), readers: b.readers(1 + r.IntN(6)),
		sections: [2]string{"notice.reset", "subject.reset"},
	}
	s.name, s.site, s.address = s.brand, s.domain, "wordpress@"+s.domain
	s.carrier = &carrier{domain: hoster.domain, nets: hoster.nets, spf: verified}
	s.link = func(r *rand.Rand) string { return "https://" + s.domain + "/wp-login.php?action=rp&key=" + token(r) }
	return s
}

// office is one of several people behind one address.
func (b *builder) office() *source {
	r := b.r
	domain := domainName(r, true)
	verified := chance(r, b.Verified)
	nets := networks(r, 1)
	c := &carrier{domain: domain, nets: nets, signsOwn: verified && chance(r, 0.5), spf: verified}
	c.single = address(r, nets)
	s := b.personal("office", c)
	s.groups = b.verifiedGroup(verified)
	return s
}

// mailing draws one text, and returns what makes its copies.
func (s *source) mailing(r *rand.Rand, at time.Duration) func(*rand.Rand, *Delivery) Mail {
	values := s.values()
	author, address := s.name, s.address
	if s.kind == "list" { // each post is by another member
		author = person(r)
		address = strings.ToLower(strings.ReplaceAll(author, " ", ".")) + "@" + domainName(r, true)
	}
	if author == "" {
		author = s.brand
	}
	text := "" // of a notice: filled in for each reader
	switch {
	case s.kind == "newsletter":
		text = s.lang.sentences(r, s.sections[0], 5+r.IntN(10), values)
	case !strings.HasPrefix(s.sections[0], "notice."):
		text = s.lang.sentences(r, s.sections[0], 2+r.IntN(9), values)
	}
	if s.varied {
		text = replaceWords(r, text, 0.5)
	}
	subject := s.lang.line(r, s.sections[1], values)
	call := "call.offer"
	if text == "" {
		call = "call.notice"
	}
	words := s.lang.line(r, call, nil)
	id := token(r) + token(r)
	target := s.link
	if target != nil && text != "" && s.kind != "newsletter" { // all copies are one message
		url := target(r)
		target = func(*rand.Rand) string { return url }
	}
	return func(r *rand.Rand, d *Delivery) Mail {
		m := draft{
			format: s.format, fromName: author, from: address, to: d.To, at: d.At, subject: subject, text: text, sender: address,
			messageID: id + "@" + s.domain, form: s.form, genuine: true,
		}
		if text == "" {
			m.text = s.lang.line(r, "hello", nil) + "\n\n" + s.lang.all(r, s.sections[0], values)
			m.subject = s.lang.line(r, s.sections[1], values)
			m.messageID = token(r) + token(r) + "@" + s.domain
		} else if s.kind != "list" && s.kind != "newsletter" {
			m.text = s.lang.line(r, "hello", nil) + "\n\n" + text + "\n\n" + s.lang.line(r, "bye", nil) + "\n" + author
		}
		if s.kind == "newsletter" { // each copy is a message of its own
			m.messageID = token(r) + token(r) + "@" + s.domain
		}
		if target != nil {
			if url := target(r); url != "" {
				m.links = []link{{url, words}}
			}
		}
		s.carrier.carry(r, &m, s.domain)
		s.pass(r, &m)
		return m.mail(r)
	}
}

// pass hands a draft to the server of a list or to a gateway.
func (s *source) pass(r *rand.Rand, m *draft) {
	if s.format.unsubscribe {
		m.extra = append(m.extra, "List-Unsubscribe: <https://click."+s.carrier.domain+"/u/"+token(r)+">")
	}
	if s.via == nil {
		return
	}
	if s.kind == "list" {
		// The server adds a footer, so the author's signature is broken and left out.
		m.text += "\n\n_______________\n" + s.brand + " mailing list\nhttps://" + s.via.domain + "/" + s.brand
		m.extra = append(m.extra, "List-Id: <"+s.listID+">", "List-Post: <mailto:"+s.brand+"@"+s.via.domain+">",
			"Precedence: list")
		s.via.carry(r, m, "")
		return
	}
	// A gateway changes nothing: signatures hold, and the envelope is its own.
	signed := m.dkim
	s.via.carry(r, m, "")
	m.dkim = signed
}
