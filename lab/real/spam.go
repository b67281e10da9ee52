package real

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// themes are the sections of the grammars with spam, and those with their subjects.
var themes = [][2]string{
	{"spam.phish", "subject.phish"}, {"spam.parcel", "subject.parcel"}, {"spam.fee", "subject.fee"},
	{"spam.shop", "subject.shop_spam"}, {"spam.survey", "subject.survey"}, {"spam.invest", "subject.invest"},
}

// A campaign is spam that is sent together.
type campaign struct {
	kind, sender, links string
	groups              []Group

	lang     grammar
	format   format
	texts    []string // rotating; one unless the kind is templates
	subjects []string
	words    string // of the link
	brand    string
	from     string // display name
	domain   string // of its links
	page     string // identifier of its page on a platform, or of its short link
	linkSeed uint64 // chooses the platform
	replaced float64
	carrier  *carrier
	account  string                  // address of a tenant's or hacked sender
	linkAt   func(*rand.Rand) string // makes the link in place of links, if set
	form     *form                   // in which copies are written, nil for the format alone
	nets     []netip.Prefix
}

// newCampaign draws a campaign of a number of copies.
func (b *builder) newCampaign(copies int) *campaign {
	r := b.r
	nets := networks(r, min(copies, int(spread(r, 1, 500))))
	if chance(r, 0.3) { // machines that several campaigns use
		for i := range nets {
			nets[i] = pick(r, b.places.botnets)
		}
	}
	if chance(r, 0.1) { // a customer of a hoster
		nets = pick(r, b.places.hosters).nets
	}
	c := b.campaign(differences[weighted(r, b.Differences)], spamSenders[weighted(r, b.Senders)],
		spamLinks[weighted(r, b.Links)], nets)
	if copies == 1 {
		c.kind = "single"
	}
	c.groups = append(c.groups, Group{"copies", magnitude(copies)})
	return c
}

// campaign writes a campaign.
func (b *builder) campaign(kind, sender, links string, nets []netip.Prefix) *campaign {
	r := b.r
	c := &campaign{
		kind: kind, sender: sender, links: links, nets: nets,
		lang: pick(r, languages), format: newFormat(r, b.Pages), brand: title(coin(r, 2)), domain: domainName(r, false),
		page: token(r), linkSeed: r.Uint64(), replaced: between(r, 0, 0.5),
		groups: []Group{{"sender", sender}, {"links", links}},
	}
	c.write(b)
	c.senders(b)
	return c
}

// magnitude names a number of copies.
func magnitude(n int) string {
	switch {
	case n == 1:
		return "1"
	case n < 10:
		return "2-9"
	case n < 100:
		return "10-99"
	}
	return "100-"
}

// write writes the texts.
func (c *campaign) write(b *builder) {
	r := b.r
	texts := 1
	if c.kind == "templates" {
		texts = 3 + r.IntN(15)
	}
	theme := pick(r, themes)
	values := map[string]string{"brand": c.brand, "to": "{to}"}
	c.from = c.brand
	if c.kind == "clone" {
		victim := b.victim()
		c.lang, c.format, c.brand, c.from = victim.lang, victim.format, victim.brand, victim.brand
		for k, v := range victim.values() {
			values[k] = v
		}
		theme = [2]string{"notice." + victim.family, "subject." + victim.family}
	}
	c.words = c.lang.line(r, "call.spam", nil)
	for range texts {
		var text string
		if c.kind == "clone" {
			text = c.lang.all(r, theme[0], values)
		} else {
			// The sections of a theme are short. Sentences that no other campaign has keep unrelated
			// campaigns apart.
			text = c.lang.sentences(r, theme[0], 2+r.IntN(3), values) + "\n\n" +
				c.lang.sentences(r, "talk", 2+r.IntN(8), values)
		}
		c.texts = append(c.texts, strings.TrimSpace(text))
		c.subjects = append(c.subjects, c.lang.line(r, theme[1], values))
	}
	if c.kind == "picture" {
		c.format.html = true
	}
}

