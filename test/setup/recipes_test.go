//go:build interop

package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// recipe returns the indented lines of a chapter of docs/setup.md, block by block.
func recipe(t *testing.T, chapter string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/setup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text1, found := strings.Cut(string(text), "\n## "+chapter+"\n")
	if !found {
		t.Fatalf("docs/setup.md has no chapter %s", chapter)
	}
	text1, _, _ = strings.Cut(text1, "\n## ")
	block := ""
	for line := range strings.Lines(text1 + "\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block += code
		} else if block != "" {
			blocks, block = append(blocks, block), ""
		}
	}
	return blocks
}

// TestMailcowRecipe does what docs/setup.md says to do to mailcow, to a rspamd whose local.d
// has what mailcow puts there that matters: where junk begins, and a classifier with a
// condition of its own. mailcow itself is not run.
func TestMailcowRecipe(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	m.write("/etc/rspamd/local.d/actions.conf", "reject = 15;\nadd_header = 8;\ngreylist = 7;\n")
	const condition = "learn_condition = 'return require(\"lua_bayes_learn\").can_learn';"
	m.write("/etc/rspamd/local.d/statistic.conf",
		"classifier \"bayes\" {\n  "+condition+"\n  tokenizer { name = \"osb\"; }\n  backend = \"redis\";\n"+
			"  statfile { symbol = \"BAYES_HAM\"; spam = false; }\n  statfile { symbol = \"BAYES_SPAM\"; spam = true; }\n}\n")
	m.write("/etc/rspamd/plugins.d/README.md", "where modules are copied to\n")
	m.write("/etc/rspamd/rspamd.conf.local", "# rspamd.conf.local\n")

	blocks := recipe(t, "mailcow")
	if len(blocks) != 2 || !strings.Contains(blocks[0], "docker compose restart rspamd-mailcow\n") {
		t.Fatalf("the recipe is %q", blocks)
	}
	plugins, err := filepath.Abs("../../internal/plugins")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("/usr/share/bulkhead/plugins", plugins, "data/conf/rspamd", m.root+"/etc/rspamd",
		"docker compose restart rspamd-mailcow\n", "").Replace(blocks[0])
	if code, out := nodetest.Command(t, script, "sh", "-e"); code != 0 {
		t.Fatalf("%s: exit %d\n%s", script, code, out)
	}
	m.write("/etc/rspamd/local.d/groups.conf", blocks[1])
	blocks = nil
	for _, b := range recipeOfPlugins(t) {
		if strings.HasPrefix(b, "learn_condition") {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) != 1 {
		t.Fatalf("docs/plugins.md has %d lines for learn_condition", len(blocks))
	}
	at := filepath.Join(m.root, "etc/rspamd/local.d/statistic.conf")
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	m.write("/etc/rspamd/local.d/statistic.conf", strings.Replace(string(text), condition, blocks[0], 1))

	m.must("rspamadm configtest 2>&1", "syntax OK")
	m.must("rspamadm configdump bulkhead 2>&1", "http://172.22.1.1:8420")
	m.must("rspamadm configdump classifier 2>&1", "rspamd_plugins.bulkhead.learn")
	m.must("rspamadm configdump group 2>&1", "weight = 10")
}

// recipeOfPlugins returns the indented lines on rspamd in docs/plugins.md, line by line.
func recipeOfPlugins(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, code)
		}
	}
	return lines
}

// steps does a recipe of setup and restarts, with this test's program and machine, and leaves
// out what needs systemd.
func (m *machine) steps(chapter string) {
	m.t.Helper()
	blocks := recipe(m.t, chapter)
	if len(blocks) != 1 {
		m.t.Fatalf("the recipe for %s is %q", chapter, blocks)
	}
	for line := range strings.Lines(blocks[0]) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " && systemctl ")
		if args, ok := strings.CutPrefix(line, "bulkhead setup "); ok {
			m.setup(append(strings.Fields(args), "--yes")...)
		} else if !strings.HasPrefix(line, "systemctl ") {
			m.must(line+" 2>&1", "")
		}
	}
}

