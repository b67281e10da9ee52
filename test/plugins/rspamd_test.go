//go:build interop

package plugins

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// An rspamd is a running rspamd with the plugin, DKIM, SPF and a Bayes classifier.
type rspamd struct{ *nodetest.Rspamd }

// startRspamd runs rspamd beside the node at the address server. Without a name server, dns is "".
func startRspamd(t *testing.T, server, dns string) rspamd {
	t.Helper()
	return startRspamdWithin(t, 50, server, dns)
}

// startRspamdWithin is startRspamd with another limit in seconds for an answer of the node.
func startRspamdWithin(t *testing.T, limit int, server, dns string) rspamd {
	t.Helper()
	plugin, err := filepath.Abs("../../internal/plugins/rspamd/bulkhead.lua")
	if err != nil {
		t.Fatal(err)
	}
	return rspamd{nodetest.StartRspamd(t, dns, "spf,dkim", fmt.Sprintf(`
classifier "bayes" {
  tokenizer { name = "osb"; }
  backend = "sqlite3";
  cache { path = "%[1]s/learned.sqlite"; }
  min_tokens = 1;
  statfile { symbol = "BAYES_HAM"; path = "%[1]s/ham.sqlite"; spam = false; }
  statfile { symbol = "BAYES_SPAM"; path = "%[1]s/spam.sqlite"; spam = true; }
  learn_condition = "return function(task, is_spam, is_unlearn) return rspamd_plugins.bulkhead.learn(task, is_spam, is_unlearn) end";
}
spf { }
dkim { }
bulkhead { server = "%[2]s"; timeout = %[5]d.0; user = true; waiting = "%[3]s"; }
modules { path = "/usr/share/rspamd/plugins/spf.lua"; path = "%[4]s"; }
lua = "/usr/share/rspamd/rules/rspamd.lua";
`, t.TempDir(), server, waitingFolder(t), plugin, limit))}
}

// A result is the result of rspamd for a mail.
type result nodetest.RspamdResult

func (r rspamd) scan(mail string, headers ...string) result { return result(r.Scan(mail, headers...)) }

// envelope is the data of a mail that a mail server passes to rspamd.
var envelope = []string{"IP", "192.0.2.7", "Helo", "mx.sender.example", "From", "ann@sender.example", "Rcpt",
	"bob@example.org", "Rcpt", "eve@example.org"}

func (r result) bulkhead() (symbols []string) {
	for name := range r.Symbols {
		if strings.HasPrefix(name, "BULKHEAD_") {
			symbols = append(symbols, name)
		}
	}
	slices.Sort(symbols)
	return symbols
}

