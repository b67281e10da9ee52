package node

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
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

// TestWantedLost checks that a reload changes how careful the judgement is, and that rules and node
// show it.
func TestWantedLost(t *testing.T) {
	n, at := startWith(t, parse(t, "[judgement]\nwanted_lost = 0.7\n"), "http")
	shows := func(lost float64, step int, votes float64) {
		t.Helper()
		var state admin.NodeState
		read(t, at["http"]+"/v1/node", &state)
		if j := state.Judgement; j == nil || j.WantedLost != lost || j.Step != step || j.Steps != 5 {
			t.Errorf("judgement %+v, want wanted_lost %v, step %d of 5", j, lost, step)
		}
		var rules []admin.Rule
		read(t, at["http"]+"/v1/rules?days=7", &rules)
		for _, r := range rules {
			if r.Name == "exact-text" && r.LeastVotes != votes {
				t.Errorf("%v votes for %s, want %v", r.LeastVotes, r.Name, votes)
			}
		}
	}
	shows(0.7, 2, 1.5)
	cfg := *n.cfg.Load()
	cfg.Judgement.WantedLost = 9
	if _, restart, err := n.Reload(&cfg); err != nil || len(restart) > 0 {
		t.Fatalf("%v, to restart for: %q", err, restart)
	}
	// The state is computed once a second.
	await.True(t, "the new state", func() bool {
		var state admin.NodeState
		read(t, at["http"]+"/v1/node", &state)
		return state.Judgement.Step == 5
	})
	shows(9, 5, 0)
}

// read reads the JSON of a page.
func read(t *testing.T, url string, out any) {
	t.Helper()
	status, text := get(t, url)
	if err := json.Unmarshal([]byte(text), out); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, status, err)
	}
}