// senders draws who sends the campaign.
func (c *campaign) senders(b *builder) {
	r := b.r
	switch c.sender {
	case "one":
		c.carrier = &carrier{domain: domainName(r, false), nets: c.nets[:1+len(c.nets)/10], signsOwn: true, spf: true}
		c.account = "info@" + c.carrier.domain
	case "tenant":
		if chance(r, 0.5) {
			c.carrier = pick(r, b.places.providers)
			c.account = fmt.Sprintf("%s%d@%s", coin(r, 2), r.IntN(1000), c.carrier.domain)
		} else {
			at := pick(r, b.places.tenants)
			tenant := fmt.Sprintf("%s%d.%s", coin(r, 2), r.IntN(1000), at.domain)
			c.carrier = &carrier{domain: tenant, nets: at.nets, signsOwn: true, spf: true}
			c.account = "noreply@" + tenant
		}
	case "hacked":
		owner := b.hackable()
		c.carrier, c.account = owner.carrier, owner.address
	}
}

// changedWords is the number of random words in each copy of kind "changed", which also has a token
// in its link.
const changedWords = 5

// word matches the words that a campaign replaces.
var word = regexp.MustCompile(`\pL{4,}`)

// replaceWords replaces a share of the words by coined ones.
func replaceWords(r *rand.Rand, text string, share float64) string {
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if chance(r, share) {
			return coin(r, 2)
		}
		return w
	})
}

// copy makes one copy.
func (c *campaign) copy(r *rand.Rand, d *Delivery) Mail {
	n := r.IntN(len(c.texts))
	text, subject := c.texts[n], c.subjects[n]
	name := pick(r, names["name"])
	switch c.kind {
	case "name", "clone":
		text = c.lang.line(r, "hello", map[string]string{"name": name}) + "\n\n" + text
	case "words":
		text = replaceWords(r, text, c.replaced)
	case "changed":
		for range changedWords {
			text += " " + coin(r, 2)
		}
	}
	m := draft{
		format: c.format, fromName: c.from, to: d.To, at: d.At, subject: strings.ReplaceAll(subject, "{to}", d.To),
		text: strings.ReplaceAll(text, "{to}", d.To), client: address(r, c.nets), form: c.form,
	}
	m.helo = fmt.Sprintf("host%d.%s", r.IntN(1000), domainName(r, false))
	if url := c.link(r); url != "" {
		m.links = []link{{url, c.words}}
	}
	if c.kind == "picture" {
		m.picture = drawText(r, m.text, c.linkSeed)
		m.text = c.lang.line(r, "hello", map[string]string{"name": name})
	}
	c.address(r, &m)
	m.messageID = token(r) + token(r) + "@" + m.helo
	return m.mail(r)
}

// address sets who the copy claims to be from, and who answers for it.
func (c *campaign) address(r *rand.Rand, m *draft) {
	switch c.sender {
	case "none":
		m.from = fmt.Sprintf("%s@%s", coin(r, 2), domainName(r, chance(r, 0.5)))
		m.sender = m.from
	case "fresh":
		domain := domainName(r, false)
		m.from, m.sender = "info@"+domain, "info@"+domain
		m.dkim, m.spf = []string{domain}, true
	default:
		m.from, m.sender = c.account, c.account
		_, domain, _ := strings.Cut(c.account, "@")
		c.carrier.carry(r, m, domain)
	}
}

// link returns the link of a copy.
func (c *campaign) link(r *rand.Rand) string {
	if c.linkAt != nil {
		return c.linkAt(r)
	}
	id := c.page
	path := "/" + strings.ToLower(c.brand)
	if c.kind == "token" || c.kind == "changed" {
		path += "/" + token(r)
	}
	place := rand.New(rand.NewPCG(c.linkSeed, 0)) // the same platform for all copies
	switch c.links {
	case "own":
		return "https://" + c.domain + path
	case "fresh":
		return "https://" + domainName(r, false) + path
	case "platform":
		if c.kind == "token" {
			return platformLink(place, id) + "?u=" + token(r)
		}
		return platformLink(place, id)
	case "shortener":
		if c.kind == "token" {
			id = token(r)
		}
		return shortLink(place, id)
	case "redirector":
		return redirected(place, "https://"+c.domain+path)
	}
	return ""
}

// victim returns a genuine sender of notices.
func (b *builder) victim() *source {
	var all []*source
	for _, s := range b.senders {
		if s.kind == "notice" || s.kind == "form" {
			all = append(all, s)
		}
	}
	return pick(b.r, all)
}

// hackable returns a genuine sender whose account can be taken over.
func (b *builder) hackable() *source {
	i := slices.IndexFunc(b.senders, func(s *source) bool { return s.kind == "office" || s.kind == "hoster" })
	owner := b.senders[i]
	for _, s := range b.senders[i:] {
		if (s.kind == "office" || s.kind == "hoster") && chance(b.r, 0.2) {
			owner = s
		}
	}
	return owner
}
