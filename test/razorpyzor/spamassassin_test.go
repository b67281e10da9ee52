//go:build interop

package razorpyzor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// basics are what SpamAssassin needs to run at all.
const basics = `loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
util_rb_tld com org net example
bayes_auto_learn 0
skip_rbl_checks 1
add_header all Rules _TESTS(,)_
`

// spamassassin runs "spamassassin -t", or with another mode, with nothing but the
// given plugin and returns its output.
func spamassassin(t *testing.T, config, mail string, mode ...string) string {
	t.Helper()
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules")
	if err := os.Mkdir(rules, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(rules, "local.cf"), []byte(basics+"bayes_path "+dir+"/bayes\n"+config),
		0o600); err != nil {
		t.Fatal(err)
	}
	if len(mode) == 0 {
		mode = []string{"-t"}
	}
	args := append([]string{
		"--configpath=" + rules, "--siteconfigpath=" + rules, "--prefspath=" + filepath.Join(rules, "local.cf"),
		"--nocreate-prefs", "-x",
	}, mode...)
	code, out := nodetest.Command(t, mail, "spamassassin", args...)
	if code != 0 {
		t.Errorf("spamassassin %v: exit %d\n%s", mode, code, out)
	}
	return out
}

// hits reports whether the header that SpamAssassin adds names a rule.
func hits(mail, rule string) bool {
	_, after, _ := strings.Cut(mail, "X-Spam-Rules:")
	rules, _, _ := strings.Cut(after, "\n")
	return strings.Contains(rules, rule)
}

func TestSpamAssassinRazor(t *testing.T) {
	n := startNode(t, "")
	h := &razorHome{t: t, dir: t.TempDir()}
	conf := fmt.Sprintf("razorhome = %s\nrazordiscovery = %s\nlogfile = razor-agent.log\n", h.dir, n.razor)
	file := filepath.Join(h.dir, "razor-agent.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(0, "razor-admin", "-create")
	h.run(0, "razor-admin", "-register", "-user=ana", "-pass=s3cret")
	config := fmt.Sprintf(`loadplugin Mail::SpamAssassin::Plugin::Razor2
use_razor2 1
razor_config %s
razor_timeout 100
full RAZOR2_CHECK eval:check_razor2()
score RAZOR2_CHECK 1
full RAZOR2_CF_RANGE_51_100 eval:check_razor2_range('','51','100')
score RAZOR2_CF_RANGE_51_100 1
`, file)
	for _, kind := range []string{"multipart", "base64"} {
		mail := mails[kind]
		if out := spamassassin(t, config, mail); hits(out, "RAZOR2") {
			t.Errorf("%s: unknown mail hits a rule:\n%s", kind, out)
		}
		spamassassin(t, config, mail, "-r") // reports
		out := spamassassin(t, config, mail)
		if !hits(out, "RAZOR2_CHECK") || !hits(out, "RAZOR2_CF_RANGE_51_100") {
			t.Errorf("%s: reported mail hits not both rules:\n%s", kind, out)
		}
		spamassassin(t, config, mail, "-k") // revokes
		if out := spamassassin(t, config, mail); hits(out, "RAZOR2") {
			t.Errorf("%s: revoked mail hits a rule:\n%s", kind, out)
		}
	}
}

// TestSpamAssassinPyzor: one report is enough for SpamAssassin as it comes, with its
// pyzor_count_min of 5: what is listed shows that.
func TestSpamAssassinPyzor(t *testing.T) {
	n := startNode(t, "")
	h := newPyzor(t, n)
	nodetest.Program(t, "pyzor")
	common := "loadplugin Mail::SpamAssassin::Plugin::Pyzor\nuse_pyzor 1\npyzor_timeout 100\n" +
		"full PYZOR_CHECK eval:check_pyzor()\nscore PYZOR_CHECK 1\n"
	for name, config := range map[string]string{
		"command": common + "pyzor_options " + pyzorPatience + " --homedir " + h.dir + "\n",
		"Perl":    common + "pyzor_fork 0\npyzor_perl 1\npyzor_server_file " + filepath.Join(h.dir, "servers") + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			mail := strings.ReplaceAll(mails["plain"], "lamp", "lamp"+name)
			if out := spamassassin(t, config, mail); hits(out, "PYZOR_CHECK") {
				t.Errorf("unknown mail hits:\n%s", out)
			}
			h := &pyzorHome{t: t, dir: h.dir, server: h.server}
			if name == "Perl" {
				// A report by the Perl client of SpamAssassin 4.0.1 names the
				// digest of nothing, which must stay unknown.
				spamassassin(t, config, mail, "-r")
				h.counts("Subject: x\n\n", 0, 0)
				h.run(0, mail, "report")
			} else {
				spamassassin(t, config, mail, "-r")
			}
			if out := spamassassin(t, config, mail); !hits(out, "PYZOR_CHECK") {
				t.Errorf("reported mail does not hit:\n%s", out)
			}
			h.counts(mail, 5, 0)
		})
	}
}
