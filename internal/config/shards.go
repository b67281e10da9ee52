package config

import "strings"

// Shards is the section [shards].
type Shards struct {
	Servers     []string `toml:"servers" secret:"url" doc:"URLs of the NATS servers with JetStream that have the map, \"tls://host:4222\". Empty: the\nsite is not divided, and [upstream] names the node"`
	Credentials string   `toml:"credentials" doc:"of these servers: file with a user JWT and its key. Empty: none, or the URLs have a name\nand password"`
	CA          string   `toml:"ca" doc:"of these servers: PEM file of the authorities for their certificates. Empty: the\nauthorities of the system"`
	Site        string   `toml:"site" doc:"name of the site in the bucket \"bulkhead-shards\" of these servers"`
	Tokens      string   `toml:"tokens" doc:"folder of the tokens for the shards: the file NAME has the token of an account on the\nshard NAME. A shard without a file gets the one of upstream.token_file. Only the\nnode's user may read the files. They are read again on SIGHUP. Empty: none"`
	Default     string   `toml:"default" reload:"yes" doc:"shard of requests that name neither a recipient nor a user, as those of Pyzor, Razor and\nDCC clients. Empty: the default of the map"`
	Domain      string   `toml:"domain" reload:"yes" doc:"domain of users whose name has none, so that their votes go where their mail goes.\nEmpty: their names are taken as they are"`
}

func defaultShards() Shards { return Shards{Servers: []string{}, Site: "main"} }

// IsEdge reports whether the node has its counts at other nodes: at an upstream, or at the shards of a site.
func (cfg *Config) IsEdge() bool { return cfg.Upstream.URL != "" || len(cfg.Shards.Servers) > 0 }

// Access returns the log-in for the servers of the map.
func (s *Shards) Access() Access { return Access{Credentials: s.Credentials, CA: s.CA} }

func (c *checker) shards(s *Shards, u *Upstream) {
	c.servers("shards.servers", "external", s.Servers)
	if !streamName.MatchString(s.Site) {
		c.fail("shards.site", "%.80q, want 1 to 64 letters, digits, \"-\" and \"_\"", s.Site)
	}
	if s.Default != "" && !streamName.MatchString(s.Default) {
		c.fail("shards.default", "%.80q is no name of a shard", s.Default)
	}
	if strings.ContainsAny(s.Domain, "@ \t\r\n") || len(s.Domain) > 255 {
		c.fail("shards.domain", "%.80q is no domain", s.Domain)
	}
	if len(s.Servers) > 0 {
		if u.URL != "" {
			c.fail("shards.servers", "the map names the nodes: remove upstream.url")
		}
		return
	}
	for _, given := range []struct{ key, value string }{{"shards.credentials", s.Credentials}, {"shards.ca", s.CA},
		{"shards.tokens", s.Tokens}, {"shards.default", s.Default}, {"shards.domain", s.Domain}} {
		if given.value != "" {
			c.fail(given.key, "it needs shards.servers")
		}
	}
}