// TestMailInABoxRecipe does what docs/setup.md says to do to Mail-in-a-Box, to a SpamAssassin with
// what Mail-in-a-Box adds to local.cf that matters. Its Dovecot passes mail that a user moves into
// Spam to a program that calls sa-learn: that is a vote, and the mail is Spam then by the header
// that its delivery looks for. Mail-in-a-Box itself is not run.
func TestMailInABoxRecipe(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	const local = "report_safe 0\nadd_header all Report _REPORT_\nadd_header all Score _SCORE_\nuse_razor2 0\n" +
		"use_pyzor 0\ndns_available no\nbayes_path /tmp/bayes/bayes\nbayes_file_mode 0666\n"
	m.write("/etc/spamassassin/local.cf", local)
	m.steps("Mail-in-a-Box")
	learn := "mkdir -p /tmp/bayes; f=$(mktemp); cat >$f; sa-learn --cf='bulkhead_timeout 60' %s $f >/tmp/learnt 2>&1; " +
		"code=$?; cat /tmp/learnt; rm $f; exit $code"
	letter := "Received: from mx.sender.example (mx.sender.example [192.0.2.7])\n\tby mx.example.com (Postfix) with " +
		"ESMTP id 1; Mon, 1 Jan 2024 00:00:00 +0000\n" + mail("lamps")
	flagged := func() bool {
		t.Helper()
		out, code := m.run(letter, "mkdir -p /tmp/bayes; spamassassin --cf='bulkhead_timeout 60'")
		if code != 0 || !strings.Contains(out, "X-Spam-Score:") {
			t.Fatalf("exit %d\n%s", code, out)
		}
		return strings.Contains(out, "X-Spam-Status: Yes")
	}
	if flagged() {
		t.Error("mail that nobody knows is spam")
	}
	for _, step := range []struct{ arg, class string }{{"--spam", "spam"}, {"--ham", "unknown"}} {
		out, code := m.run(letter, strings.Replace(learn, "%s", step.arg, 1))
		if got := m.class(letter); code != 0 || (got == "spam") != (step.class == "spam") {
			t.Fatalf("after sa-learn %s: %s, exit %d\n%s", step.arg, got, code, out)
		}
		if got := flagged(); got != (step.class == "spam") {
			t.Errorf("after sa-learn %s it is spam: %v", step.arg, got)
		}
	}
	if text, err := os.ReadFile(m.root + "/etc/spamassassin/local.cf"); err != nil || string(text) != local {
		t.Errorf("local.cf is %q, %v: its upgrades write it", text, err)
	}
}

// TestIRedMailRecipe does what docs/setup.md says to do to iRedMail, to Debian's Amavis and
// Dovecot with what iRedMail sets of them that matters: Amavis's limits, a dovecot.conf of its
// own that reads conf.d at its end, three mailboxes for junk, a global script, its policy
// server. iRedMail itself is not run; Amavis with these limits is, by TestAmavis.
func TestIRedMailRecipe(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	m.copy("/etc/amavis", "/etc/amavis")
	m.write("/etc/amavis/conf.d/50-user",
		"use strict;\n@bypass_spam_checks_maps = (0);\n$sa_tag_level_deflt = -999;\n$sa_tag2_level_deflt = 6.2;\n"+
			"$sa_kill_level_deflt = 6.9;\n$sa_local_tests_only = 0;\n1;\n")
	m.write("/etc/dovecot/dovecot.conf", `protocols = lmtp imap
mail_plugins = quota
protocol lmtp {
  mail_plugins = $mail_plugins sieve
}
protocol imap {
  mail_plugins = $mail_plugins imap_quota
}
plugin {
  sieve = ~/sieve/dovecot.sieve
  sieve_before = /etc/dovecot/before.sieve
}
namespace {
  inbox = yes
  type = private
  separator = /
  mailbox Spam {
    auto = no
    special_use = \Junk
  }
  mailbox Junk {
    auto = subscribe
    special_use = \Junk
  }
  mailbox "Junk E-mail" {
    auto = no
    special_use = \Junk
  }
}
!include_try /etc/dovecot/conf.d/*.conf
`)
	m.must("find "+m.root+"/etc/dovecot/conf.d -type f ! -name 99-test.conf -delete; printf '' >"+m.root+
		"/etc/dovecot/before.sieve", "")
	m.write("/etc/postfix/main.cf",
		"compatibility_level = 3.6\nmyhostname = mx.example.com\nsmtpd_recipient_restrictions = check_policy_service "+
			"inet:127.0.0.1:7777, permit_mynetworks, reject_unauth_destination\n")
	m.steps("iRedMail")
	rules, err := os.ReadFile(m.root + "/etc/spamassassin/bulkhead_local.cf")
	if err != nil || !strings.Contains(string(rules), "score BULKHEAD_SPAM 6.7\n") {
		t.Errorf("Amavis calls mail spam from 6.2 on, but the rules are %s, %v", rules, err)
	}
	m.must("spamassassin --lint 2>&1", "")
	m.must("doveconf -n 2>&1", "imapsieve_mailbox1_name = Junk")
	out := m.must("doveconf -n 2>&1", "sieve_before = /etc/dovecot/before.sieve")
	for _, want := range []string{"imap_quota imap_sieve", "quota sieve", "/etc/dovecot/bulkhead"} {
		if !strings.Contains(out, want) {
			t.Errorf("Dovecot lacks %q:\n%s", want, out)
		}
	}
	m.must("sievec /etc/dovecot/bulkhead 2>&1", "")
	if out := m.must("postconf -n 2>&1", "inet:127.0.0.1:7777"); strings.Contains(out, "8891") ||
		strings.Contains(out, "10040") {
		t.Errorf("Postfix was changed:\n%s", out)
	}
}
