package config

import (
	"strings"
	"testing"
)

// TestShards checks what [shards] accepts, and that an edge of shards is an edge.
func TestShards(t *testing.T) {
	const servers = "[shards]\nservers = [\"tls://nats.example.com:4222\"]\n"
	for text, want := range map[string]string{
		servers: "",
		servers + "site = \"north-1\"\ntokens = \"/etc/t\"\ndefault = \"a\"\n" +
			"domain = \"example.com\"\nca = \"x\"\n": "",
		servers + "[upstream]\ntimeout = \"1s\"\ntoken_file = \"t\"\n": "",
		servers + "[upstream]\nurl = \"https://node.example.com\"\n":   "remove upstream.url",
		servers + "site = \"a.b\"\n":                                   "shards.site",
		servers + "site = \"\"\n":                                      "shards.site",
		servers + "default = \"a b\"\n":                                "shards.default",
		servers + "domain = \"@example.com\"\n":                        "shards.domain",
		servers + "[mesh]\nmode = \"hub\"\n":                           "mesh.mode",
		servers + "[tally]\nkeep = 3\n":                                "an edge keeps no counts",
		servers + "[standby]\nlisten = \"127.0.0.1:8430\"\n":           "standby.listen",
		"[shards]\nservers = [\"nats.example.com\"]\n":                 "shards.servers",
		"[shards]\ntokens = \"/etc/t\"\n":                              "needs shards.servers",
		"[shards]\ndomain = \"example.com\"\n":                         "needs shards.servers",
		"[shards]\nsite = \"north\"\n":                                 "",
		"[upstream]\ntoken_file = \"t\"\n[shards]\nsite = \"a\"\n":     "upstream.token_file",
	} {
		c, err := Parse([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil && c.IsEdge() != strings.Contains(text, "servers") {
			t.Errorf("%s: an edge: %v", text, c.IsEdge())
		}
	}
}
