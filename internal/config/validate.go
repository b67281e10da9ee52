package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A checker collects the mistakes of one file.
type checker struct {
	lines map[string]int
	errs  []*Error
}

// fail notes a mistake in a key. A key of a table in a list is named as [keyLines] does; the
// error's line identifies the table.
func (c *checker) fail(key, format string, args ...any) {
	line := c.lines[key]
	// An absent key, or a key in an inline table, has the line of its table.
	for table := key; line == 0; line = c.lines[table] {
		at := strings.LastIndexAny(table, ".[")
		if at < 0 {
			break
		}
		table = table[:at]
	}
	c.errs = append(c.errs, &Error{Line: line, Key: withoutIndex(key), Detail: fmt.Sprintf(format, args...)})
}

// withoutIndex returns a key without table numbers, for example ratelimit.limit.
func withoutIndex(key string) string {
	list, rest, ok := strings.Cut(key, "[")
	if !ok {
		return key
	}
	_, rest, _ = strings.Cut(rest, "]")
	return list + rest
}

func (c *checker) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.fail(key, "%.60q is none of %q", value, allowed)
	}
}

// between checks lo <= value <= hi; a NaN is in no range.
func (c *checker) between(key string, value, lo, hi float64) {
	if !(value >= lo && value <= hi) {
		c.fail(key, "%s is not between %s and %s", number(value), number(lo), number(hi))
	}
}

// number formats a whole number in full, as it is written in the file.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e16 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return fmt.Sprint(v)
}

func (c *checker) duration(key string, value Duration, lo, hi time.Duration) {
	if d := time.Duration(value); d < lo || d > hi {
		c.fail(key, "%v is not between %v and %v", value, Duration(lo), Duration(hi))
	}
}

// chance checks a target error probability. No filter of practical size reaches one below 1e-15,
// and a probability of 1 means no filter at all.
func (c *checker) chance(key string, value float64) {
	if !(value >= 1e-15 && value < 1) {
		c.fail(key, "%v is not between 1e-15 and 1 (exclusive)", value)
	}
}

// maxSocketPath is the longest path of a Unix socket on Linux, in bytes.
const maxSocketPath = 107

// address checks "host:port", or "unix:/path" if sockets is set.
func (c *checker) address(key, value string, sockets bool) {
	if value == "" {
		return
	}
	if path, ok := strings.CutPrefix(value, "unix:"); ok {
		switch {
		case !sockets:
			c.fail(key, "%.80q: this front door has no unix socket", value)
		case !strings.HasPrefix(path, "/"):
			c.fail(key, "%.80q: the path of a socket starts with /", value)
		case len(path) > maxSocketPath:
			c.fail(key, "%.80q: path of %d bytes, limit %d for a socket", value, len(path), maxSocketPath)
		}
		return
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		c.fail(key, "%.80q is not host:port", value)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		c.fail(key, "%.80q: port is not a number from 0 to 65535", value)
	}
	if strings.ContainsAny(host, " \t/") {
		c.fail(key, "%.80q is not host:port", value)
	}
}

func (c *checker) networks(key string, values []string) {
	for _, v := range values {
		if _, err := ParseNetwork(v); err != nil {
			c.fail(key, "%v", err)
		}
	}
}

// ParseNetwork reads "192.0.2.0/24", or a single address as the network that
// holds it alone.
func ParseNetwork(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		if p != p.Masked() {
			return netip.Prefix{}, fmt.Errorf("%.60q has bits set outside its mask; write %q", text, p.Masked().String())
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			// Clients are compared as IPv4 addresses, even on IPv6 sockets.
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		return p, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%.60q is not a network like \"192.0.2.0/24\"", text)
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// ParseNetworks parses networks as [ParseNetwork] does. The result is not nil unless there is an
// error.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := ParseNetwork(text)
		if err != nil {
			return nil, err
		}
		networks = append(networks, p)
	}
	return networks, nil
}

// Mistakes returns the text of each of the errors that err joins.
func Mistakes(err error) (all []string) {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, e := range several.Unwrap() {
			all = append(all, Mistakes(e)...)
		}
		return all
	}
	return []string{err.Error()}
}

