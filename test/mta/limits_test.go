//go:build interop

package mta

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// states are the restriction lists of Postfix, by the protocol state in which they ask.
var states = map[string]string{
	"CONNECT": "smtpd_client_restrictions", "EHLO": "smtpd_helo_restrictions", "MAIL": "smtpd_sender_restrictions",
	"RCPT": "smtpd_recipient_restrictions", "DATA": "smtpd_data_restrictions",
	"END-OF-MESSAGE": "smtpd_end_of_data_restrictions",
}

// startAsking runs a Postfix that asks the node in every state.
func startAsking(t testing.TB, n *node, s *sink) *postfix {
	t.Helper()
	main := "smtpd_delay_reject = no\nsmtpd_helo_required = yes\n"
	for _, list := range states {
		main += fmt.Sprintf("%s = check_policy_service { inet:%s, timeout=60s }\n", list, n.policy)
	}
	return startPostfix(t, s.addr, main)
}

// rates returns what the node has counted of a key, by rule.
func (n *node) rates(t testing.TB, key string) map[string]float64 {
	t.Helper()
	var keys []admin.RateKey
	out := n.bulkhead(t, "", "ratelimit", "show", "--json", key, "--server", "http://"+n.http, "--data",
		filepath.Join(n.dir, "data"))
	if err := json.Unmarshal([]byte(out), &keys); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	rates := make(map[string]float64)
	for _, k := range keys {
		rates[k.Rule] = k.Rate
	}
	return rates
}

// logs waits until Postfix's log has a line that matches.
func (p *postfix) logs(t testing.TB, pattern string) {
	t.Helper()
	line := regexp.MustCompile(pattern)
	nodetest.Await(t, "line of Postfix's log: "+pattern, func() bool {
		log, err := os.ReadFile(p.log)
		return err == nil && line.Match(log)
	})
}

// greeted connects from an address and says EHLO.
func greeted(t testing.TB, from string, p *postfix) *smtpClient {
	t.Helper()
	c, code, text := dialSMTPFrom(t, from, p.addr)
	if code != 220 {
		t.Fatalf("greeting from %s: %d %s", from, code, text)
	}
	c.ok(t, 250, "EHLO client.example.org")
	return c
}

// TestPostfixLimits has real Postfix ask in each of its states, once for each event of it; gives it
// the rates of accepted requests, in its log and in the messages; refuses a client at CONNECT for
// what it did at RCPT; and lets one wait.
func TestPostfixLimits(t *testing.T) {
	config := "[policy]\ncheckpoint = \"1s\"\n"
	for state := range states {
		accepted := "log"
		if state == "DATA" || state == "MAIL" {
			accepted = "header"
		}
		config += fmt.Sprintf(
			"[[ratelimit]]\nname = %q\nkey = \"{client_address}\"\nper = \"cmd\"\nstate = %q\nlimit = 1000\n"+
				"period = \"240h\"\naccepted = %q\n",
			strings.ToLower(state), state, accepted)
		if state == "MAIL" {
			config += "header = \"X-Rate-Of-Mail\"\n"
		}
	}
	n := newNode(t, config+`
[[ratelimit]]
name = "addresses"
key = "{client_address}"
per = "addr"
limit = 1000
period = "240h"
[[ratelimit]]
name = "early"
reads = "addresses"
state = "CONNECT"
limit = 6.5
action = "reject"
[[ratelimit]]
name = "halves"
key = "{client_address}"
per = "rcpt"
count = "0.5"
limit = 1000
period = "240h"
[[ratelimit]]
name = "bytes"
key = "{client_address}"
per = "byte"
limit = 0
action = "dunno"
period = "240h"
`)
	n.start(t)
	sink := startSink(t)
	p := startAsking(t, n, sink)
	const who = "127.0.0.7"
	recipients := []string{"a@example.com", "b@example.com", "c@example.com"}
	bytes := 0
	for conn := range 2 {
		c := greeted(t, who, p)
		for mail := range 3 {
			text := fmt.Sprintf("Subject: limits-%d-%d\n\n%s", conn, mail, prose(conn))
			if code, reply := c.message(t, "ann@shop.example", recipients[:mail+1], text); code != 250 {
				t.Fatalf("message %d: %d %s", mail, code, reply)
			}
			bytes += len(text) + strings.Count(text, "\n")
			d := sink.await(t, fmt.Sprintf("limits-%d-%d", conn, mail))
			for _, h := range []string{fmt.Sprintf("X-Bulkhead-Rate: data %d.0 of 1000 per 240h\n", 3*conn+mail+1),
				fmt.Sprintf("X-Rate-Of-Mail: mail %d.0 of 1000 per 240h\n", 3*conn+mail+1)} {
				head, _, _ := strings.Cut(d.data, "\n\n")
				name, _, _ := strings.Cut(h, ":")
				if strings.Count(head, h) != 1 || strings.Count(head, name) != 1 || strings.Contains(head, who+" of") {
					t.Errorf("connection %d, message %d: want %q once in:\n%s", conn, mail, h, head)
				}
			}
		}
		c.ok(t, 221, "QUIT")
	}
	// 2 connections, 6 messages, 12 recipients of 3 addresses.
	want := map[string]float64{"connect": 2, "ehlo": 2, "mail": 6, "rcpt": 12, "data": 6, "end-of-message": 6,
		"addresses": 3, "halves": 6}
	rates := n.rates(t, who)
	for rule, rate := range want {
		if math.Abs(rates[rule]-rate) > 0.01*rate {
			t.Errorf("rule %s has counted %.2f, want %.0f", rule, rates[rule], rate)
		}
	}
	if size := rates["bytes"]; math.Abs(size-float64(bytes)) > 0.05*float64(bytes) {
		t.Errorf("%.0f bytes, want about %d", size, bytes)
	}
	from := `unknown\[127\.0\.0\.7\]: `
	p.logs(t, `info: CONNECT from `+from+`rate connect 2\.0 of 1000 per 240h key=127\.0\.0\.7`)
	p.logs(t, `info: EHLO from `+from+`rate ehlo 2\.0 of 1000 per 240h`)
	p.logs(t, `info: RCPT from `+from+
		`rate rcpt 12\.0 of 1000 per 240h key=127\.0\.0\.7; from=<ann@shop\.example> to=<c@example\.com>`)
	p.logs(t, `info: END-OF-MESSAGE from `+from+`rate end-of-message 6\.0 of 1000 per 240h`)

	// A rule that only reads refuses at CONNECT what was counted at RCPT, and counts nothing.
	c := greeted(t, who, p)
	c.ok(t, 250, "MAIL FROM:<ann@shop.example>")
	for i := range 4 {
		c.ok(t, 250, "RCPT TO:<r%d@example.com>", i)
	}
	if _, code, text := dialSMTPFrom(t, who, p.addr); code != 550 || !strings.Contains(text, "5.7.1") ||
		!strings.Contains(text, "limit of 6.5 per 240h reached") {
		t.Errorf("a client over the limit connects: %d %s, want 550", code, text)
	}
	if got := n.rates(t, who)["addresses"]; math.Abs(got-7) > 0.01 {
		t.Errorf("%.2f addresses, want 7: reading counts nothing", got)
	}
	greeted(t, "127.0.0.8", p)
}

