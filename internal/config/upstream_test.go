package config

import (
	"strings"
	"testing"
)

func TestUpstream(t *testing.T) {
	const listen = "[listen]\nmilter = \"127.0.0.1:8891\"\n[upstream]\n"
	const url = listen + "url = \"https://node.example.com/\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"an edge", url + "token_file = \"t\"\ntimeout = \"1s\"\ncache = \"0s\"\n", ""},
		{"no edge", listen, ""},
		{"no edge, counts", listen + "[tally]\nkeep = 3\n", ""},
		{"a token for nobody", listen + "token_file = \"t\"\n", "upstream.token_file"},
		{"no URL", listen + "url = \"node.example.com:8420\"\n", "upstream.url"},
		{"another scheme", listen + "url = \"ftp://node.example.com\"\n", "upstream.url"},
		{"a password in the URL", listen + "url = \"https://a:b@node.example.com\"\n", "upstream.url"},
		{"waits for ever", url + "timeout = \"1h\"\n", "upstream.timeout"},
		{"caches for ever", url + "cache = \"24h\"\n", "upstream.cache"},
		{"a mesh", url + "[mesh]\nmode = \"hub\"\n", "mesh.mode"},
		{"a tally", url + "[tally]\nkeep = 3\n", "tally"},
		{"an empty tally", url + "[tally]\n", "tally"},
		{"a blocklist", url + "[blocklist]\nkeep = 3\n", "blocklist"},
		{"trust", url + "[trust]\nanonymous = 0.1\n", "trust"},
		{"judgement", url + "[judgement]\nwanted_lost = 1\n", "judgement"},
		{"counts inline", "tally = {keep = 3}\n" + url, "tally"},
		{"counts with a dot", "tally.keep = 3\n" + url, "tally.keep"},
	} {
		_, err := Parse([]byte(tt.text))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