// validate checks every value and returns all mistakes.
func (cfg *Config) validate(lines map[string]int) []*Error {
	c := &checker{lines: lines}
	c.node(&cfg.Node)
	c.listen(&cfg.Listen)
	c.http(&cfg.HTTP)
	c.books(&cfg.Tally, &cfg.Blocklist)
	c.remembered(&cfg.Memory)
	c.between("learn.memory_bytes", float64(cfg.Learn.Memory), 1<<20, 1<<40)
	c.between("judgement.wanted_lost", cfg.Judgement.WantedLost, 0, 1000)
	c.history(&cfg.History)
	c.trust(&cfg.Trust)
	c.limits(&cfg.Limits)
	c.razor2(&cfg.Razor2)
	c.pyzor(&cfg.Pyzor)
	c.dcc(&cfg.DCC)
	c.dccifd(&cfg.Dccifd)
	c.fuzzy(&cfg.Fuzzy)
	c.milter(&cfg.Milter, &cfg.Lists)
	c.policy(&cfg.Policy, cfg.RateLimit)
	c.lists(&cfg.Lists)
	c.mesh(&cfg.Mesh)
	c.rekeying(&cfg.Mesh, &cfg.Aggregate, &cfg.Tally, &cfg.Blocklist)
	c.aggregate(&cfg.Aggregate, &cfg.Mesh)
	c.dnsbl(&cfg.DNSBL, &cfg.Lists)
	c.whitelist(&cfg.Whitelist)
	c.upstream(&cfg.Upstream, len(cfg.Shards.Servers) > 0)
	c.shards(&cfg.Shards, &cfg.Upstream)
	if cfg.IsEdge() {
		c.edge(&cfg.Mesh)
	}
	c.journal(&cfg.Journal, &cfg.Standby, &cfg.Node, cfg.IsEdge())
	c.standby(&cfg.Standby, &cfg.Node, cfg.IsEdge())
	c.distinct(cfg)
	return c.errs
}

func (c *checker) node(n *Node) {
	c.oneOf("node.durability", n.Durability, "always", "relaxed", "standby")
	c.duration("node.checkpoint", n.Checkpoint, time.Second, 24*time.Hour)
	c.oneOf("node.log_level", n.LogLevel, "debug", "info", "warn", "error")
	c.oneOf("node.log_format", n.LogFormat, "text", "json")
	if len(n.Name) > 255 {
		c.fail("node.name", "%d bytes, limit 255", len(n.Name))
	}
}

func (c *checker) listen(l *Listen) {
	for _, d := range l.Doors() {
		sockets := d.Key == "dccifd" || d.Key == "milter" || d.Key == "policy"
		c.address("listen."+d.Key, d.Address, sockets)
	}
}

// distinct checks that no two listeners of the node have one address.
func (c *checker) distinct(cfg *Config) {
	type listener struct{ key, network, host, port string }
	var all []listener
	add := func(key, address string, networks ...string) {
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			all = append(all, listener{key, "unix", path, ""})
			return
		}
		host, port, err := net.SplitHostPort(address)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n == 0 {
			return // off, a mistake that is reported already, or a port that the system chooses
		}
		if addr, err := netip.ParseAddr(host); err == nil && addr.IsUnspecified() {
			host = ""
		}
		for _, network := range networks {
			all = append(all, listener{key, network, host, port})
		}
	}
	for _, d := range cfg.Listen.Doors() {
		switch d.Key {
		case "pyzor", "dcc":
			add("listen."+d.Key, d.Address, "UDP")
		case "fuzzy", "dnsbl":
			add("listen."+d.Key, d.Address, "UDP", "TCP")
		default:
			add("listen."+d.Key, d.Address, "TCP")
		}
	}
	if cfg.Mesh.Mode == "hub" {
		add("mesh.listen", cfg.Mesh.Listen, "TCP")
	}
	add("standby.listen", cfg.Standby.Listen, "TCP")
	for i, l := range all {
		taken := slices.IndexFunc(all[:i], func(o listener) bool {
			return o.network == l.network && o.port == l.port && (o.host == l.host || l.network != "unix" &&
				(o.host == "" || l.host == ""))
		})
		if taken >= 0 && all[taken].key != l.key {
			c.fail(l.key, "%s listens at this address already", all[taken].key)
		}
	}
}

func (c *checker) http(h *HTTP) {
	c.oneOf("http.anonymous_check", h.AnonymousCheck, "loopback", "all", "none")
	c.oneOf("http.anonymous_report", h.AnonymousReport, "loopback", "all", "none")
	c.networks("http.trusted_proxies", h.TrustedProxies)
	c.between("http.max_body_bytes", float64(h.MaxBody), 1024, 1<<30)
	c.duration("http.read_timeout", h.ReadTimeout, time.Second, time.Hour)
	c.duration("http.idle_timeout", h.IdleTimeout, time.Second, 24*time.Hour)
	if (h.TLSCert == "") != (h.TLSKey == "") {
		c.fail("http.tls_cert", "tls_cert and tls_key are given together or not at all")
	}
}

