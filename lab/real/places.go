package real

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
)

// firsts are the first bytes of the addresses of SMTP clients: public networks without mail
// servers. Nothing is sent there.
var firsts = []byte{11, 21, 22, 26, 28, 29, 30, 33}

// network returns a random /24.
func network(r *rand.Rand) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{pick(r, firsts), byte(r.IntN(256)), byte(r.IntN(256)), 0}), 24)
}

func networks(r *rand.Rand, n int) []netip.Prefix {
	all := make([]netip.Prefix, n)
	for i := range all {
		all[i] = network(r)
	}
	return all
}

// address returns a random address of one of the networks.
func address(r *rand.Rand, nets []netip.Prefix) netip.Addr {
	a := pick(r, nets).Addr().As4()
	a[3] = byte(1 + r.IntN(254))
	return netip.AddrFrom4(a)
}

// A carrier hands mail of others over: a mail service, a hoster, a free provider, a gateway.
type carrier struct {
	domain string
	nets   []netip.Prefix
	single netip.Addr // its only address, if it has but one
	// Which domains its mail can be verified for.
	signsOwn, signsCustomer, spf bool
	ownEnvelope                  bool // the envelope's sender is at the carrier's domain
}

// carry sets who hands over a draft for a customer's domain.
func (c *carrier) carry(r *rand.Rand, d *draft, customer string) {
	d.client = c.single
	if !d.client.IsValid() {
		d.client = address(r, c.nets)
	}
	d.helo = fmt.Sprintf("out%d.%s", 1+r.IntN(40), c.domain)
	d.dkim = nil
	if c.signsCustomer && customer != "" {
		d.dkim = append(d.dkim, customer)
	}
	if c.signsOwn {
		d.dkim = append(d.dkim, c.domain)
	}
	if c.ownEnvelope {
		d.sender = fmt.Sprintf("bounce-%06x@%s", r.IntN(1<<24), c.domain)
	}
	d.spf = c.spf
}

// places are what genuine senders and spammers share.
type places struct {
	services  []*carrier // for mailings
	providers []*carrier // of free mailboxes
	hosters   []*carrier
	servers   []*carrier // of many lists each
	gateways  []*carrier
	tenants   []*carrier // platforms that sign for their tenants' subdomains
	botnets   []netip.Prefix
}

func newPlaces(r *rand.Rand) *places {
	p := &places{botnets: networks(r, 2000)}
	for i := range 3 + r.IntN(5) {
		c := &carrier{domain: domainName(r, true), nets: networks(r, 1+r.IntN(6)), spf: true, ownEnvelope: true}
		c.signsOwn, c.signsCustomer = i%3 != 1, i%3 != 0 // own, customer's, both
		p.services = append(p.services, c)
	}
	for _, domain := range []string{"gmail.com", "outlook.com", "yahoo.com", "gmx.de"} {
		p.providers = append(p.providers, &carrier{domain: domain, nets: networks(r, 2+r.IntN(8)), signsOwn: true, spf: true})
	}
	for range 2 + r.IntN(4) {
		p.hosters = append(p.hosters, &carrier{domain: domainName(r, true), nets: networks(r, 1+r.IntN(3))})
	}
	for range 1 + r.IntN(3) {
		c := &carrier{domain: domainName(r, true), nets: networks(r, 1), ownEnvelope: true, signsOwn: chance(r, 0.5)}
		c.spf = c.signsOwn
		p.servers = append(p.servers, c)
	}
	for range 1 + r.IntN(2) {
		p.gateways = append(p.gateways, &carrier{domain: domainName(r, true), nets: networks(r, 1), ownEnvelope: true,
			spf: chance(r, 0.7)})
	}
	for _, domain := range []string{"onmicrosoft.com", "firebaseapp.com", "myshopify.com"} {
		p.tenants = append(p.tenants, &carrier{domain: domain, nets: networks(r, 2+r.IntN(4)), spf: true})
	}
	return p
}

// token returns an identifier as it stands in links.
func token(r *rand.Rand) string { return fmt.Sprintf("%012x", r.Uint64()>>16) }

// platformLink returns a link to a page that a customer of a platform made; id names the page.
func platformLink(r *rand.Rand, id string) string {
	return fmt.Sprintf(pick(r, []string{
		"https://docs.google.com/forms/d/e/1FAIpQL%s/viewform", "https://sites.google.com/view/%s", "https://%s.web.app/",
		"https://storage.googleapis.com/%s/index.html", "https://forms.office.com/r/%s",
		"https://www.dropbox.com/s/%s/file.pdf",
		"https://%s.notion.site/page", "https://%s.myshopify.com/products",
	}), id)
}

// shortLink returns a link of a shortener.
func shortLink(r *rand.Rand, id string) string {
	return fmt.Sprintf(pick(r, []string{"https://bit.ly/%s", "https://tinyurl.com/%s", "https://t.co/%s",
		"https://is.gd/%s"}), id[:7])
}

// redirected returns a link that leads to target by way of a well-known site.
func redirected(r *rand.Rand, target string) string {
	return fmt.Sprintf(pick(r, []string{
		"https://www.google.com/url?q=%s", "https://l.facebook.com/l.php?u=%s", "https://www.youtube.com/redirect?q=%s",
		"https://click.list-manage.com/track/click?u=%s",
	}), target)
}
