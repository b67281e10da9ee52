package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Upstream is the section [upstream].
type Upstream struct {
	URL       string   `toml:"url" secret:"url" doc:"address of the node's HTTP door, for example \"https://node.example.com\". Empty: this\nnode is no edge and has its own counts"`
	URLs      []string `toml:"urls" secret:"url" doc:"addresses of the standbys of that node. A request goes to the address that answered\nlast, and to the next one if that is unreachable or takes no reports"`
	TokenFile string   `toml:"token_file" doc:"file with the token of an account there; it must be trusted if clients of this\nnode's doors may report. Only the node's user may read the file. It is read again on\nSIGHUP. Empty: no token"`
	Timeout   Duration `toml:"timeout" doc:"longest time that a check waits for the upstream; then the answer is \"unknown\""`
	Cache     Duration `toml:"cache" doc:"how long an answer \"unknown\" is cached; 0: not at all"`
	Spool     int64    `toml:"spool_bytes" doc:"size of the reports that wait on disk, in the file spool.db, while the upstream takes\nnone, bytes. 0: they are refused for now"`
}

// Standby is the section [standby].
type Standby struct {
	Listen string   `toml:"listen" doc:"address at which the two nodes of a pair reach each other (TCP, always TLS):\n\"host:port\". Empty: this node has no standby and is none"`
	Wait   Duration `toml:"wait" doc:"with durability \"standby\": longest time that a report waits for the standby"`
	Away   string   `toml:"away" doc:"with durability \"standby\", while the standby does not answer: \"alone\":\nreports are acknowledged once they are on this node's disk; \"refuse\": they are\nrefused for now, so that two nodes can never acknowledge reports at once"`

	Witness            []string `toml:"witness" secret:"url" doc:"URLs of NATS servers with JetStream on other machines, \"tls://host:4222\": they decide\nwhich node takes votes, and the standby takes over by itself. The same on both nodes.\nEmpty: it takes over by command"`
	WitnessCredentials string   `toml:"witness_credentials" doc:"of the witness: file with a user JWT and its key. Empty: none, or the URLs have a name\nand password"`
	WitnessCA          string   `toml:"witness_ca" doc:"of the witness: PEM file of the authorities for its certificates. Empty: the\nauthorities of the system"`
	Lease              Duration `toml:"lease" doc:"with a witness: how long the first node takes votes after it has heard from the witness\nand the standby. The standby takes over after a quarter more. The same on both nodes"`
}

func defaultStandby() Standby {
	return Standby{Wait: Duration(2 * time.Second), Away: "alone", Witness: []string{}, Lease: Duration(3 * time.Second)}
}

func (c *checker) standby(s *Standby, n *Node, edge bool) {
	c.address("standby.listen", s.Listen, false)
	c.duration("standby.wait", s.Wait, 100*time.Millisecond, time.Minute)
	c.oneOf("standby.away", s.Away, "alone", "refuse")
	c.duration("standby.lease", s.Lease, time.Second, time.Minute)
	c.servers("standby.witness", "external", s.Witness)
	switch {
	case len(s.Witness) > 0 && s.Listen == "":
		c.fail("standby.witness", "a witness needs standby.listen")
	case len(s.Witness) == 0 && (s.WitnessCredentials != "" || s.WitnessCA != ""):
		c.fail("standby.witness_credentials", "credentials and ca without a standby.witness")
	case s.Listen == "" && n.Durability == "standby":
		c.fail("node.durability", "\"standby\" needs standby.listen")
	case s.Listen != "" && edge:
		c.fail("standby.listen", "an edge keeps no counts: set this on its upstream")
	}
}

// maxStandbys is how many further addresses an edge has.
const maxStandbys = 8

func defaultUpstream() Upstream {
	const two = Duration(2 * time.Second)
	return Upstream{URLs: []string{}, Timeout: two, Cache: two, Spool: 64 << 20}
}

// nodeURL checks the URL of a node's HTTP door.
func (c *checker) nodeURL(key, value string) {
	at, err := url.Parse(value)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		c.fail(key, "%.80q is not the URL of a node, like \"https://node.example.com\"", value)
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		c.fail(key, "a URL with a user, a query or a fragment; the token goes into token_file")
	}
}

func (c *checker) upstream(u *Upstream, shards bool) {
	c.duration("upstream.timeout", u.Timeout, 10*time.Millisecond, time.Minute)
	c.duration("upstream.cache", u.Cache, 0, time.Minute)
	c.between("upstream.spool_bytes", float64(u.Spool), 0, 1<<40)
	if len(u.URLs) > maxStandbys {
		c.fail("upstream.urls", "%d addresses, limit %d", len(u.URLs), maxStandbys)
	}
	if u.URL == "" {
		if u.TokenFile != "" && !shards {
			c.fail("upstream.token_file", "a token without an upstream.url")
		}
		if len(u.URLs) > 0 {
			c.fail("upstream.urls", "addresses of standbys without an upstream.url")
		}
		return
	}
	c.nodeURL("upstream.url", u.URL)
	for _, standby := range u.URLs {
		c.nodeURL("upstream.urls", standby)
	}
}

// edge checks what an edge may not have.
func (c *checker) edge(m *Mesh) {
	if m.Mode != "off" {
		c.fail("mesh.mode", "an edge shares nothing: set this on its upstream")
	}
	for _, section := range []string{"tally", "blocklist", "judgement", "trust"} {
		given := func(key string) bool { return key == section || strings.HasPrefix(key, section+".") }
		keys := slices.SortedFunc(maps.Keys(c.lines), strings.Compare)
		if i := slices.IndexFunc(keys, given); i >= 0 {
			c.fail(keys[i], "an edge keeps no counts: set this on its upstream")
		}
	}
}
