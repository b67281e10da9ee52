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

// emptyHome runs a program with a home in which there is nothing, and returns its exit code and output.
func emptyHome(t *testing.T, input, program string, args ...string) (code int, out string) {
	t.Helper()
	nodetest.Program(t, program)
	return nodetest.Command(t, input, "env", append([]string{"HOME=" + t.TempDir(), program}, args...)...)
}

// TestPyzorFirstReport: the first report and the first check of a client with an empty home work, each time.
func TestPyzorFirstReport(t *testing.T) {
	n := startNode(t, plainCounts)
	servers := filepath.Join(t.TempDir(), "servers")
	if err := os.WriteFile(servers, []byte(n.pyzor+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		line := fmt.Sprintf("the plant%c grows in the garden behind the house\n", 'a'+i)
		mail := "From: ida@garden.example\nSubject: seed\n\n" + strings.Repeat(line, 4)
		if code, out := emptyHome(t, mail, "pyzor", pyzorPatience, "--servers-file", servers, "report"); code != 0 {
			t.Errorf("the first report ends with %d: %s", code, out)
		}
		if code, out := emptyHome(t, mail, "pyzor", pyzorPatience, "--servers-file", servers, "check"); code != 0 {
			t.Errorf("a check of reported mail ends with %d: %s", code, out)
		}
	}
}

// TestSpamAssassinFirstReport: SpamAssassin reports mail to Pyzor and finds it, with an empty home.
func TestSpamAssassinFirstReport(t *testing.T) {
	n := startNode(t, plainCounts)
	pyzorHome, rules := t.TempDir(), t.TempDir()
	config := basics + fmt.Sprintf("loadplugin Mail::SpamAssassin::Plugin::Pyzor\nuse_pyzor 1\npyzor_timeout 100\n"+
		"pyzor_options "+pyzorPatience+" --homedir %s\npyzor_count_min 1\nfull PYZOR_CHECK eval:check_pyzor()\n"+
		"score PYZOR_CHECK 1\n", pyzorHome)
	for name, text := range map[string]string{filepath.Join(pyzorHome, "servers"): n.pyzor + "\n",
		filepath.Join(rules, "local.cf"): config} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(mode string) string {
		t.Helper()
		code, out := emptyHome(t, mails["multipart"], "spamassassin", "--configpath="+rules, "--siteconfigpath="+rules, mode)
		if code != 0 {
			t.Errorf("spamassassin %s: exit %d\n%s", mode, code, out)
		}
		return out
	}
	if hits(run("-t"), "PYZOR_CHECK") {
		t.Error("unknown mail hits the rule")
	}
	run("-r")
	if out := run("-t"); !hits(out, "PYZOR_CHECK") {
		t.Errorf("reported mail does not hit the rule:\n%s", out)
	}
}