// TestRspamd: what the node says becomes a symbol, what rspamd has verified reaches the
// node, and what rspamc learns is a vote.
func TestRspamd(t *testing.T) {
	n := startNode(t)
	letter, key := signed(t, mail("lamps"))
	dns := nodetest.ServeDNS(t, map[string][]string{
		"TXT s._domainkey.sender.example": {key}, "TXT sender.example": {"v=spf1 ip4:192.0.2.0/24 -all"},
	})
	r := startRspamd(t, n.url, dns.Address)
	if got := r.scan(letter, envelope...); len(got.bulkhead()) > 0 {
		t.Errorf("unknown mail: %v", got)
	}
	asked := n.awaitSeen("/v1/check")
	if q := asked[0].URL.Query(); q.Get("client") != "192.0.2.7" || q.Get("sender") != "ann@sender.example" ||
		q.Get("dkim") != "sender.example" || q.Get("mailbox") != "bob@example.org" {
		t.Errorf("the node is asked with %v; want client, SPF's sender, DKIM's domain and the first recipient", q)
	}
	if body, _ := io.ReadAll(asked[0].Body); string(body) != letter {
		t.Errorf("the node is asked about %d bytes, want the %d of the mail", len(body), len(letter))
	}
	again := mail("boats")
	r.scan(again, envelope...)
	counted := n.awaitSeen("/v1/report")
	var report struct {
		Vote       string
		Recipients []string
		Signatures []string
		Source     map[string]any
	}
	if err := json.NewDecoder(counted[0].Body).Decode(&report); err != nil || report.Vote != "sighting" ||
		len(report.Signatures) < 5 ||
		!slices.Equal(report.Recipients, []string{"bob@example.org", "eve@example.org"}) ||
		report.Source["client"] != "192.0.2.7" {
		t.Errorf("the delivery is counted by %+v, %v", report, err)
	}

	n.post("/v1/report", again)
	got := r.scan("X-Again: yes\n"+again, envelope...)
	s := got.Symbols["BULKHEAD_SPAM"]
	if len(got.bulkhead()) != 1 || s.Score != 8 || got.Action != "add header" || len(s.Options) != 2 ||
		s.Options[1] != "confidence 80" {
		t.Errorf("reported mail: %+v", got)
	}
	// The node refuses longer names. The sender of a mail chooses them, and the mail must not pass for it.
	long := strings.Repeat("a", 1000)
	n.seen("")
	got = r.scan("X-Long: yes\n"+again, "IP", "192.0.2.7", "Helo", "mx.sender.example", "From", long+"@sender.example",
		"Rcpt", long+"@example.org", "Rcpt", "eve@example.org")
	if q := n.awaitSeen("/v1/check")[0].URL.Query(); !slices.Equal(got.bulkhead(), []string{"BULKHEAD_SPAM"}) ||
		q.Has("sender") || q.Get("mailbox") != "eve@example.org" {
		t.Errorf("reported mail with long names: %+v; the node is asked with %.200v", got, q)
	}
	n.seen("")
	changed := strings.Replace(again, "boatsneedle is needleboats", "boatsneedle was needleboats not", 1)
	if got := r.scan(changed, envelope...); !slices.Equal(got.bulkhead(), []string{"BULKHEAD_SUSPECTED"}) {
		t.Errorf("a changed copy: %+v", got)
	}
	if got := r.scan("X-Once-More: yes\n"+again, append(envelope, "User", "ann")...); len(got.bulkhead()) > 0 {
		t.Errorf("mail of a user of the site: %+v", got)
	}

	learnt := mail("hats")
	for _, step := range []struct{ command, vote, class string }{
		{"learn_spam", "spam", "BULKHEAD_SPAM"}, {"learn_ham", "ham", ""},
	} {
		n.seen("")
		code, out := nodetest.Command(t, learnt, "rspamc", "-t", "100", "-h", fmt.Sprintf("127.0.0.1:%d", r.Controller), "-d",
			"bob@example.org", step.command)
		if code != 0 {
			t.Fatalf("rspamc %s: exit %d\n%s", step.command, code, out)
		}
		// Deliveries are counted after their mail was answered, and may come in between.
		votes := n.awaitSeen("/v1/report")
		for !votes[0].URL.Query().Has("vote") {
			if votes = votes[1:]; len(votes) == 0 {
				votes = n.awaitSeen("/v1/report")
			}
		}
		if q := votes[0].URL.Query(); q.Get("vote") != step.vote || q.Get("user") != "bob@example.org" {
			t.Errorf("%s is the vote %v", step.command, q)
		}
		nodetest.Settle(t, nodetest.Patience, "what is said after "+step.command, func() string {
			got := strings.Join(r.scan(fmt.Sprintf("X-Now: %d\n", time.Now().UnixNano())+learnt, envelope...).bulkhead(), " ")
			if got != step.class {
				return fmt.Sprintf("%q, want %q", got, step.class)
			}
			return ""
		})
	}
}

// TestRspamdFailsOpen: whatever the node does, mail passes without a symbol that
// scores, in time.
func TestRspamdFailsOpen(t *testing.T) {
	n := startNode(t)
	r := startRspamdWithin(t, 2, n.url, "")
	gone := startRspamdWithin(t, 2, "http://"+nodetest.Address(t), "")
	check := func(t *testing.T, name string, r rspamd) {
		began := time.Now()
		got := r.scan(mail("x"+strings.ReplaceAll(name, " ", "")), envelope...)
		if took := time.Since(began); took > inTime {
			t.Errorf("rspamd answered after %v", took)
		}
		if symbols := got.bulkhead(); !slices.Equal(symbols, []string{"BULKHEAD_FAIL"}) ||
			got.Symbols["BULKHEAD_FAIL"].Score != 0 {
			t.Errorf("%v", got)
		}
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			n.fail(fault)
			check(t, name, r)
		})
	}
	t.Run("away", func(t *testing.T) { check(t, "away", gone) })
	n.fail(nil)
	tries := 0
	nodetest.Settle(t, nodetest.Patience, "a scan when the node is back", func() string { // which may take its two seconds
		tries++
		if got := r.scan(mail(fmt.Sprint("after", tries)), envelope...); len(got.bulkhead()) > 0 {
			return fmt.Sprint(got)
		}
		return ""
	})
}
