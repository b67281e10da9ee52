package real

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A Measure is a share of deliveries.
type Measure string

// The measures.
const (
	CalledSpam Measure = "spam"
	Suspected  Measure = "suspected"
	Flagged    Measure = "spam or suspected"
	CalledGood Measure = "good"
)

// A Limit is what a share of the deliveries of one name must be.
type Limit struct {
	IsSpam  bool
	Group   Group
	Measure Measure
	Bound   float64 // in percent; at least this for spam that is called spam or flagged, else at most
}

// atLeast reports whether the limit is a lower one.
func (l *Limit) atLeast() bool { return l.IsSpam && (l.Measure == CalledSpam || l.Measure == Flagged) }

// String returns the limit as "at most 5 %".
func (l Limit) String() string {
	if l.atLeast() {
		return fmt.Sprintf("at least %g %%", l.Bound)
	}
	return fmt.Sprintf("at most %g %%", l.Bound)
}

// A Bound is a kind of mail, and how it must be judged.
type Bound struct {
	Name   string
	Doc    string // a sentence
	Plan   func(seed uint64) *Plan
	Limits []Limit
}

// Bounds returns all bounds. Their mail is drawn like the mail of the worlds.
func Bounds() []Bound {
	spam := func(kind string, percent float64) Limit {
		return Limit{true, Group{"kind", kind}, CalledSpam, percent}
	}
	ham := func(kind string, m Measure, percent float64) Limit {
		return Limit{false, Group{"kind", kind}, m, percent}
	}
	return []Bound{
		{"changed", "Each copy has a token in its link and five random words; 20 networks send a campaign, 10 % report.",
			campaignsOf("changed"), []Limit{spam("changed", 45), ham("all", CalledSpam, 0.1)}},
		{"identical", "All copies of a campaign are alike; 20 networks send it, 10 % report.",
			campaignsOf("identical"), []Limit{spam("identical", 70), ham("all", CalledSpam, 0.1)}},
		{"platforms", "Unrelated senders link to platforms, and so did 6 and 20 reported spams for each platform.",
			platforms(true), []Limit{
				ham("6 reports", CalledSpam, 0), ham("6 reports", Suspected, 5),
				ham("20 reports", CalledSpam, 0), ham("20 reports", Suspected, 5),
			}},
		{"unlisted platforms", "The same with platforms that no list has, and ten more that sign their customers' mail.",
			platforms(false), []Limit{
				ham("6 reports", CalledSpam, 1), ham("6 reports", Suspected, 5),
				ham("20 reports", CalledSpam, 1), ham("20 reports", Suspected, 5),
				ham("signed, 6 reports", CalledSpam, 0), ham("signed, 6 reports", Suspected, 5),
				ham("signed, 20 reports", CalledSpam, 0), ham("signed, 20 reports", Suspected, 5),
			}},
		{"services", "Well-known companies send one text for all customers, and 6 and 20 spams with it were reported.",
			services, []Limit{
				ham("one address, 6 reports", CalledSpam, 0), ham("one address, 6 reports", Suspected, 5),
				ham("one address, 20 reports", CalledSpam, 0), ham("one address, 20 reports", Suspected, 5),
				ham("many addresses, 6 reports", CalledSpam, 0), ham("many addresses, 6 reports", Suspected, 5),
				ham("many addresses, 20 reports", CalledSpam, 0), ham("many addresses, 20 reports", Suspected, 5),
			}},
		{"templates", "Unrelated sites send the text of one software, and 6 and 20 reported spams imitate it.", templates,
			[]Limit{
				ham("verified, 6 reports", CalledSpam, 30), ham("verified, 20 reports", CalledSpam, 5),
				ham("not verified, 6 reports", CalledSpam, 30), ham("not verified, 20 reports", CalledSpam, 30),
			}},
		{"fresh names", "Each copy is signed by a fresh name below a free suffix, to which alone it links; 60 are reported.",
			freshNames, []Limit{spam("fresh names", 90)}},
		{"fresh signers", "Each copy has other words and is signed by a fresh domain. All link to one domain; 10 % report.",
			freshSigners, []Limit{spam("fresh signers", 22.5), ham("all", CalledSpam, 0.1)}},
		{"fresh signers, one file",
			"Each copy has other words and is signed by a fresh domain. All have one file; 10 % report.",
			attachmentSigners, []Limit{spam("fresh signers", 7), ham("all", CalledSpam, 0.1)}},
		{"forms", "Copies of a text are written in forms that hide it; each link and half of the signers are fresh.",
			forms, formLimits()},
		{"list server", "Unverified lists and twice as much spam come through one server; 10 % report.",
			listServer, []Limit{ham("list", CalledSpam, 0.02), ham("list", Flagged, 1)}},
		{"mistakes", "One or two of 50 readers report a genuine mailing by mistake; later mailings are judged.",
			mistakes, []Limit{
				ham("personal, 1 report", CalledSpam, 0), ham("list, 1 report", CalledSpam, 0),
				ham("newsletter, 1 report", CalledSpam, 0), ham("personal, 2 reports", CalledSpam, 0.1),
				ham("list, 2 reports", CalledSpam, 0.1), ham("newsletter, 2 reports", CalledSpam, 0.1),
			}},
	}
}

