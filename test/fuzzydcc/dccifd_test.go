//go:build interop

package fuzzydcc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

const ferryText = "the ferry to the island leaves at nine on every day of the week but sunday and returns at six in " +
	"the evening tickets are sold on board\n"

func startDccifd(t *testing.T, extra string) string {
	t.Helper()
	address := nodetest.Address(t)
	startNode(t, fmt.Sprintf("[listen]\ndccifd = %q\n[dccifd]\nverify = false\n%s", address, extra))
	nodetest.AwaitTCP(t, address)
	return address
}

// TestRspamdDCC: rspamd's dcc module takes our answers for dccifd's.
func TestRspamdDCC(t *testing.T) {
	address := startDccifd(t, "thresholds = [\"CMN,many\"]\n")
	r := startRspamd(t, "", fmt.Sprintf(`
modules { path = "/usr/share/rspamd/plugins/dcc.lua"; }
dcc { enabled = true; servers = "%s"; timeout = 50s; body_max = 3; fuz1_max = 3; }`, address))
	headers := []string{"From", "ida@garden.example", "Rcpt", "reader@farm.example", "IP", "192.0.2.7", "Helo",
		"mail.garden.example"}
	message := mail("ferry", "7", ferryText)
	has := func(want string) {
		t.Helper()
		symbols := r.scan(message, headers...)
		for _, name := range []string{"DCC_BULK", "DCC_REJECT", "DCC_FAIL"} {
			if _, ok := symbols[name]; ok != (name == want) {
				t.Errorf("%s present: %v, want only %q; symbols %v", name, ok, want, symbols)
			}
		}
	}
	has("")
	has("")
	has("DCC_BULK") // the third time reaches body_max and fuz1_max
	reply := dccifdTalk(t, address, "header spam", message)
	if !strings.HasPrefix(reply, "R\nR\n") || !strings.Contains(reply, "Body=many") {
		t.Errorf("report of spam: %q", reply)
	}
	has("DCC_REJECT")
}

// spamassassinDCC returns SpamAssassin with no plugin but DCC, which asks and reports at
// dccifd. It takes a message, and returns the exit code and what was printed.
func spamassassinDCC(t *testing.T, address string) func(message string, args ...string) (int, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"init.pre": "loadplugin Mail::SpamAssassin::Plugin::Check\nloadplugin Mail::SpamAssassin::Plugin::DCC\n",
		"local.cf": "dns_available no\nskip_rbl_checks 1\nuse_bayes 0\nuse_auto_whitelist 0\nuse_dcc 1\nuse_pyzor 0\n" +
			"use_razor2 0\n" +
			"dcc_dccifd_path " + address + "\ndcc_timeout 100\ninternal_networks 127.0.0.0/8\n" +
			"full DCC_CHECK eval:check_dcc()\ntflags DCC_CHECK net autolearn_body\nscore DCC_CHECK 5\n" +
			"add_header all DCC _DCCB_: _DCCR_\nadd_header all Tests _TESTS_\nbayes_learn_during_report 0\n" +
			"dcc_body_max 3\ndcc_fuz1_max 3\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nodetest.Program(t, "spamassassin")
	env := nodetest.Program(t, "env")
	return func(message string, args ...string) (int, string) {
		t.Helper()
		return nodetest.Command(t, message, env,
			append([]string{"HOME=" + dir, "spamassassin", "-C", dir, "--siteconfigpath", dir, "-p", filepath.Join(dir, "user"),
				"-x"}, args...)...)
	}
}

// TestSpamAssassinDCC: SpamAssassin's DCC plugin asks and reports through our
// dccifd.
func TestSpamAssassinDCC(t *testing.T) {
	run := spamassassinDCC(t, startDccifd(t, ""))
	message := mail("ferry", "8", ferryText)
	sa := func(args ...string) string {
		t.Helper()
		code, out := run(message, args...)
		if code != 0 {
			t.Fatalf("spamassassin %v: exit %d\n%s", args, code, out)
		}
		return out
	}
	if out := sa(); strings.Contains(out, "DCC_CHECK") {
		t.Errorf("the first mail is bulk:\n%s", out)
	}
	sa()
	out := sa()
	if !strings.Contains(out, "X-Spam-Tests: DCC_CHECK") {
		t.Errorf("the third mail is not bulk:\n%s", out)
	}
	if !regexp.MustCompile(`X-Spam-DCC: bulkhead: \S+ 101; Body=3 Fuz1=3`).MatchString(out) {
		t.Errorf("no X-Spam-DCC header as expected:\n%s", out)
	}
	sa("-r") // report
	if out := sa(); !regexp.MustCompile(
		`X-Spam-DCC: bulkhead: \S+ 101; bulk Body=many Fuz1=many|X-Spam-DCC: bulkhead: \S+ 101; Body=many Fuz1=many`).
		MatchString(out) {
		t.Errorf("after a report the mail is not many:\n%s", out)
	}
}