// TestPostfixLimitsOfKeys: single keys have their limits from a file, which is read again
// when it changes, and those over it wait.
func TestPostfixLimitsOfKeys(t *testing.T) {
	table := filepath.Join(t.TempDir(), "limits")
	writeFile(t, table, "# for now\n127.0.0.9 block\n127.0.0.10 2\n127.0.0.11 measure\n")
	n := newNode(t, fmt.Sprintf(`[policy]
checkpoint = "1s"
[[ratelimit]]
name = "conns"
key = "{client_address}"
per = "conn"
limit = 4
limits_file = %q
action = "reject"
period = "240h"
[[ratelimit]]
name = "slow"
key = "{sender}"
per = "mail"
limits = ["slow@shop.example block"]
limit = 0
action = "delay"
delay = "2s"
period = "240h"
`, table))
	n.start(t)
	sink := startSink(t)
	p := startAsking(t, n, sink)
	connect := func(from string) int {
		t.Helper()
		_, code, _ := dialSMTPFrom(t, from, p.addr)
		return code
	}
	if code := connect("127.0.0.9"); code != 550 {
		t.Errorf("a key that is blocked: %d", code)
	}
	for i := range 7 {
		for from, limit := range map[string]int{"127.0.0.10": 2, "127.0.0.11": 99, "127.0.0.12": 4} {
			want := 220
			if i >= limit {
				want = 550
			}
			if code := connect(from); code != want {
				t.Errorf("connection %d of %s: %d, want %d", i+1, from, code, want)
			}
		}
	}
	// The node may read the file at any moment, so the file is replaced as a whole.
	writeFile(t, table+".new", "127.0.0.10 4\n127.0.0.12 block\n")
	if err := os.Rename(table+".new", table); err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "the changed limits", func() bool { return connect("127.0.0.9") == 220 })
	if code := connect("127.0.0.10"); code != 220 {
		t.Errorf("a key whose limit was raised: %d", code)
	}
	if code := connect("127.0.0.12"); code != 550 {
		t.Errorf("a key that is blocked now: %d", code)
	}

	c := greeted(t, "127.0.0.13", p)
	for _, slow := range []bool{false, true, false} {
		sender := "fast@shop.example"
		if slow {
			sender = "slow@shop.example"
		}
		began := time.Now()
		c.ok(t, 250, "MAIL FROM:<%s>", sender)
		if took := time.Since(began); slow && took < 1900*time.Millisecond {
			t.Errorf("%s waited for %v, want 2 s", sender, took)
		}
		c.ok(t, 250, "RSET")
	}
	if !strings.Contains(n.metrics(t), "\nbulkhead_policy_answers_total{action=\"delay\"} 1\n") {
		t.Error("the metrics do not say that one was delayed")
	}
}
