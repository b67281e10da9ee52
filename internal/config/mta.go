package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Milter is the section [milter].
type Milter struct {
	Spam           string         `toml:"spam" reload:"yes" doc:"what is done with mail judged spam: \"none\", \"header\", \"quarantine\",\n\"tempfail\" or \"reject\""`
	Listed         string         `toml:"listed" reload:"yes" doc:"the same for mail whose client, sender or URL is in a black list"`
	Suspected      string         `toml:"suspected" reload:"yes" doc:"the same for mail that resembles reported mail, on too little evidence to call it\nspam"`
	Bulk           string         `toml:"bulk" reload:"yes" doc:"the same for mail seen at least as often as the threshold"`
	Grey           string         `toml:"grey" reload:"yes" doc:"the same for mail whose client, sender or URL is in a grey list"`
	Confidence     int            `toml:"confidence" reload:"yes" doc:"confidence from which mail is spam, 0 to 100; with less it is suspected"`
	Threshold      uint32         `toml:"threshold" reload:"yes" doc:"count from which mail is bulk; 0: tally.threshold"`
	Text           string         `toml:"text" reload:"yes" doc:"text for the sender of refused mail; {class} and {reason} are replaced.\nEmpty: a text that names both"`
	Verify         bool           `toml:"verify" doc:"verify DKIM signatures and the envelope's sender (SPF), with queries to the DNS.\nfalse: only authentication_results in [whitelist] say who sent a message"`
	Resolver       string         `toml:"resolver" doc:"address of the DNS resolver to ask, for example \"127.0.0.1:53\". Empty: the\nresolvers of the system"`
	Traps          []string       `toml:"traps" doc:"spam traps, \"someone@example.com\" or \"@example.com\": mail to them is reported"`
	DiscardTrapped bool           `toml:"discard_trapped" doc:"discard mail whose recipients are all traps"`
	Abuse          string         `toml:"abuse_address" doc:"address to which users send what is spam, attached or forwarded: a vote on each\nmessage in it by the user who has logged in to send it. Such mail is not delivered.\nEmpty: none"`
	AbuseHam       string         `toml:"abuse_ham_address" doc:"the same for what is not spam"`
	ExemptNetworks []string       `toml:"exempt_networks" doc:"clients whose mail is neither counted nor checked. Mail submitted on the\nmachine itself never is"`
	ExemptLogins   bool           `toml:"exempt_authenticated" doc:"neither count nor check mail of authenticated senders"`
	OnFault        string         `toml:"on_fault" doc:"what is done with mail that cannot be judged: \"accept\" or \"tempfail\""`
	RateLimits     bool           `toml:"rate_limits" doc:"apply the rules of [[ratelimit]] to recipients: for mail servers that do not\nspeak the policy protocol"`
	Lists          []string       `toml:"lists" doc:"names of the lists to look up in; empty: all of them"`
	MaxMessage     int            `toml:"max_message_bytes" doc:"largest message that is judged, bytes; larger ones pass"`
	Timeout        Duration       `toml:"timeout" doc:"longest time to judge one message"`
	IdleTimeout    Duration       `toml:"idle_timeout" doc:"time after which an idle connection is closed"`
	Policies       []MilterPolicy `toml:"policy" reload:"yes" doc:"What a recipient domain, with its subdomains, wants instead. The mildest action\nof the recipients of one message is taken."`
}

// MilterPolicy is one [[milter.policy]].
type MilterPolicy struct {
	Domain     string `toml:"domain" doc:"domain of the recipients, subdomains included"`
	Spam       string `toml:"spam" doc:"as in [milter]; empty: \"header\""`
	Listed     string `toml:"listed" doc:"as in [milter]; empty: \"header\""`
	Suspected  string `toml:"suspected" doc:"as in [milter]; empty: \"header\""`
	Bulk       string `toml:"bulk" doc:"as in [milter]; empty: \"header\""`
	Grey       string `toml:"grey" doc:"as in [milter]; empty: \"header\""`
	Confidence int    `toml:"confidence" doc:"as in [milter]"`
	Threshold  uint32 `toml:"threshold" doc:"as in [milter]"`
	Text       string `toml:"text" doc:"as in [milter]"`
}

// Policy is the section [policy].
type Policy struct {
	OnFault    string   `toml:"on_fault" doc:"answer when a request cannot be decided: \"dunno\" or \"defer\""`
	Checkpoint Duration `toml:"checkpoint" doc:"time between two saves of the rate limits; what was counted since is lost when\nthe machine stops without notice"`
	Webhook    string   `toml:"webhook" secret:"url" doc:"URL that is sent a JSON object when a key reaches the warning level or the limit\nof a rule. Empty: none"`
}

