package config

import (
	"strings"
	"testing"
)

// TestJournal checks what [journal] accepts, and that the servers of the witness are the default.
func TestJournal(t *testing.T) {
	const servers = "servers = [\"tls://a.example.com:4222\"]\n"
	for text, want := range map[string]string{
		"[journal]\nkind = \"jetstream\"\n" + servers:                                           "",
		"[journal]\nkind = \"jetstream\"\n" + servers + "stream = \"a-B_1\"\nreplicas = 5\n":    "",
		"[journal]\nkind = \"jetstream\"\n":                                                     "needs servers",
		"[journal]\n" + servers:                                                                 "\"file\"",
		"[journal]\nkind = \"nats\"\n":                                                          "none of",
		"[journal]\nca = \"x\"\n":                                                               "without journal.servers",
		"[journal]\nkind = \"jetstream\"\n" + servers + "stream = \"a.b\"\n":                    "letters",
		"[journal]\nkind = \"jetstream\"\n" + servers + "replicas = 6\n":                        "journal.replicas",
		"[journal]\nkind = \"jetstream\"\n" + servers + "max_bytes = 1000\n":                    "journal.max_bytes",
		"[journal]\nkind = \"jetstream\"\nservers = [\"a:1\"]\n":                                "not a URL",
		"[upstream]\nurl = \"http://127.0.0.1:1\"\n[journal]\nkind = \"jetstream\"\n" + servers: "an edge",
		"[node]\ndurability = \"standby\"\n[standby]\nlisten = \"127.0.0.1:8430\"\n" +
			"[journal]\nkind = \"jetstream\"\n" + servers: "has every report already",
	} {
		_, err := Parse([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c, err := Parse([]byte("[standby]\nlisten = \"127.0.0.1:8430\"\nwitness = [\"nats://w:4222\"]\nwitness_ca = \"ca\"\n" +
		"[journal]\nkind = \"jetstream\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if j := c.Journal.Complete(&c.Standby); len(j.Servers) != 1 || j.Servers[0] != "nats://w:4222" || j.CA != "ca" {
		t.Errorf("the servers are %+v", j)
	}
	if def := Default(); def.Journal.InStream() {
		t.Errorf("the default is %+v", def.Journal)
	}
}
