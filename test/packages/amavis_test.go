//go:build interop

package packages

import (
	"fmt"
	"net"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestAmavis: what setup writes for Amavis, with the line that turns its spam checks on, makes
// Amavis call mail spam that was reported, by its own limit, and leaves other mail alone.
// iRedMail's relevant settings of Amavis are the same, except for a limit of 6.2.
func TestAmavis(t *testing.T) {
	nodetest.NeedUsers(t)
	nodetest.Program(t, "amavisd")
	m := newMachine(t)
	program, err := os.ReadFile(nodetest.Binary(t))
	if err == nil {
		err = os.WriteFile(m.root+"/usr/bin/bulkhead", program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	sink := startSink(t)
	m.must(`rm -rf /etc/exim4 /etc/rspamd /etc/dovecot /etc/postfix
useradd --system --user-group --no-create-home --home-dir /var/lib/amavis --shell /bin/sh amavis
useradd --system --user-group --no-create-home --home-dir /var/lib/bulkhead --shell /usr/sbin/nologin bulkhead
install -d -o amavis -g amavis /var/lib/amavis /var/lib/amavis/tmp /var/lib/amavis/db /var/lib/amavis/virusmails /var/run/amavis
install -d /etc/bulkhead
printf '[listen]\nhttp = "127.0.0.1:8420"\n' >/etc/bulkhead/bulkhead.toml
cat >/etc/amavis/conf.d/50-user <<'X'
use strict;
$DO_SYSLOG = 0;
$log_level = 1;
$myhostname = 'mx.example.org';
@local_domains_maps = (1);
@bypass_spam_checks_maps = (0);
$sa_tag_level_deflt = -999;
$forward_method = 'smtp:[127.0.0.1]:`+sink.port+`';
$notify_method = $forward_method;
1;
X
printf 'dns_available no\nuse_bayes 0\nuse_razor2 0\nuse_pyzor 0\n' >>/etc/spamassassin/local.cf`, "")
	m.node()
	output := m.must("bulkhead setup --yes --for amavis", "set up: amavis")
	if strings.Contains(output, "judges no spam") {
		t.Errorf("setup does not see that Amavis judges spam:\n%s", output)
	}
	m.must("spamassassin --lint", "")
	m.service("amavisd", "foreground")
	nodetest.AwaitTCP(t, "127.0.0.1:10024")

	reported := "Received: from mx.prizes.example (mx.prizes.example [192.0.2.7])\n\tby mx.example.org (Postfix) with " +
		"ESMTP id 1; Mon, 1 Jan 2024 00:00:00 +0000\n" +
		letter("lanterns", "Prizes <win@prizes.example>", "bob", "Bob", "http://prizes.example/bob", "Come soon.")
	if err := os.WriteFile(m.root+"/tmp/m.eml", []byte(reported), 0o644); err != nil {
		t.Fatal(err)
	}
	m.must("bulkhead report /tmp/m.eml", "")
	for subject, mail := range map[string]string{"reported": reported,
		"other": strings.ReplaceAll(reported, "lanterns", "bicycles")} {
		mail = "X-Test: " + subject + "\n" + mail
		if err := converse("127.0.0.1:10024", "EHLO localhost", "MAIL FROM:<win@prizes.example>", "RCPT TO:<bob@example.org>",
			"DATA", strings.ReplaceAll(mail, "\n", "\r\n")+"."); err != nil {
			t.Fatal(err)
		}
		got := sink.next(t)
		if spam := strings.Contains(got, "X-Spam-Flag: YES"); spam != (subject == "reported") ||
			strings.Contains(got, "BULKHEAD_SPAM") != spam || !strings.Contains(got, "X-Spam-Status:") {
			t.Errorf("the %s mail comes from Amavis as\n%s", subject, got)
		}
	}
}

// converse says lines to a mail server, which must agree to each.
func converse(address string, lines ...string) error {
	c, err := textproto.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ; i++ {
		if code, text, err := c.ReadResponse(0); err != nil || code >= 400 {
			return fmt.Errorf("after %d lines: %d %s, %v", i, code, text, err)
		}
		if i == len(lines) {
			return nil
		}
		if err := c.PrintfLine("%s", lines[i]); err != nil {
			return err
		}
	}
}

// A sink is a mail server that keeps what it gets.
type sink struct {
	port string
	got  chan string
}

func startSink(t *testing.T) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{port: fmt.Sprint(l.Addr().(*net.TCPAddr).Port), got: make(chan string, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(textproto.NewConn(c))
		}
	}()
	return s
}

func (s *sink) serve(c *textproto.Conn) {
	defer c.Close()
	c.PrintfLine("220 sink")
	for {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		switch verb, _, _ := strings.Cut(strings.ToUpper(line), " "); verb {
		case "DATA":
			c.PrintfLine("354 go on")
			text, err := c.ReadDotBytes()
			if err != nil {
				return
			}
			s.got <- string(text)
			c.PrintfLine("250 kept")
		case "QUIT":
			c.PrintfLine("221 bye")
			return
		default:
			c.PrintfLine("250 ok")
		}
	}
}

func (s *sink) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-s.got:
		return text
	case <-time.After(fiveMinutes):
		t.Fatal("no mail came")
		return ""
	}
}
