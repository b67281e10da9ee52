package config

import (
	"net"
	"strings"
)

// Razor2 is the section [razor2].
type Razor2 struct {
	Names       []string `toml:"names" doc:"\"host:port\" of the servers that discovery names; a host name must have a\ndot. Empty: the address that the client has connected to"`
	Confidence  int      `toml:"min_confidence" doc:"confidence from which clients with default settings take a signature for spam,\npercent. Raise serial when you change it"`
	Serial      int      `toml:"serial" doc:"version number of this section: clients fetch the parameters again when it grows"`
	MaxHosts    int      `toml:"links_per_part" doc:"most links of one part of a reported message that are listed; 0: none"`
	ExemptHosts []string `toml:"exempt_hosts" doc:"domains whose links are never listed, subdomains included"`
	Register    float64  `toml:"registrations_per_minute" doc:"new accounts from one network, a /24 or an IPv6 /48; four times as many from an\nIPv6 /32, ten times as many from loopback"`
}

// Pyzor is the section [pyzor].
type Pyzor struct {
	Anonymous []string `toml:"anonymous" doc:"operations of clients without an account"`
	Users     []string `toml:"users" doc:"operations of clients with an account"`
	Listed    int      `toml:"listed_count" doc:"Count that spam shows at least, and nothing else: SpamAssassin's pyzor_count_min.\n0: votes as they are"`
}

var pyzorOperations = []string{"ping", "pong", "check", "report", "whitelist", "info"}

func defaultRazor2() Razor2 {
	return Razor2{
		Names: []string{}, Confidence: 20, Serial: 1, MaxHosts: 32, Register: 20,
		ExemptHosts: []string{
			"w3.org", "schemas.microsoft.com", "purl.org", "xml.org", "adobe.com", "apple.com", "example.com",
			"facebook.com", "fbcdn.net", "github.com", "google.com", "googleapis.com", "gstatic.com", "youtube.com",
			"youtu.be", "instagram.com", "linkedin.com", "microsoft.com", "office.com", "outlook.com", "live.com",
			"twitter.com", "x.com", "wikipedia.org", "yahoo.com", "amazon.com", "paypal.com", "ebay.com",
			"apache.org", "debian.org", "kernel.org", "mozilla.org", "gnu.org", "sourceforge.net",
			"whatsapp.com", "telegram.org", "tiktok.com", "pinterest.com", "vimeo.com", "dropbox.com",
		},
	}
}

func defaultPyzor() Pyzor {
	return Pyzor{Anonymous: []string{"ping", "pong", "check", "report", "info"}, Users: pyzorOperations, Listed: 5}
}

func (c *checker) razor2(r *Razor2) {
	for _, name := range r.Names {
		host, _, err := net.SplitHostPort(name)
		if err != nil || !strings.Contains(host, ".") || strings.ContainsAny(name, " ,&=?*%") || len(name) > 100 {
			c.fail("razor2.names", "%.80q is not host:port with a dot in the host", name)
		}
	}
	if len(r.Names) > 8 {
		c.fail("razor2.names", "%d names, limit 8", len(r.Names))
	}
	c.between("razor2.min_confidence", float64(r.Confidence), 0, 100)
	c.between("razor2.serial", float64(r.Serial), 1, 1e9)
	c.between("razor2.links_per_part", float64(r.MaxHosts), 0, 500)
	c.between("razor2.registrations_per_minute", r.Register, 0.001, 1e6)
	for _, h := range r.ExemptHosts {
		if h == "" || h != strings.ToLower(h) || strings.ContainsAny(h, " /@:") || strings.HasPrefix(h, ".") {
			c.fail("razor2.exempt_hosts", "%.80q is not a domain like \"example.com\"", h)
		}
	}
}

func (c *checker) pyzor(p *Pyzor) {
	c.between("pyzor.listed_count", float64(p.Listed), 0, 1000)
	for _, op := range p.Anonymous {
		c.oneOf("pyzor.anonymous", op, pyzorOperations...)
	}
	for _, op := range p.Users {
		c.oneOf("pyzor.users", op, pyzorOperations...)
	}
}