// A Result is a limit with what was measured.
type Result struct {
	Limit
	Share
	Cases int
	Kept  bool
}

// Results compares a tally with the limits of a bound.
func (b *Bound) Results(t *Tally) []Result {
	var all []Result
	for _, l := range b.Limits {
		r := t.row(rowID{l.IsSpam, l.Group})
		hits, cases := l.counts()
		s := share(r, hits, cases)
		result := Result{Limit: l, Share: s}
		for _, c := range r {
			result.Cases += cases(c)
		}
		result.Kept = result.Cases > 0 && (l.atLeast() && s.Percent >= l.Bound || !l.atLeast() && s.Percent <= l.Bound)
		all = append(all, result)
	}
	return all
}

// counts returns how many deliveries a measure counts, and of how many.
func (l *Limit) counts() (hits, cases func(*Counts) int) {
	cases = func(c *Counts) int { return c.Cases }
	switch l.Measure {
	case Suspected:
		return func(c *Counts) int { return c.Suspected }, cases
	case Flagged:
		return func(c *Counts) int { return c.Spam + c.Suspected }, cases
	case CalledGood:
		return func(c *Counts) int { return c.Good }, func(c *Counts) int { return c.Cases - c.Partial }
	}
	return func(c *Counts) int { return c.Spam }, cases
}

// day is the unit of the plans below.
const day = 24 * time.Hour

// settled returns a builder for four sites with a door each, which receive genuine mail for some
// days. No reader makes a mistake, and a tenth of the readers report spam. Half of the words of each
// genuine text are its own: the grammars have few sentences, and real letters share none.
func settled(name string, seed uint64, days, hamPerDay float64) *builder {
	r := rand.New(rand.NewPCG(seed, 0x626f756e64))
	w := &World{
		Seed: seed, Days: days, HamPerDay: hamPerDay, Sites: len(Doors), Users: 100, LeastRate: 0.1, MostRate: 0.1001,
		Genuine: shares(r, len(genuineKinds)), Objecting: 0.1, Delay: 2 * time.Hour, Spread: day, Pages: 0.6, Verified: 0.8,
	}
	b := &builder{World: w, r: r, span: time.Duration(days * float64(day)), plan: &Plan{Name: name, Signed: true}}
	b.sites()
	b.places = newPlaces(r)
	b.genuineSenders()
	for _, s := range b.senders {
		s.varied = true
	}
	b.genuine(int(days * hamPerDay))
	return b
}

// one adds a delivery that is a campaign of its own, with or without a vote.
func (b *builder) one(at time.Duration, spam bool, kind string, reports bool, make func(*rand.Rand, *Delivery) Mail) {
	b.deliver(at, b.reader(), spam, kind, nil, make)
	d := &b.plan.Deliveries[len(b.plan.Deliveries)-1]
	d.Reports, d.Delay = reports, min(d.Delay, 3*time.Hour)
	b.plan.Campaigns++
}

// campaignsOf returns a plan of campaigns whose copies differ in one way.
func campaignsOf(kind string) func(seed uint64) *Plan {
	return func(seed uint64) *Plan {
		b := settled(kind, seed, 12, 250)
		for n := 3000; n > 0; {
			copies := min(n, 600, int(15/b.r.Float64()))
			c := b.campaign(kind, pick(b.r, []string{"none", "none", "one", "fresh", "tenant"}),
				pick(b.r, []string{"own", "own", "fresh", "platform", "nothing"}), networks(b.r, 20))
			start := time.Duration(b.r.Float64() * float64(b.span-2*day))
			for range copies {
				b.deliver(start+later(b.r, 12*time.Hour), b.reader(), true, kind, c.groups, c.copy)
			}
			b.plan.Campaigns++
			n -= copies
		}
		return b.finish()
	}
}

