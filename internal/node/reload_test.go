package node

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// TestReloadIsWhole checks that an error in one part of a new configuration leaves all parts
// unchanged.
func TestReloadIsWhole(t *testing.T) {
	dir := t.TempDir()
	list := buildList(t, dir)
	s, _ := startWith(t, config.Default(), "milter", "dnsbl")
	m := s.mta
	const good = `
[[lists.list]]
name = "bad"
path = "LIST"
[[dnsbl.zone]]
name = "bl.example.com"
list = "bad"
form = "domain"
[[ratelimit]]
name = "rcpts"
key = "{sasl_username}"
limit = 5
period = "1h"
`
	parse := func(from, to string) *config.Config {
		t.Helper()
		cfg, err := config.Parse([]byte(strings.ReplaceAll(strings.Replace(good, from, to, 1), "LIST", list)))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	for _, tt := range []struct{ from, to, key string }{
		{`"domain"`, `"hash"`, "dnsbl.zone"},
		{`"bl.example.com"`, `"bl..com"`, "dnsbl.zone"},
		{`LIST`, `LIST.gone`, "lists.list"},
		{`{sasl_username}`, `{sasl_username`, "ratelimit"},
		{`[[lists`, "[[milter.policy]]\ndomain = \"a.example\"\n[[milter.policy]]\ndomain = \"a.example\"\n[[lists",
			"milter.policy"},
	} {
		takeOver, err := s.prepare(parse(tt.from, tt.to))
		if err == nil || takeOver != nil || !strings.Contains(err.Error(), "config: "+tt.key+": ") {
			t.Errorf("%s instead of %s: %v, want a mistake of %s", tt.to, tt.from, err, tt.key)
		}
		if n, k := len(m.lists.Handles()), len(m.limits.Usage()); n+k != 0 {
			t.Errorf("%s instead of %s: %d lists and %d rules were taken over", tt.to, tt.from, n, k)
		}
	}
	takeOver, err := s.prepare(parse("", ""))
	if err != nil {
		t.Fatal(err)
	}
	if n, k := len(m.lists.Handles()), len(m.limits.Usage()); n+k != 0 {
		t.Errorf("%d lists and %d rules before they were taken over", n, k)
	}
	if err := takeOver(); err != nil {
		t.Fatal(err)
	}
	if n, k := len(m.lists.Handles()), len(m.limits.Usage()); n != 1 || k != 1 {
		t.Errorf("%d lists and %d rules taken over, want one of each", n, k)
	}
}
