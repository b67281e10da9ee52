package config

import (
	"strings"
	"testing"
)

func TestAggregate(t *testing.T) {
	const members = "[aggregate]\nmembers = [\"*\"]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"none", "", ""},
		{"hubs", members + "servers = [\"hub.example.com:8421\"]\n", ""},
		{"a cluster", members + "servers = [\"tls://nats.example.com:4222\"]\n", ""},
		{"nowhere", members, "aggregate.servers"},
		{"of nobody", "[aggregate]\nservers = [\"hub.example.com:8421\"]\n", "aggregate.servers"},
		{"no address", members + "servers = [\"hub.example.com\"]\n", "aggregate.servers"},
		{"both kinds", members + "servers = [\"tls://nats.example.com:4222\", \"hub.example.com:8421\"]\n",
			"aggregate.servers"},
		{"another scheme", members + "servers = [\"http://nats.example.com\"]\n", "aggregate.servers"},
		{"too many", members + "servers = [" + strings.Repeat("\"hub.example.com:8421\",", 17) + "]\n", "aggregate.servers"},
		{"of a trap", members + "servers = [\"hub.example.com:8421\"]\n[mesh]\nrole = \"publish\"\n", "mesh.role"},
	} {
		_, err := Parse([]byte(tt.text))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