func (c *checker) books(t *Tally, b *Blocklist) {
	c.duration("tally.generation", t.Generation, time.Minute, 366*24*time.Hour)
	c.between("tally.keep", float64(t.Keep), 1, 64)
	c.between("tally.capacity", float64(t.Capacity), 1000, 1e10)
	c.chance("tally.error", t.Error)
	c.memory("tally.memory_bytes", t.Memory)
	c.between("tally.threshold", float64(t.Threshold), 1, bulkhead.Many)
	c.between("tally.near_match", float64(t.NearMatch), 1, 64)
	c.duration("blocklist.generation", b.Generation, time.Minute, 366*24*time.Hour)
	c.between("blocklist.keep", float64(b.Keep), 1, 64)
	c.between("blocklist.capacity", float64(b.Capacity), 1000, 1e10)
	c.chance("blocklist.error", b.Error)
	c.memory("blocklist.memory_bytes", b.Memory)
	c.oneOf("blocklist.lookup_order", b.Order, "spam-first", "revoke-first")
}

// memory checks a memory limit that may also be 0.
func (c *checker) memory(key string, bytes int64) {
	if bytes != 0 {
		c.between(key, float64(bytes), 1<<20, 1<<50)
	}
}

func (c *checker) remembered(m *Memory) {
	c.between("memory.memory_bytes", float64(m.Bytes), 0, 1<<40)
	c.duration("memory.keep", m.Keep, time.Minute, 366*24*time.Hour)
}

func (c *checker) history(h *History) {
	if h.Bytes != 0 {
		c.between("history.size_bytes", float64(h.Bytes), 4<<20, 1<<40)
	}
	c.between("history.days", float64(h.Days), 1, 3660)
	c.between("history.audit_bytes", float64(h.Audit), 64<<10, 1<<30)
}

func (c *checker) trust(t *Trust) {
	c.between("trust.promotion", t.Promotion, 0.001, 1000)
	c.between("trust.anonymous", t.Anonymous, 0, 1)
	c.between("trust.loopback", t.Loopback, 0, 1)
	c.between("trust.self_registered", t.SelfRegistered, 0, 1)
	c.between("trust.ceiling", t.Ceiling, 0, 1)
	c.between("trust.half", t.Half, 0.001, 1e9)
	c.between("trust.accounts", float64(t.Accounts), 1, 1e6)
	c.between("trust.accounts_per_network", float64(t.PerNetwork), 1, 1e6)
	c.between("trust.idle_days", float64(t.IdleDays), 1, 1e6)
}

func (c *checker) limits(l *Limits) {
	c.between("limits.requests_per_second", l.Rate, 0, 1e9)
	c.between("limits.burst", float64(l.Burst), 1, 1e9)
	c.between("limits.connections", float64(l.Connections), 1, 1<<20)
	if l.Memory != 0 {
		c.between("limits.memory_bytes", float64(l.Memory), 1<<20, 1<<50)
	}
	// the largest number that is looked up or counted at once
	c.between("limits.signatures_per_message", float64(l.MaxSignatures), 1, 1024)
	c.between("limits.messages_per_batch", float64(l.MaxBatch), 1, 1<<20)
}

func (c *checker) whitelist(w *Whitelist) {
	claims := func(entries []string) (names []string) {
		for _, s := range entries {
			names = append(names, strings.TrimPrefix(s, bulkhead.Forgeable))
		}
		return names
	}
	for _, s := range claims(w.Senders) {
		if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
			c.fail("whitelist.senders", "%.80q is not an address like \"someone@example.com\"", s)
		}
	}
	for _, list := range []struct {
		key    string
		values []string
	}{{"whitelist.domains", claims(w.Domains)}, {"whitelist.dkim", w.DKIM}, {"whitelist.list_ids", claims(w.ListIDs)},
		{"whitelist.authentication_results", w.AuthResults}} {
		for _, d := range list.values {
			if d == "" || len(d) > 255 || strings.ContainsAny(d, " \t@<>/*:;\"") || strings.HasPrefix(d, ".") {
				c.fail(list.key, "%.80q is not a name like \"example.com\"", d)
			}
		}
	}
	c.networks("whitelist.networks", w.Networks)
	for _, s := range w.Signatures {
		if _, err := bulkhead.ParseSignature(s); err != nil {
			c.fail("whitelist.signatures", "%v", err)
		}
	}
}
