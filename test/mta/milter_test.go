//go:build interop

package mta

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

const spam = `Dear customer, your parcel could not be delivered because the address was incomplete.
Pay the small customs fee of 1.99 within two days, or the parcel will be destroyed by our warehouse.
Open the page of our delivery service and type in the number of your card to receive it tomorrow.
`

// prose is a text of random-looking words that no other number gives.
func prose(n int) string {
	var b strings.Builder
	x := uint32(n)*2654435761 + 1
	for range 60 {
		for range 4 + x>>29 {
			x = x*1664525 + 1013904223
			b.WriteByte('a' + byte(x>>24)%26)
		}
		b.WriteByte(' ')
	}
	return b.String() + "\n"
}

// xclient makes the mail server take the connection for one from elsewhere.
func (s *smtpClient) xclient(t testing.TB, attributes string) {
	t.Helper()
	s.ok(t, 220, "XCLIENT %s", attributes)
	s.ok(t, 250, "EHLO client.example.org")
}

// metrics returns what the node exports.
func (n *node) metrics(t testing.TB) string {
	t.Helper()
	resp, err := http.Get("http://" + n.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPostfixMilter(t *testing.T) {
	n := newNode(t, `
[milter]
timeout = "5m"
spam = "reject"
listed = "quarantine"
exempt_networks = ["203.0.113.0/24"]
traps = ["trap@example.com"]
abuse_address = "spam@example.com"
abuse_ham_address = "notspam@example.com"
[[milter.policy]]
domain = "example.net"
spam = "header"
listed = "header"
[[ratelimit]]
name = "rcpts"
key = "{sasl_username}"
unique = "{recipient}"
limit = 10
period = "240h"
action = "defer"
[[ratelimit]]
name = "rate"
key = "{client_address}"
state = "DATA"
limit = 1000
period = "240h"
accepted = "header"
[lists]
[[lists.list]]
name = "bad"
path = "BAD"
`)
	bad := n.list(t, "bad.list", []string{"--reason", "phishing"}, "evil.example")
	config, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, n.config, "%s", strings.ReplaceAll(string(config), "BAD", bad))
	n.start(t)
	sink := startSink(t)
	p := startPostfix(t, sink.addr, fmt.Sprintf(`
smtpd_milters = inet:%s
milter_default_action = accept
milter_protocol = 6
smtpd_recipient_restrictions = check_policy_service { inet:%s, default_action=DUNNO, timeout=60s }, permit
smtpd_data_restrictions = check_policy_service { inet:%[2]s, default_action=DUNNO, timeout=60s }
smtpd_end_of_data_restrictions = check_policy_service { inet:%[2]s, default_action=DUNNO, timeout=60s }
`, n.milter, n.policy))
	n.bulkhead(t, "From: x@shop.example\nSubject: parcel\n\n"+spam, "report", "--server", "http://"+n.http, "-")
	c := dialSMTP(t, p.addr)
	c.xclient(t, "ADDR=198.51.100.7 NAME=client.example.org")

	t.Run("clean mail passes with headers, forged ones removed", func(t *testing.T) {
		code, text := c.message(t, "ann@shop.example", []string{"bob@example.com"},
			"Subject: clean-1\nX-Bulkhead: white\nX-Bulkhead-Results: mx.example.com; all is well\nX-Bulkhead: white again\n"+
				"X-Bulkhead : white, obsolete\nX-Bulkhead\t:\n\twhite, folded\nX-BULKHEAD:white, no space\n\n"+prose(1))
		if code != 250 {
			t.Fatal(code, text)
		}
		d := sink.await(t, "clean-1")
		if strings.Count(strings.ToLower(d.data), "x-bulkhead:") != 1 || strings.Count(d.data, "X-Bulkhead: none") != 1 ||
			strings.Contains(d.data, "white") || strings.Contains(d.data, "all is well") ||
			!strings.Contains(d.data, "bulkhead=none") ||
			strings.Count(d.data, "X-Bulkhead-Rate: rate 1.0 of 1000 per 240h\n") != 1 {
			t.Errorf("delivered:\n%s", d.data)
		}
	})
	t.Run("spam is rejected, several messages on one connection", func(t *testing.T) {
		for i := range 3 {
			code, text := c.message(t, "ann@shop.example", []string{"bob@example.com"},
				fmt.Sprintf("Subject: spam-%d\n\n%s", i, spam))
			if code != 550 || !strings.Contains(text, "5.7.1 message refused as spam") {
				t.Errorf("message %d: %d %s, want 550", i, code, text)
			}
		}
		if code, text := c.message(t, "ann@shop.example", []string{"bob@example.com"},
			"Subject: clean-2\n\n"+prose(2)); code != 250 {
			t.Errorf("clean mail afterwards: %d %s", code, text)
		}
		sink.await(t, "clean-2")
		if _, found := sink.find("spam-"); found {
			t.Error("spam was delivered")
		}
	})
	t.Run("another domain only wants headers", func(t *testing.T) {
		if code, text := c.message(t, "ann@shop.example", []string{"bob@example.net"},
			"Subject: soft-1\n\n"+spam); code != 250 {
			t.Fatal(code, text)
		}
		if d := sink.await(t, "soft-1"); !strings.Contains(d.data, "X-Bulkhead: spam") {
			t.Errorf("delivered:\n%s", d.data)
		}
	})
	t.Run("listed mail is quarantined", func(t *testing.T) {
		if code, text := c.message(t, "x@shop.example", []string{"bob@example.com"},
			"Subject: listed-1\n\n"+prose(3)+"http://www.evil.example/pay\n"); code != 250 {
			t.Fatal(code, text)
		}
		nodetest.Await(t, "message on hold", func() bool { return len(p.held(t)) == 1 })
		held, err := os.ReadFile(p.held(t)[0])
		if err != nil || !strings.Contains(string(held), "listed-1") || !strings.Contains(string(held), "(phishing)") {
			t.Errorf("on hold: %q, %v", held, err)
		}
		if _, found := sink.find("listed-1"); found {
			t.Error("a message on hold was delivered")
		}
	})
	t.Run("authenticated and exempt senders pass", func(t *testing.T) {
		for i, attributes := range []string{"ADDR=198.51.100.7 LOGIN=carol", "ADDR=203.0.113.5"} {
			c := dialSMTP(t, p.addr)
			c.xclient(t, attributes)
			for k := range 3 { // on one connection, the last after one that was broken off
				if k == 2 {
					c.ok(t, 250, "MAIL FROM:<carol@example.com>")
					c.ok(t, 250, "RSET")
				}
				name := fmt.Sprintf("exempt-%d-%d", i, k)
				if code, text := c.message(t, "carol@example.com", []string{"bob@example.net"},
					fmt.Sprintf("Subject: %s\n\n%s", name, spam)); code != 250 {
					t.Errorf("%s, message %d: %d %s", attributes, k, code, text)
				}
				if d := sink.await(t, name); strings.Contains(d.data, "X-Bulkhead:") ||
					strings.Contains(d.data, "X-Bulkhead-Results") {
					t.Errorf("%s, message %d: delivered with a verdict", attributes, k)
				}
			}
		}
	})
	t.Run("mail to the abuse address is a vote of who has logged in", func(t *testing.T) {
		lamps := prose(6)
		attached := func(subject string) string {
			return "Subject: " + subject +
				"\nFrom: erin@example.com\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n" +
				"Content-Type: message/rfc822\n\n" +
				"From: x@shop.example\nSubject: lamps\n\n" + lamps + "\n--b--\n"
		}
		for i, step := range []struct {
			login, to, mail string
			code            int
			lamps           int // the code for the mail that was sent, afterwards
		}{
			{"", "spam@example.com", attached("abuse-0"), 250, 250},
			{" LOGIN=erin", "spam@example.com", "Subject: abuse-1\n\nThere is nothing attached to this mail.\n", 550, 250},
			{" LOGIN=erin", "spam@example.com", attached("abuse-2"), 250, 550},
			{" LOGIN=erin", "notspam@example.com", attached("abuse-3"), 250, 250},
		} {
			c := dialSMTP(t, p.addr)
			c.xclient(t, "ADDR=198.51.100.7 NAME=client.example.org"+step.login)
			if code, reply := c.message(t, "erin@example.com", []string{step.to}, step.mail); code != step.code {
				t.Errorf("step %d: %d %s, want %d", i, code, reply, step.code)
			}
			stranger := dialSMTP(t, p.addr)
			stranger.xclient(t, "ADDR=198.51.100.9 NAME=client.example.org")
			if code, reply := stranger.message(t, "x@shop.example", []string{"bob@example.com"},
				fmt.Sprintf("Subject: lamps-%d\n\n%s", i, lamps)); code != step.lamps {
				t.Errorf("after step %d the mail itself: %d %s, want %d", i, code, reply, step.lamps)
			}
		}
		if d := sink.await(t, "abuse-0"); !strings.Contains(d.data, "X-Bulkhead: none") {
			t.Errorf("a stranger's mail to the abuse address is delivered as\n%s", d.data)
		}
		for i := 1; i < 4; i++ {
			if _, found := sink.find(fmt.Sprintf("abuse-%d", i)); found {
				t.Errorf("the vote of step %d was delivered", i)
			}
		}
	})
	t.Run("mail to traps from two networks is spam", func(t *testing.T) {
		text := prose(4)
		for i, step := range []struct {
			client, to string
			code       int
		}{
			{"198.51.100.7", "trap@example.com", 250},
			{"198.51.100.8", "trap@example.com", 250},
			{"198.51.100.7", "bob@example.com", 250}, // one network, one witness
			{"192.0.2.77", "trap@example.com", 250},
			{"198.51.100.7", "bob@example.com", 550},
		} {
			c := dialSMTP(t, p.addr)
			c.xclient(t, "ADDR="+step.client+" NAME=client.example.org")
			subject := fmt.Sprintf("Subject: trap-%d\n\n", i)
			if code, reply := c.message(t, "ann@shop.example", []string{step.to}, subject+text); code != step.code {
				t.Errorf("step %d, from %s to %s: %d %s, want %d", i, step.client, step.to, code, reply, step.code)
			}
		}
	})
	t.Run("a sender breaks off in the body", func(t *testing.T) {
		broken := dialSMTP(t, p.addr)
		broken.xclient(t, "ADDR=198.51.100.8")
		broken.ok(t, 250, "MAIL FROM:<x@shop.example>")
		broken.ok(t, 250, "RCPT TO:<bob@example.com>")
		broken.ok(t, 354, "DATA")
		fmt.Fprintf(broken.c, "Subject: broken\r\n\r\n%s", strings.Repeat("half a line ", 20_000))
		broken.c.Close()
		if code, text := c.message(t, "ann@shop.example", []string{"bob@example.com"},
			"Subject: clean-3\n\n"+prose(5)); code != 250 {
			t.Error(code, text)
		}
	})
	t.Run("many connections at once", func(t *testing.T) {
		var wg sync.WaitGroup
		const conns = 500
		clients := make([]*smtpClient, conns)
		for i := range clients {
			clients[i] = dialSMTP(t, p.addr)
			clients[i].xclient(t, fmt.Sprintf("ADDR=198.18.%d.%d", i/200, i%200+1))
		}
		for i, c := range clients {
			wg.Go(func() {
				for j, text := range []string{prose(100 + i), spam} {
					want := []int{250, 550}[j]
					if code, reply := c.message(t, "ann@shop.example", []string{"bob@example.com"},
						"Subject: many\n\n"+text); code != want {
						t.Errorf("connection %d: %d %s, want %d", i, code, reply, want)
					}
				}
			})
		}
		wg.Wait()
		// All of them were open at once, each with its own connection to the milter.
		_, rest, _ := strings.Cut(n.metrics(t), `bulkhead_milter_events_total{event="connection"} `)
		value, _, _ := strings.Cut(rest, "\n")
		if got, err := strconv.Atoi(value); err != nil || got < conns {
			t.Errorf("the milter saw %q connections (%v), want %d", value, err, conns)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		text := n.metrics(t)
		for _, line := range []string{
			`bulkhead_milter_messages_total{class="listed"} 1`, `bulkhead_milter_actions_total{action="quarantine"} 1`,
			`bulkhead_milter_events_total{event="reported"} 2`, `bulkhead_milter_events_total{event="report_refused"} 1`,
			`bulkhead_milter_events_total{event="report_ignored"} 1`,
			`bulkhead_milter_events_total{event="trapped"} 3`, `bulkhead_milter_events_total{event="forged_header"} 6`,
			`bulkhead_milter_events_total{event="fault"} 0`, `bulkhead_list_entries{list="bad"} 1`,
			`bulkhead_ratelimit_bytes{rule="rcpts"}`,
		} {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("no metric %s", line)
			}
		}
	})
	t.Run("rate limit by different recipients, kept over a restart", func(t *testing.T) {
		c := dialSMTP(t, p.addr)
		c.xclient(t, "ADDR=198.51.100.7 LOGIN=dave")
		send := func(to string, want int) {
			t.Helper()
			c.ok(t, 250, "MAIL FROM:<dave@example.com>")
			c.ok(t, want, "RCPT TO:<%s>", to)
			c.ok(t, 250, "RSET")
		}
		for i := range 10 {
			send(fmt.Sprintf("r%d@example.net", i), 250)
		}
		send("r10@example.net", 450)
		send("R3@example.net", 250)
		if out := n.bulkhead(t, "", "ratelimit", "show", "dave", "--server", "http://"+n.http, "--data",
			n.dir+"/data"); !strings.Contains(out, "10.0") {
			t.Errorf("ratelimit show: %s", out)
		}
		if err := n.process.Stop(); err != nil {
			t.Fatal(err)
		}
		// Without the node, mail passes: the default actions of both doors' lines.
		c2 := dialSMTP(t, p.addr)
		c2.ok(t, 250, "MAIL FROM:<x@shop.example>")
		c2.ok(t, 250, "RCPT TO:<bob@example.com>")
		n.start(t)
		send("r11@example.net", 450)
		send("r3@example.net", 250)
		n.bulkhead(t, "", "ratelimit", "reset", "dave", "--server", "http://"+n.http, "--data", n.dir+"/data")
		send("r11@example.net", 250)
	})
}