// A platform is a site that unrelated senders link to.
type platform struct {
	name string
	link func(r *rand.Rand) string
}

// platformFamilies returns well-known platforms, and some unknown ones. If none is listed, all are unknown.
func platformFamilies(r *rand.Rand, listed bool) []platform {
	at := func(format string) platform {
		return platform{format, func(r *rand.Rand) string { return strings.ReplaceAll(format, "*", token(r)) }}
	}
	unknown := func() string { return domainName(r, true) }
	known := func(before, domain, after string) platform {
		if !listed {
			domain = unknown()
		}
		return at("https://" + before + domain + after)
	}
	return []platform{
		known("shop.us1.", "list-manage.com", "/track/click?u=*"), known("u1.ct.", "sendgrid.net", "/ls/click?upn=*"),
		known("docs.", "google.com", "/document/d/*/edit"), known("forms.", "office.com", "/r/*"), known("", "bit.ly", "/*"),
		known("www.", "dropbox.com", "/s/*/file.pdf"), known("", "calendly.com", "/*/30min"), known("", "zoom.us", "/j/*"),
		known("*.", "typeform.com", "/to/a"), known("", "we.tl", "/t-*"),
		at("https://click." + unknown() + "/ls/*"), at("https://go." + unknown() + "/r/*"),
		at("https://" + unknown() + "/f/*"), at("https://" + unknown() + "/invoice/*"),
	}
}

// platforms returns a plan in which genuine mail and spam link to the same platforms. A third of
// them each have 5, 40 and 200 genuine deliveries before. If none is listed, ten platforms more sign
// the mail of their customers, and have 40 deliveries.
func platforms(listed bool) func(seed uint64) *Plan {
	return func(seed uint64) *Plan {
		b := settled("platforms", seed, 24, 100)
		for i, p := range platformFamilies(b.r, listed) {
			b.platform(p, []int{5, 40, 200}[i%3], nil)
		}
		for n := 0; n < 10 && !listed; n++ {
			at := &carrier{domain: domainName(b.r, true), nets: networks(b.r, 3), signsOwn: true, spf: true}
			p := platform{at.domain, func(r *rand.Rand) string { return "https://" + at.domain + "/invite/" + token(r) }}
			b.platform(p, 40, at)
		}
		return b.finish()
	}
}

// platform adds genuine mail and spam that link to a platform. history is the number of genuine deliveries
// before the spam. The platform itself sends and signs all of it unless at is nil.
func (b *builder) platform(p platform, history int, at *carrier) {
	kind := map[bool]string{true: "signed, "}[at != nil]
	genuine := func() func(*rand.Rand, *Delivery) Mail {
		c := at
		if at == nil {
			c = &carrier{domain: domainName(b.r, true), nets: networks(b.r, 1), signsOwn: true, spf: true}
		}
		s := b.personal("platform", c)
		if s.link, s.varied = p.link, true; at != nil {
			s.address = "no-reply@" + at.domain
		}
		return s.mailing(b.r, 0)
	}
	spam := func() func(*rand.Rand, *Delivery) Mail {
		c := b.campaign("single", pick(b.r, []string{"none", "one"}), "platform", networks(b.r, 1))
		link := p.link(b.r)
		c.linkAt = func(*rand.Rand) string { return link }
		if at != nil {
			c.sender, c.carrier, c.account = "one", at, "no-reply@"+at.domain
		}
		return c.copy
	}
	b.phases(history, kind, genuine, spam)
}

// phases adds genuine mail before reported spam, after the first 6 reports, and after 20. history is the number of
// genuine deliveries before the spam.
func (b *builder) phases(history int, kind string, genuine, spam func() func(*rand.Rand, *Delivery) Mail) {
	within := func(from, to int) time.Duration {
		return time.Duration(from)*day + time.Duration(b.r.Int64N(int64(to-from)*int64(day)))
	}
	for range history {
		b.one(within(0, 12), false, "history", false, genuine())
	}
	for phase, reports := range []int{6, 20} {
		from := 12 + 6*phase
		for range reports - 6*phase {
			b.one(within(from, from+3), true, "platform", true, spam())
		}
		for range 10 {
			b.one(within(from+4, from+6), false, fmt.Sprintf("%s%d reports", kind, reports), false, genuine())
		}
	}
}

// companies are well known, and send the mail of their customers.
var companies = strings.Fields("docusign.net dropbox.com google.com zoom.us calendly.com intuit.com paypal.com " +
	"eventbrite.com typeform.com linkedin.com adobe.com wetransfer.com trello.com stripe.com slack.com surveymonkey.com " +
	"meetup.com jotform.com docusign.com airtable.com")

