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
	TokenFile string   `toml:"token_file" doc:"file with the token of an account there; it must be trusted if clients of this\nnode's doors may report. Only the node's user may read the file. It is read again on\nSIGHUP. Empty: no token"`
	Timeout   Duration `toml:"timeout" doc:"longest time that a check waits for the upstream; then the answer is \"unknown\""`
	Cache     Duration `toml:"cache" doc:"how long an answer \"unknown\" is cached; 0: not at all"`
}

func defaultUpstream() Upstream {
	return Upstream{Timeout: Duration(2 * time.Second), Cache: Duration(2 * time.Second)}
}

func (c *checker) upstream(u *Upstream, m *Mesh) {
	c.duration("upstream.timeout", u.Timeout, 10*time.Millisecond, time.Minute)
	c.duration("upstream.cache", u.Cache, 0, time.Minute)
	if u.URL == "" {
		if u.TokenFile != "" {
			c.fail("upstream.token_file", "a token without an upstream.url")
		}
		return
	}
	at, err := url.Parse(u.URL)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		c.fail("upstream.url", "%.80q is not the URL of a node, like \"https://node.example.com\"", u.URL)
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		c.fail("upstream.url", "a URL with a user, a query or a fragment; the token goes into token_file")
	}
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
