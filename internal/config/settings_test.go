package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestSettings: every key of the file is present with its value, but no secret is.
func TestSettings(t *testing.T) {
	cfg, err := Parse([]byte(`
[listen]
http = "127.0.0.1:8420"
[node]
name = "mx.example.com"
[policy]
webhook = "https://ann:pa55word@hooks.example.com/T0KEN?key=K3Y"
[fuzzy]
hash_key = "hush"
[[dcc.clients]]
id = 32769
password = "pa55word"
[mesh]
mode = "external"
servers = ["tls://ann:pa55word@nats.example.com:4222", "tls://nats2.example.com:4222"]
[[ratelimit]]
name = "a"
key = "{sasl_username}"
limit = 5
period = "1h"
[[ratelimit]]
name = "b"
key = "{client_address}"
limit = 7
period = "24h"
`))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]Setting)
	for _, s := range Settings(cfg) {
		if _, twice := got[s.Key]; twice || s.Doc == "" || s.Value == "" {
			t.Errorf("%+v", s)
		}
		for _, secret := range []string{"pa55word", "hush", "K3Y", "T0KEN", "ann"} {
			if strings.Contains(s.Value, secret) {
				t.Errorf("%s shows %s", s.Key, s.Value)
			}
		}
		got[s.Key] = s
	}
	for key, want := range map[string]string{
		"node.name": `'mx.example.com'`, "listen.http": `'127.0.0.1:8420'`,
		"policy.webhook": "'https://hooks.example.com/(hidden)'", "fuzzy.hash_key": Hidden,
		"dcc.clients[0].password": Hidden, "dcc.clients[0].password2": "''",
		"mesh.servers":      "['tls://nats.example.com:4222/(hidden)', 'tls://nats2.example.com:4222']",
		"ratelimit[1].name": "'b'", "ratelimit[1].period": "'24h'", "ratelimit[0].limit": "5.0", "tally.threshold": "20",
	} {
		if got[key].Value != want {
			t.Errorf("%s is %s, want %s", key, got[key].Value, want)
		}
	}
	if got["node.name"].Default || !got["tally.near_match"].Default || !got["ratelimit[0].name"].Reload ||
		got["node.name"].Reload {
		t.Errorf("%+v, %+v, %+v", got["node.name"], got["tally.near_match"], got["ratelimit[0].name"])
	}
}

// TestSecretsAreMarked: a key that is named like a secret is marked as one, or is a known
// exception.
func TestSecretsAreMarked(t *testing.T) {
	sounds := regexp.MustCompile(`pass|secret|token|webhook|url|servers|_key$`)
	harmless := map[string]bool{"http.tls_key": true, "upstream.token_file": true, "shards.tokens": true,
		"whitelist.keys": true}
	marked := 0
	var walk func(name string, of reflect.Type)
	walk = func(name string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			key := strings.TrimPrefix(name+"."+f.Tag.Get("toml"), ".")
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(key, f.Type)
			case isTables(f):
				walk(key, f.Type.Elem())
			case f.Tag.Get("secret") != "":
				marked++
			case sounds.MatchString(f.Tag.Get("toml")) && !harmless[key]:
				t.Errorf("%s may be a secret, and is shown", key)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	if marked < 8 {
		t.Errorf("%d keys are secrets", marked)
	}
}
