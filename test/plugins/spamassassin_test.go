//go:build interop

package plugins

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A spamassassin is a folder of rules with the plugin.
type spamassassin struct {
	t   *testing.T
	dir string
}

func newSpamAssassin(t *testing.T, server, settings string) *spamassassin {
	t.Helper()
	s := &spamassassin{t, t.TempDir()}
	for _, name := range []string{"Bulkhead.pm", "bulkhead.cf"} {
		text, err := os.ReadFile(filepath.Join("../../internal/plugins/spamassassin", name))
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, string(text))
	}
	s.write("local.cf", `loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
loadplugin Mail::SpamAssassin::Plugin::AutoLearnThreshold
util_rb_tld com org net example
trusted_networks 127.0.0.1
skip_rbl_checks 1
use_bayes 1
bayes_path `+s.dir+`/bayes
add_header all Rules _TESTS(,)_
add_header all Learnt by-itself=_AUTOLEARN_
bulkhead_server `+server+`
bulkhead_timeout 60
`+settings)
	return s
}

func (s *spamassassin) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs one of SpamAssassin's programs and returns what it says.
func (s *spamassassin) run(input, program string, args ...string) string {
	s.t.Helper()
	args = append([]string{"--configpath=" + s.dir, "--siteconfigpath=" + s.dir,
		"--prefspath=" + filepath.Join(s.dir, "user_prefs")}, args...)
	code, out := nodetest.Command(s.t, input, program, args...)
	if code != 0 {
		s.t.Errorf("%s %v: exit %d\n%s", program, args, code, out)
	}
	return out
}

// scan returns the rules of the plugin that a mail hits, and all that was said.
func (s *spamassassin) scan(mail string) (rules []string, out string) {
	s.t.Helper()
	out = s.run(mail, "spamassassin", "--nocreate-prefs", "-x")
	_, after, _ := strings.Cut(out, "X-Spam-Rules:")
	line, _, _ := strings.Cut(strings.ReplaceAll(after, "\n\t", ""), "\n")
	for _, rule := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' }) {
		if strings.HasPrefix(rule, "BULKHEAD_") {
			rules = append(rules, rule)
		}
	}
	return rules, out
}

// TestSpamAssassin: what the node says becomes a rule, what SpamAssassin has verified
// reaches the node, and reports and learning are votes.
func TestSpamAssassin(t *testing.T) {
	n := startNode(t)
	s := newSpamAssassin(t, n.url, "")
	letter := mail("lamps")
	if rules, out := s.scan(letter); len(rules) > 0 || !strings.Contains(out, "X-Spam-Bulkhead: unknown") {
		t.Errorf("unknown mail hits %v:\n%s", rules, out)
	}
	n.mu.Lock()
	all := slices.Clone(n.requests)
	n.mu.Unlock()
	if len(all) != 2 {
		t.Fatalf("%d requests, want a check and a delivery", len(all))
	}
	if q := all[0].URL.Query(); all[0].URL.Path != "/v1/check" || q.Get("client") != "192.0.2.7" || q.Has("sender") ||
		q.Has("dkim") {
		t.Errorf("the node is asked %v; want the client, and nothing that was not verified", all[0].URL)
	}
	var report struct {
		Vote, ID   string
		Signatures []string
		Source     map[string]any
	}
	if err := json.NewDecoder(all[1].Body).Decode(&report); err != nil || report.Vote != "sighting" ||
		report.ID != "<lamps@sender.example>" ||
		len(report.Signatures) < 5 || report.Source["client"] != "192.0.2.7" {
		t.Errorf("the delivery is counted by %+v, %v", report, err)
	}
	n.post("/v1/report", letter)
	if rules, out := s.scan(letter); !slices.Equal(rules, []string{"BULKHEAD_SPAM"}) ||
		!strings.Contains(out, "X-Spam-Bulkhead: spam ") || !strings.Contains(out, "original message before SpamAssassin") {
		t.Errorf("reported mail hits %v:\n%s", rules, out)
	}
	changed := strings.Replace(letter, "lampsneedle is needlelamps", "lampsneedle was needlelamps not", 1)
	if rules, out := s.scan(changed); !slices.Equal(rules, []string{"BULKHEAD_SUSPECTED"}) {
		t.Errorf("a changed copy hits %v:\n%s", rules, out)
	}
	for _, step := range []struct {
		program string
		args    []string
		mail    string
		vote    string
		rules   []string
	}{
		{"spamassassin", []string{"-r"}, mail("hats"), "spam", []string{"BULKHEAD_SPAM"}},
		{"spamassassin", []string{"-k"}, mail("hats"), "ham", nil},
		{"sa-learn", []string{"--spam", "--no-sync"}, mail("coins"), "spam", []string{"BULKHEAD_SPAM"}},
		{"sa-learn", []string{"--ham", "--no-sync"}, mail("coins"), "ham", nil},
	} {
		n.seen("")
		s.run(step.mail, step.program, step.args...)
		votes := n.seen("/v1/report")
		if len(votes) == 0 {
			t.Fatalf("%s %v is no vote", step.program, step.args)
		}
		for _, v := range votes {
			if body, _ := io.ReadAll(v.Body); v.URL.Query().Get("vote") != step.vote ||
				!strings.HasSuffix(string(body), step.mail[strings.Index(step.mail, "From:"):]) {
				t.Errorf("%s %v is the vote %v on %q", step.program, step.args, v.URL, body)
			}
		}
		if rules, out := s.scan(step.mail); !slices.Equal(rules, step.rules) {
			t.Errorf("after %s %v it hits %v, want %v:\n%s", step.program, step.args, rules, step.rules, out)
		}
	}
}