// RateLimit is one [[ratelimit]].
type RateLimit struct {
	Name           string   `toml:"name" doc:"name of the rule: a-z, 0-9, - and _"`
	Per            string   `toml:"per" doc:"what is counted, as Exim names it: \"conn\" (connections), \"cmd\" (requests), \"mail\",\n\"rcpt\", \"addr\" (different recipients) or \"byte\"; stands for state, unique and count.\nEmpty: what these say"`
	Reads          string   `toml:"reads" doc:"name of another rule whose counts this one judges by its own limit, without\ncounting anything. It has no key, period and the like of its own"`
	Key            string   `toml:"key" doc:"what is limited, for example \"{sasl_username}\" or \"{client_address:net}\". A\nrequest in which a placeholder is empty is not subject to the rule"`
	Unique         string   `toml:"unique" doc:"what is counted once in a period, for example \"{recipient}\"; \"{instance}\" counts\nmessages. Empty: every request counts"`
	Count          string   `toml:"count" doc:"amount of one request, for example \"{size}\" or \"0.5\". Empty: 1"`
	State          string   `toml:"state" doc:"\"CONNECT\", \"EHLO\", \"MAIL\", \"RCPT\", \"DATA\", \"END-OF-MESSAGE\" or \"any\". Empty: that of\nper, or END-OF-MESSAGE if count is an attribute, or RCPT"`
	Limit          float64  `toml:"limit" doc:"how much a period may hold; what raises the rate to this is over the limit. 0, with\nthe action \"dunno\": only measure"`
	Limits         []string `toml:"limits" doc:"limits of single keys: \"KEY LIMIT\", where LIMIT is a number, or \"measure\" for a key\nthat is counted and never over its limit, or \"block\" for one that always is"`
	LimitsFile     string   `toml:"limits_file" doc:"file with more of them, one a line; read again when it has changed, within\npolicy.checkpoint"`
	Period         Duration `toml:"period" doc:"the period"`
	Mode           string   `toml:"mode" doc:"\"leaky\": what is refused is not counted; \"strict\": it is. Empty: \"leaky\""`
	Action         string   `toml:"action" doc:"\"defer\", \"reject\", \"hold\", \"delay\" or \"dunno\". Empty: \"defer\""`
	Delay          Duration `toml:"delay" doc:"how long the action \"delay\" makes the client wait, 1s to 1m; Postfix, not the milter"`
	Text           string   `toml:"text" doc:"text for the client; {rule}, {key}, {rate}, {limit} and {period} are replaced"`
	Accepted       string   `toml:"accepted" doc:"what the answer to an accepted request has for the mail server: \"log\": the rate, for its log;\n\"header\": the rate, in a header field; empty: nothing"`
	Header         string   `toml:"header" doc:"name of that header field. Empty: \"X-Bulkhead-Rate\""`
	Warn           float64  `toml:"warn" doc:"share of the limit at which the log and the webhook get a warning; 0: only when it\nis reached"`
	ExemptNetworks []string `toml:"exempt_networks" doc:"networks of clients that the rule does not apply to"`
	ExemptKeys     []string `toml:"exempt_keys" doc:"keys that the rule does not apply to"`
	Memory         int64    `toml:"memory_bytes" doc:"most memory of the keys, bytes; 0: 67108864"`
}

// Lists is the section [lists].
type Lists struct {
	Watch    Duration `toml:"watch" doc:"how often the files are checked for changes"`
	MaxBytes int64    `toml:"max_bytes" doc:"largest list file that is read, bytes"`
	Files    []List   `toml:"list" reload:"yes" doc:"A list. FILE.allow beside its file holds entries that are never found,\nFILE.codes codes and texts for DNS."`
}

// List is one [[lists.list]].
type List struct {
	Name string `toml:"name" doc:"name of the list in this file, in answers and logs"`
	Path string `toml:"path" doc:"file of the list"`
}

// DNSBL is the section [dnsbl].
type DNSBL struct {
	Zones []DNSBLZone `toml:"zone" reload:"yes" doc:"A list, or several, as a DNS zone."`
}