// services returns a plan in which well-known companies each send one text for all of their customers, who write a
// line in it. Half of the companies have an address for each customer. A third of them each have 5, 40 and 200 genuine
// deliveries before.
func services(seed uint64) *Plan {
	b := settled("services", seed, 24, 100)
	for i, domain := range companies {
		at := &carrier{domain: domain, nets: networks(b.r, 3), signsOwn: true, spf: true}
		company, kind := b.software(0), [2]string{"one address, ", "many addresses, "}[i%2]
		from := func(section string) func() func(*rand.Rand, *Delivery) Mail {
			return func() func(*rand.Rand, *Delivery) Mail {
				c := *company.campaign
				c.from, c.account = title(coin(b.r, 3))+" "+title(coin(b.r, 3)), [2]string{"no-reply", coin(b.r, 3)}[i%2]+"@"+domain
				own := replaceWords(b.r, c.lang.sentences(b.r, section, 1, map[string]string{"brand": c.from}), 0.5)
				c.brand, c.texts = c.from, []string{company.fill(b.r, domain) + "\n\n" + own}
				c.sender, c.carrier, c.nets = "one", at, at.nets
				c.linkAt = func(r *rand.Rand) string { return "https://" + domain + "/s/" + token(r) }
				return c.copy
			}
		}
		b.phases([]int{5, 40, 200}[i/2%3], kind, from("talk"), from("spam.phish"))
	}
	return b.finish()
}

// freshNames returns a plan of campaigns whose copies are each signed by a name of their own.
func freshNames(seed uint64) *Plan {
	b := settled("fresh names", seed, 8, 100)
	for range 4 {
		c := b.campaign("changed", "fresh", "own", networks(b.r, 20))
		suffix := pick(b.r, []string{"web.app", "workers.dev", "eu.org", "netlify.app"})
		copies := func(r *rand.Rand, d *Delivery) Mail {
			name := fmt.Sprintf("%s%d.%s", coin(r, 3), r.IntN(1000), suffix)
			own := *c
			own.domain, own.account, own.sender = name, "info@"+name, "tenant"
			own.carrier = &carrier{domain: name, nets: c.nets, signsOwn: true, spf: true}
			return own.copy(r, d)
		}
		for i := range 100 {
			kind := "fresh names"
			if i < 60 {
				kind += ", before"
			}
			b.one(3*day+time.Duration(i)*time.Hour, true, kind, i < 60, copies)
		}
	}
	return b.finish()
}

// freshSigners returns a plan of campaigns whose copies have little in common but the domain that they link to.
func freshSigners(seed uint64) *Plan {
	b := settled("fresh signers", seed, 12, 100)
	for range 6 {
		c := b.campaign("words", "fresh", "own", networks(b.r, 20))
		c.replaced = 0.9
		start := time.Duration(b.r.Float64() * float64(b.span-2*day))
		c.linkAt = func(r *rand.Rand) string { return "https://" + c.domain + "/" + token(r) }
		for range 100 {
			b.deliver(start+later(b.r, 12*time.Hour), b.reader(), true, "fresh signers", c.groups, c.copy)
		}
		b.plan.Campaigns++
	}
	return b.finish()
}

// listServer returns a plan of lists whose server hands on spam, too, all of it unverified.
func listServer(seed uint64) *Plan {
	b := settled("list server", seed, 28, 40)
	server := &carrier{domain: domainName(b.r, true), nets: networks(b.r, 1), ownEnvelope: true}
	var lists []*source
	for range 4 {
		s := b.list()
		s.via, s.groups, s.varied, s.listID = server, b.verifiedGroup(false), true, s.brand+"."+server.domain
		lists = append(lists, s)
	}
	for at := time.Duration(0); at < b.span; at += later(b.r, 6*time.Hour) {
		s := pick(b.r, lists)
		post := s.mailing(b.r, at)
		for _, to := range s.readers {
			b.deliver(at+later(b.r, 5*time.Minute), to, false, "list", s.groups, post)
		}
		b.plan.Campaigns++
		for range 2 * len(s.readers) {
			c := b.campaign("single", "none", pick(b.r, []string{"own", "platform", "nothing"}), server.nets)
			b.one(at+later(b.r, 3*time.Hour), true, "through the list's server", chance(b.r, 0.1), c.copy)
		}
	}
	return b.finish()
}