// TestSpamAssassinVerified: DKIM and SPF reach the node.
func TestSpamAssassinVerified(t *testing.T) {
	n := startNode(t)
	letter, key := signed(t, mail("signed"))
	dns := nodetest.ServeDNS(t, map[string][]string{
		"TXT s._domainkey.sender.example": {key}, "TXT sender.example": {"v=spf1 ip4:192.0.2.0/24 -all"},
	})
	s := newSpamAssassin(t, n.url, `loadplugin Mail::SpamAssassin::Plugin::DKIM
loadplugin Mail::SpamAssassin::Plugin::SPF
dkim_timeout 60
spf_timeout 60
dns_available yes
dns_server 127.0.0.1:`+dns.Address[strings.LastIndex(dns.Address, ":")+1:]+`
full DKIM_VALID eval:check_dkim_valid()
header SPF_PASS eval:check_for_spf_pass()
score DKIM_VALID 0.01
score SPF_PASS 0.01
`)
	letter = "Return-Path: <ann@sender.example>\n" + strings.ReplaceAll(letter, "\r\n", "\n")
	_, out := s.scan(letter)
	asked := n.seen("/v1/check")
	if len(asked) != 1 {
		t.Fatalf("%d questions\n%s", len(asked), out)
	}
	q := asked[0].URL.Query()
	if strings.Contains(out, "DKIM_VALID") != (q.Get("dkim") == "sender.example") ||
		strings.Contains(out, "SPF_PASS") != (q.Get("sender") == "ann@sender.example") {
		t.Errorf("the node is asked with %v, but SpamAssassin says\n%s", q, out)
	}
	if !strings.Contains(out, "DKIM_VALID") && !strings.Contains(out, "SPF_PASS") {
		t.Errorf("SpamAssassin verified nothing:\n%s", out)
	}

	// The node refuses longer names. The sender of a mail chooses them, and the mail must not pass for it.
	s.scan(strings.Replace(letter, "<ann@", "<"+strings.Repeat("a", 1000)+"@", 1))
	asked = n.seen("/v1/check")
	if len(asked) != 1 || asked[0].URL.Query().Has("sender") || asked[0].URL.Query().Get("client") != q.Get("client") {
		t.Errorf("with a long name, the node is asked %d times, at first with %.200v", len(asked), asked[0].URL)
	}
}

// TestSpamAssassinLearnsAlone: what SpamAssassin learns by its own score is no vote.
func TestSpamAssassinLearnsAlone(t *testing.T) {
	n := startNode(t)
	s := newSpamAssassin(t, n.url, `bayes_auto_learn 1
bayes_auto_learn_threshold_spam 6
body PRIZE /kite/
score PRIZE 40
header PRIZES Subject =~ /kite/
score PRIZES 40
`)
	rules, out := s.scan(mail("kite"))
	if !strings.Contains(out, "by-itself=spam") {
		t.Fatalf("not learnt (%v):\n%s", rules, out)
	}
	for _, r := range n.seen("/v1/report") {
		t.Errorf("a vote %v of nobody", r.URL)
	}
}

// TestSpamAssassinFailsOpen: whatever the node does, mail passes without a rule, in time.
func TestSpamAssassinFailsOpen(t *testing.T) {
	n := startNode(t)
	s := newSpamAssassin(t, n.url, "bulkhead_timeout 2\n")
	gone := newSpamAssassin(t, "http://"+nodetest.Address(t), "bulkhead_timeout 2\n")
	check := func(t *testing.T, name string, s *spamassassin) {
		began := time.Now()
		letter := mail("x" + strings.ReplaceAll(name, " ", ""))
		rules, out := s.scan(letter)
		if took := time.Since(began); took > inTime {
			t.Errorf("SpamAssassin answered after %v", took)
		}
		if len(rules) > 0 || !strings.Contains(out, letter[strings.Index(letter, "\n\n"):]) {
			t.Errorf("it hits %v:\n%s", rules, out)
		}
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			n.fail(fault)
			check(t, name, s)
		})
	}
	t.Run("away", func(t *testing.T) { check(t, "away", gone) })
	t.Run("away, and asked to report", func(t *testing.T) {
		out := gone.run(mail("late"), "spamassassin", "-D", "reporter,bulkhead", "-r")
		if !strings.Contains(out, "could not report spam to bulkhead") {
			t.Errorf("%s", out)
		}
	})
}