// DNSBLZone is one [[dnsbl.zone]].
type DNSBLZone struct {
	Name  string   `toml:"name" doc:"name of the zone, for example \"bl.example.com\""`
	List  string   `toml:"list" doc:"name of the list; empty for a live zone, and with lists"`
	Lists []string `toml:"lists" doc:"names of several lists that the zone combines, up to 32: \"NAME\", or\n\"NAME :CODE:TEXT\" with a code and text that precede the zone's"`
	Live  bool     `toml:"live" doc:"the zone answers from what this node lists now, and has no list: domains and\nhosts of links (form \"domain\"), SHA-256 of attachments (form \"hash\")"`
	Form  string   `toml:"form" doc:"\"ip\", \"domain\" or \"hash\""`
	Code  string   `toml:"code" doc:"address that stands for a hit. An entry's own code precedes it. Empty: the code of the\nlist's file, or 127.0.0.2"`
	Text  string   `toml:"text" doc:"text of a hit; $ is replaced by the queried name or address. An entry's own text\nprecedes it. Empty: the text of the list's file, or its reason and date"`
	TTL   Duration `toml:"ttl" doc:"how long answers may be kept; 0: 5m"`
	Host  string   `toml:"host" doc:"name of the server in SOA and NS records. Empty: the zone's own name"`
}

// A ZonePart is one list of a DNS zone.
type ZonePart struct {
	List  string
	Value string // ":CODE:TEXT", or empty
}

// Parts returns the lists of a zone; a live zone has none.
func (z *DNSBLZone) Parts() (parts []ZonePart) {
	if z.List != "" {
		parts = append(parts, ZonePart{List: z.List})
	}
	for _, text := range z.Lists {
		name, value := text, ""
		if at := strings.Index(text, " :"); at >= 0 {
			name, value = text[:at], text[at+1:]
		}
		parts = append(parts, ZonePart{strings.TrimSpace(name), value})
	}
	return parts
}

func defaultMilter() Milter {
	return Milter{
		Spam: "header", Listed: "header", Suspected: "header", Bulk: "header", Grey: "header", Verify: true,
		Traps:          []string{},
		ExemptNetworks: []string{"127.0.0.0/8", "::1/128"}, ExemptLogins: true, DiscardTrapped: true,
		OnFault: "accept", Lists: []string{}, MaxMessage: 16 << 20,
		Timeout: Duration(10 * time.Second), IdleTimeout: Duration(15 * time.Minute),
	}
}

// WithPort returns address, an IP address with or without a port, with a port.
func WithPort(address, port string) string {
	if addr, err := netip.ParseAddr(address); err == nil {
		return net.JoinHostPort(addr.String(), port)
	}
	return address
}

// actions checks the action for each class of mail; further lists additional allowed actions.
func (c *checker) actions(table string, spam, listed, suspected, bulk, grey string, further ...string) {
	allowed := append([]string{"none", "header", "quarantine", "tempfail", "reject"}, further...)
	for _, a := range []struct {
		key, value string
	}{{"spam", spam}, {"listed", listed}, {"suspected", suspected}, {"bulk", bulk}, {"grey", grey}} {
		c.oneOf(table+"."+a.key, a.value, allowed...)
	}
}

func (c *checker) milter(m *Milter, l *Lists) {
	c.actions("milter", m.Spam, m.Listed, m.Suspected, m.Bulk, m.Grey)
	c.between("milter.confidence", float64(m.Confidence), 0, 100)
	c.oneOf("milter.on_fault", m.OnFault, "accept", "tempfail")
	if m.Resolver != "" {
		if _, err := netip.ParseAddrPort(WithPort(m.Resolver, "53")); err != nil {
			c.fail("milter.resolver", "%.80q is no address of a resolver, such as \"192.0.2.53\" or \"127.0.0.1:5353\"",
				m.Resolver)
		}
	}
	c.networks("milter.exempt_networks", m.ExemptNetworks)
	c.between("milter.max_message_bytes", float64(m.MaxMessage), 1024, 64<<20)
	c.duration("milter.timeout", m.Timeout, 100*time.Millisecond, 10*time.Minute)
	c.duration("milter.idle_timeout", m.IdleTimeout, 10*time.Second, 24*time.Hour)
	for _, t := range m.Traps {
		if at := strings.LastIndexByte(t, '@'); at < 0 || at == len(t)-1 || strings.ContainsAny(t, " \t<>") {
			c.fail("milter.traps", "%.80q is neither \"someone@example.com\" nor \"@example.com\"", t)
		}
	}
	for _, a := range []struct {
		key, value string
	}{{"milter.abuse_address", m.Abuse}, {"milter.abuse_ham_address", m.AbuseHam}} {
		local, domain, _ := strings.Cut(a.value, "@")
		if a.value != "" && (local == "" || domain == "" || strings.ContainsAny(a.value, " \t<>")) {
			c.fail(a.key, "%.80q is not \"someone@example.com\"", a.value)
		}
	}
	if m.AbuseHam != "" && strings.EqualFold(m.Abuse, m.AbuseHam) {
		c.fail("milter.abuse_ham_address", "%.80q is also abuse_address", m.AbuseHam)
	}
	for _, name := range m.Lists {
		c.list("milter.lists", name, l)
	}
	for i, p := range m.Policies {
		table := nth("milter.policy", i)
		if p.Domain == "" {
			c.fail(table+".domain", "is empty; the keys of [milter] are for all other domains")
		}
		c.actions(table, p.Spam, p.Listed, p.Suspected, p.Bulk, p.Grey, "")
		c.between(table+".confidence", float64(p.Confidence), 0, 100)
	}
}

