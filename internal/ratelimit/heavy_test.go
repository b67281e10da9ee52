package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestTop checks that the busiest of many keys are listed in the order of their rates, which match
// those of Show. A key that has stopped gives way, and a key that is reset or too long is left out.
func TestTop(t *testing.T) {
	c := &testClock{time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	rule := Rule{Name: "sent", Key: "{sasl_username}", Limit: 1e6, Period: time.Hour, Action: Reject}
	l := open(t, Options{Now: c.Now, Rules: []Rule{rule, {Name: "reads", Reads: "sent", Limit: 1e6, Action: Reject}}})
	r := rand.New(rand.NewPCG(1, 2))
	top := func(n int) (names []string) {
		t.Helper()
		all, err := l.Top(n)
		if err != nil || len(all) != 1 || all[0].Rule != "sent" {
			t.Fatalf("%+v, %v", all, err)
		}
		for i, k := range all[0].Keys {
			names = append(names, k.Key)
			s, err := l.Show("sent", k.Key)
			if err != nil || len(s) != 1 || s[0] != k.Status {
				t.Errorf("key %s has %+v, Show %+v, %v", k.Key, k.Status, s, err)
			}
			if i > 0 && all[0].Keys[i-1].Rate < k.Rate {
				t.Errorf("%+v after %+v", k, all[0].Keys[i-1])
			}
		}
		return names
	}
	if got := top(3); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
	for i := range 20_000 {
		c.now = c.now.Add(100 * time.Millisecond)
		user := fmt.Sprintf("user%d@example.com", r.IntN(5000))
		switch {
		case i%10 == 0:
			user = "Ann@example.com"
		case i%20 == 1:
			user = "bob@example.com"
		case i%40 == 2:
			user = "eve@example.com"
		case i%1000 == 3:
			user = strings.Repeat("x", heavyBytes+1)
		}
		limit(t, l, request("sasl_username", user))
	}
	if got := fmt.Sprint(top(3)); got != "[ann@example.com bob@example.com eve@example.com]" {
		t.Errorf("most ask %s", got)
	}
	if got := len(top(1000)); got != heavyKeys {
		t.Errorf("%d keys are held, want %d", got, heavyKeys)
	}
	if l.Reset("", "BOB@example.com") != 1 {
		t.Error("bob was not known")
	}
	if got := fmt.Sprint(top(2)); got != "[ann@example.com eve@example.com]" {
		t.Errorf("without bob: %s", got)
	}
	rule.Limit = 2e6
	if err := l.Reload([]Rule{rule}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(top(1)); got != "[ann@example.com]" {
		t.Errorf("with another limit: %s", got)
	}
	for range 100 { // days later
		c.now = c.now.Add(time.Hour)
		limit(t, l, request("sasl_username", "new@example.com"))
	}
	if got := fmt.Sprint(top(1)); got != "[new@example.com]" {
		t.Errorf("days later: %s", got)
	}
	if action := limit(t, l, request("sasl_username", "peek@example.com")); action != Dunno {
		t.Error(action)
	}
	if _, _, _, err := l.Peek(request("sasl_username", "only-peeked@example.com")); err != nil {
		t.Fatal(err)
	}
	for _, name := range top(1000) {
		if name == "only-peeked@example.com" || len(name) > heavyBytes {
			t.Errorf("%.40s is held", name)
		}
	}
}