// mistakes returns a plan in which readers report one mailing of a genuine sender.
func mistakes(seed uint64) *Plan {
	b := settled("mistakes", seed, 16, 100)
	for _, wrong := range []int{1, 2} {
		for i := range 12 {
			s := b.list()
			switch i % 3 {
			case 1:
				s = b.newsletter()
			case 2:
				s = b.personal("personal", pick(b.r, b.places.providers))
				s.toAll = true
			}
			s.readers, s.varied = b.readers(50), true
			kind := fmt.Sprintf("%s, %d report%s", s.kind, wrong, strings.Repeat("s", wrong-1))
			before := i / 3 * 2 // mailings, 0 for an unknown sender
			for n := range before + 8 {
				at := 3*day + time.Duration(n)*16*time.Hour
				mailing, of := s.mailing(b.r, at), kind
				if n <= before {
					of = "before a mistake"
				}
				for k, to := range s.readers {
					b.deliver(at+later(b.r, 5*time.Minute), to, false, of, s.groups, mailing)
					d := &b.plan.Deliveries[len(b.plan.Deliveries)-1]
					d.Reports, d.Delay = n == before && k < wrong, time.Hour
				}
				b.plan.Campaigns++
			}
		}
	}
	return b.finish()
}

// A software writes the mail of unrelated sites, with one text for all of them.
type software struct {
	*campaign // has the text, and how it is written
	sites     []*carrier
}

// software draws a text, and n sites that use it. Half of the sites sign their mail.
func (b *builder) software(n int) *software {
	c := b.campaign("single", "none", "own", networks(b.r, 1))
	c.texts[0] = replaceWords(b.r, c.lang.sentences(b.r, "talk", 6+b.r.IntN(6), nil), 0.5)
	c.subjects[0] = replaceWords(b.r, c.subjects[0], 0.5)
	s := &software{campaign: c}
	for i := range n {
		s.sites = append(s.sites, &carrier{domain: domainName(b.r, true), nets: networks(b.r, 1), signsOwn: i%2 == 0,
			spf: i%2 == 0})
	}
	return s
}

// fill returns the text with the fields of one mail.
func (s *software) fill(r *rand.Rand, site string) string {
	return s.lang.line(r, "hello", nil) + "\n\n" + s.texts[0] + "\n\n" +
		s.lang.fill(r, "{code}, {amount}, {day}\n"+site, nil)
}

// genuine returns what makes a mail of a site.
func (s *software) genuine(at *carrier) func(*rand.Rand, *Delivery) Mail {
	return func(r *rand.Rand, d *Delivery) Mail {
		c := *s.campaign
		c.texts, c.from, c.brand = []string{s.fill(r, at.domain)}, at.domain, at.domain
		c.sender, c.carrier, c.nets, c.account = "one", at, at.nets, "noreply@"+at.domain
		c.linkAt = func(r *rand.Rand) string { return "https://" + at.domain + "/order/" + token(r) }
		return c.copy(r, d)
	}
}

// imitation returns what makes a spam with the text of the software.
func (s *software) imitation(b *builder) func(*rand.Rand, *Delivery) Mail {
	c := b.campaign("single", pick(b.r, []string{"none", "one"}), "own", networks(b.r, 1))
	c.lang, c.format, c.subjects, c.words = s.lang, s.format, s.subjects, s.words
	c.from = c.domain
	return func(r *rand.Rand, d *Delivery) Mail {
		own := *c
		own.texts = []string{s.fill(r, c.domain)}
		return own.copy(r, d)
	}
}

// templates returns a plan in which spam has the text of a software that many sites use. A third of the texts
// each have 5, 40 and 200 genuine deliveries before.
func templates(seed uint64) *Plan {
	b := settled("templates", seed, 24, 100)
	within := func(from, to int) time.Duration {
		return time.Duration(from)*day + time.Duration(b.r.Int64N(int64(to-from)*int64(day)))
	}
	for i := range 14 {
		history := []int{5, 40, 200}[i%3]
		s := b.software(6 + history/5)
		for range history {
			b.one(within(0, 12), false, "history", false, s.genuine(pick(b.r, s.sites)))
		}
		for phase, reports := range []int{6, 14} {
			from := 12 + 6*phase
			for range reports {
				b.one(within(from, from+3), true, "imitation", true, s.imitation(b))
			}
			for n := range 20 {
				at := s.sites[2*b.r.IntN(len(s.sites)/2)+n%2]
				kind := fmt.Sprintf("%s, %d reports", []string{"verified", "not verified"}[n%2], []int{6, 20}[phase])
				b.one(within(from+4, from+6), false, kind, false, s.genuine(at))
			}
		}
	}
	return b.finish()
}