func (c *checker) policy(p *Policy, rules []RateLimit) {
	c.oneOf("policy.on_fault", p.OnFault, "dunno", "defer")
	c.duration("policy.checkpoint", p.Checkpoint, time.Second, 24*time.Hour)
	if p.Webhook != "" {
		if u, err := url.Parse(p.Webhook); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.fail("policy.webhook", "%.80q is not an http or https URL", p.Webhook)
		}
	}
	for i, r := range rules {
		table := nth("ratelimit", i)
		c.oneOf(table+".mode", r.Mode, "leaky", "strict", "")
		c.networks(table+".exempt_networks", r.ExemptNetworks)
		if r.Reads == "" {
			c.duration(table+".period", r.Period, time.Second, 366*24*time.Hour)
		}
		if r.Limit == 0 && r.Action != "dunno" && len(r.Limits) == 0 && r.LimitsFile == "" {
			c.fail(table+".limit", `0 is no limit; with action = "dunno" it only measures`)
			continue
		}
		c.between(table+".limit", r.Limit, 0, 1e15)
	}
}

func (c *checker) lists(l *Lists) {
	c.duration("lists.watch", l.Watch, time.Second, 24*time.Hour)
	c.between("lists.max_bytes", float64(l.MaxBytes), 1024, 1<<40)
	seen := make(map[string]bool)
	for i, f := range l.Files {
		table := nth("lists.list", i)
		switch {
		case f.Name == "":
			c.fail(table+".name", "is empty")
		case seen[f.Name]:
			c.fail(table+".name", "%.60q is the name of a list above", f.Name)
		}
		if f.Path == "" {
			c.fail(table+".path", "is empty, of list %.60q", f.Name)
		}
		seen[f.Name] = true
	}
}

// list checks the name of a list.
func (c *checker) list(key, name string, l *Lists) {
	if !slices.ContainsFunc(l.Files, func(f List) bool { return f.Name == name }) {
		c.fail(key, "no list is called %.60q", name)
	}
}

func (c *checker) dnsbl(d *DNSBL, l *Lists) {
	for i, z := range d.Zones {
		table := nth("dnsbl.zone", i)
		c.oneOf(table+".form", z.Form, "ip", "domain", "hash")
		if z.Code != "" {
			if _, err := netip.ParseAddr(z.Code); err != nil {
				c.fail(table+".code", "%.60q is not an address like \"127.0.0.2\"", z.Code)
			}
		}
		if len(z.Lists) > 32 {
			c.fail(table+".lists", "%d lists, limit 32", len(z.Lists))
		}
		seen := make(map[string]bool)
		for _, p := range z.Parts() {
			if seen[p.List] {
				c.fail(table+".lists", "%.60q is given twice", p.List)
			}
			if seen[p.List] = true; p.List != z.List {
				c.list(table+".lists", p.List, l)
			}
		}
		switch {
		case z.List != "" && len(z.Lists) > 0:
			c.fail(table+".list", "%.60q: the zone also has lists; name all of them there", z.List)
		case z.Live && len(z.Lists) > 0:
			c.fail(table+".lists", "a live zone has no list")
		case !z.Live && len(z.Lists) == 0:
			c.list(table+".list", z.List, l)
		case !z.Live:
		case z.List != "":
			c.fail(table+".list", "%.60q: a live zone has no list", z.List)
		case z.Form == "ip":
			c.fail(table+".form", "a live zone has the form domain or hash")
		}
	}
}
