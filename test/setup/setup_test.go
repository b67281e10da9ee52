//go:build interop

package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// A machine is a root with the configuration that Debian's packages come with, and a
// node that programs of it reach.
type machine struct {
	t         *testing.T
	root, url string
	// folders that setup writes to. Those of this root are hidden by the machine's while its commands run.
	folders []string
}

// newMachine makes a machine with every program that setup knows.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := newMailboxes(t)
	m.folders = append(m.folders, "etc/rspamd", "etc/spamassassin", "etc/exim4", "etc/postfix")
	for _, from := range []string{"/etc/rspamd", "/etc/spamassassin", "/etc/exim4"} {
		m.copy(from, from)
	}
	m.write("/etc/exim4/aliases", "bob: :blackhole:\n")
	m.write("/etc/exim4/update-exim4.conf.conf",
		"dc_eximconfig_configtype='internet'\ndc_other_hostnames='example.org'\ndc_local_interfaces='127.0.0.1'\n"+
			"dc_use_split_config='false'\ndc_localdelivery='mail_spool'\n")
	m.write("/etc/postfix/main.cf", "compatibility_level = 3.6\nmyhostname = mx.example.com\n")
	m.copy("/usr/share/postfix/master.cf.dist", "/etc/postfix/master.cf")
	return m
}

// newMailboxes makes a machine that has Dovecot and nothing else.
func newMailboxes(t *testing.T) *machine {
	t.Helper()
	nodetest.Program(t, "unshare")
	dir, err := os.MkdirTemp("", "bulkhead-setup-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, root: dir, folders: []string{"etc/dovecot"}}
	m.copy("/etc/dovecot", "/etc/dovecot")
	m.copy("/usr/share/dovecot/conf.d", "/etc/dovecot/conf.d")
	m.copy("/usr/share/dovecot/dovecot.conf", "/etc/dovecot/dovecot.conf")
	m.write("/etc/dovecot/conf.d/10-ssl.conf", "ssl = no\n")
	where := "mail_location = maildir:~/Maildir\n"
	if dovecot4(t) {
		where = "mail_home = " + dir + "/home/%{user}\nmail_driver = maildir\nmail_path = ~/Maildir\n" +
			"mail_inbox_path = ~/Maildir\n"
	}
	m.write("/etc/dovecot/conf.d/99-test.conf",
		"mail_uid = daemon\nmail_gid = daemon\nfirst_valid_uid = 1\nlog_path = /dev/stderr\n"+where)
	m.write("/usr/lib/dovecot/modules/lib95_imap_sieve_plugin.so", "")
	for name, lines := range map[string]string{
		"/etc/passwd": "dovecot:x:102:102::/nonexistent:/usr/sbin/nologin\n" +
			"dovenull:x:103:103::/nonexistent:/usr/sbin/nologin\n",
		"/etc/group": "dovecot:x:102:\ndovenull:x:103:\n",
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m.write(name, string(text)+lines)
	}

	address := nodetest.Address(t)
	m.write("/etc/bulkhead/bulkhead.toml", fmt.Sprintf("[listen]\nhttp = %q\n", address))
	m.url = "http://" + address
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", filepath.Join(dir, "etc/bulkhead/bulkhead.toml"),
		"--data", filepath.Join(dir, "data"))
	nodetest.AwaitTCP(t, address)
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	at := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// copy copies a file or folder of this root to the machine's.
func (m *machine) copy(from, to string) {
	m.t.Helper()
	err := filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(at)
		if err == nil {
			m.write(to+strings.TrimPrefix(at, from), string(text))
		}
		return err
	})
	if err != nil {
		nodetest.Unavailable(m.t, "no %s: %v", from, err)
	}
}

// dovecot4 reports whether Dovecot is 2.4, whose configuration has another form than that of 2.3.
func dovecot4(t *testing.T) bool {
	t.Helper()
	return strings.HasPrefix(nodetest.Output(t, "", "dovecot", "--version"), "2.4.")
}

// run runs a script of the machine, with its folders in the place of this root's.
func (m *machine) run(input, script string) (out string, code int) {
	m.t.Helper()
	hide := "set -e\n"
	for _, f := range append([]string{"etc/passwd", "etc/group"}, m.folders...) {
		hide += fmt.Sprintf("mount --bind %s/%s /%s\n", m.root, f, f)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, nodetest.Program(m.t, "unshare"), "--mount", "sh", "-c", hide+"set +e\n"+script)
	cmd.Stdin = strings.NewReader(input)
	got, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		m.t.Fatal(err)
	}
	return string(got), cmd.ProcessState.ExitCode()
}

func (m *machine) must(script, want string) string {
	m.t.Helper()
	out, code := m.run("", script)
	if code != 0 || !strings.Contains(out, want) {
		m.t.Errorf("%s: exit %d, want %q in\n%s", script, code, want, out)
	}
	return out
}

func (m *machine) setup(args ...string) string {
	m.t.Helper()
	return nodetest.Output(m.t, "", nodetest.Binary(m.t), append([]string{"setup", "--root", m.root}, args...)...)
}

// class asks the node about a mail.
func (m *machine) class(mail string) string {
	m.t.Helper()
	resp, err := http.Post(m.url+"/v1/check", "message/rfc822", strings.NewReader(mail))
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct{ Class string }
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		m.t.Fatal(err)
	}
	return v.Class
}

func (m *machine) vote(mail, vote string) {
	m.t.Helper()
	resp, err := http.Post(m.url+"/v1/report?vote="+url.QueryEscape(vote), "message/rfc822", strings.NewReader(mail))
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		m.t.Fatalf("%s %s", resp.Status, text)
	}
}

// deliver reports a mail as a mail server does that has delivered it.
func (m *machine) deliver(mail, from, to string) {
	m.t.Helper()
	o := client.MessageOptions{Source: bulkhead.Source{Client: netip.MustParseAddr(from)}, Vote: bulkhead.Sighting,
		Recipients: []string{to}}
	if _, err := admin.New(m.url, "").ReportMessage(m.t.Context(), []byte(mail), o); err != nil {
		m.t.Fatal(err)
	}
}

// votesOn returns the number of votes for spam on a network.
func (m *machine) votesOn(network string) uint32 {
	m.t.Helper()
	v, err := admin.New(m.url, "").Check(m.t.Context(),
		bulkhead.Query{Signatures: []bulkhead.Signature{bulkhead.NamedSignature(bulkhead.Network, network)}})
	if err != nil {
		m.t.Fatal(err)
	}
	return v.Findings[0].Spam
}

func mail(what string) string {
	text := ""
	for i, w := range strings.Fields(
		"anchor basket copper desert engine feather guitar hollow insect jungle kitten ladder marble needle oyster pepper " +
			"quiver ribbon saddle tunnel") {
		text += fmt.Sprintf("%s%s is %s%s of %d%s,", what, w, w, what, i, what)
		text += map[bool]string{true: "\n", false: " "}[i%4 == 3]
	}
	return "From: " + what + "@sender.example\nTo: bob@example.org\nSubject: " + what +
		"\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nMessage-ID: <" + what + "@sender.example>\n\n" + text
}

// TestAccepted: each program takes what setup writes for it, and says so itself.
func TestAccepted(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	m.write("/etc/rspamd/local.d/actions.conf", "add_header = 9;\n")
	m.write("/etc/spamassassin/local.cf", "required_score 8\n")
	all := "--for=rspamd,spamassassin,postfix,policy,exim,dovecot"
	m.setup("--yes", all)
	if out := m.setup("--print", all); !strings.Contains(out, "Nothing to change.") {
		t.Errorf("a second run:\n%s", out)
	}
	m.must("postconf -n 2>&1", "smtpd_milters = { inet:127.0.0.1:8891")
	m.must("postconf -n 2>&1", "check_policy_service { inet:127.0.0.1:10040, timeout=10s, default_action=DUNNO }")
	if out := m.must("postconf 2>&1 >/dev/null", ""); strings.Contains(out, "warning") {
		t.Errorf("Postfix warns:\n%s", out)
	}
	m.must("rspamadm configtest 2>&1", "syntax OK")
	m.must("rspamadm configdump bulkhead 2>&1", m.url)
	m.must("rspamadm configdump classifier 2>&1", "rspamd_plugins.bulkhead.learn")
	m.must("rspamadm configdump group 2>&1", "weight = 9.5")
	m.must("spamassassin --lint 2>&1", "")
	out, _ := m.run(mail("lint"), "spamassassin -t -D bulkhead,config 2>&1")
	if !strings.Contains(out, "bulkhead_local.cf") {
		t.Errorf("SpamAssassin does not read the rules:\n%s", out)
	}
	m.must("doveconf -n 2>&1", "sieve_pipe_bin_dir = /etc/dovecot/bulkhead/pipe")
	m.must("sievec /etc/dovecot/bulkhead 2>&1", "")
	m.must("update-exim4.conf -o /tmp/exim.conf 2>&1 && exim4 -C /tmp/exim.conf -bV 2>&1",
		"Configuration file is /tmp/exim.conf")
	m.must(nodetest.Binary(t)+" config check "+m.root+"/etc/bulkhead/bulkhead.toml", "no mistakes")

	if out := nodetest.Output(t, "", nodetest.Binary(t), "setup", "--root", m.root, "--undo"); !strings.Contains(out,
		"removed: /etc/rspamd/rspamd.conf.local") {
		t.Errorf("undo:\n%s", out)
	}
	if out := m.must("postconf -n 2>&1", "myhostname"); strings.Contains(out, "smtpd_") {
		t.Errorf("Postfix still has\n%s", out)
	}
	if out := m.must("rspamadm configdump bulkhead 2>&1; true", ""); strings.Contains(out, m.url) {
		t.Errorf("rspamd still has the plugin:\n%s", out)
	}
}

// TestDovecot: mail that a user moves into the junk folder is spam for the node, and mail moved out
// of it is not, by that user's votes, with the source of its delivery. Mail that arrives marked is filed.
func TestDovecot(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMailboxes(t)
	printed := m.setup("--yes", "--for=dovecot")
	if dovecot4(t) { // setup names the files of the packages
		const ours = "/etc/dovecot/conf.d/95-bulkhead.conf"
		if !strings.Contains(printed, "dovecot-2.4.conf to "+ours) {
			t.Errorf("setup prints\n%s", printed)
		}
		m.copy("../../internal/plugins/dovecot/dovecot-2.4.conf", ours)
		for _, name := range []string{"arrived.sieve", "spam.sieve", "ham.sieve"} {
			m.copy("../../internal/plugins/dovecot/"+name, "/etc/dovecot/bulkhead/"+name)
		}
		m.copy("../../internal/plugins/dovecot/bulkhead-vote", "/etc/dovecot/bulkhead/pipe/bulkhead-vote")
		// Neither the scripts nor the node of this test are where packages have them.
		m.must("cd /etc/dovecot/bulkhead/pipe && chmod 755 bulkhead-vote && "+
			"sed -i 's|/usr/bin/bulkhead report|& --server "+m.url+"|' bulkhead-vote && "+
			"sed -i 's|/usr/share/bulkhead/dovecot/|/etc/dovecot/bulkhead/|; s|/usr/share/bulkhead/dovecot|'$PWD'|' "+ours, "")
	}
	// The program of this test is not where packages put it.
	m.must("sed -i 's|/usr/bin/bulkhead|"+nodetest.Binary(t)+"|' /etc/dovecot/bulkhead/pipe/bulkhead-vote", "")
	home := filepath.Join(m.root, "home/ann")
	if err := os.MkdirAll(home+"/Maildir", 0o777); err != nil {
		t.Fatal(err)
	}
	// The user who reads mail here is daemon.
	m.must("chown -R daemon:daemon "+home, "")
	if err := os.Chmod(home, 0o777); err != nil { // whatever the umask
		t.Fatal(err)
	}
	letter := mail("lamps")
	if got := m.class(letter); got != "unknown" {
		t.Fatalf("at first: %s", got)
	}
	m.deliver(letter, "192.0.2.7", "ann@example.org")
	// The IMAP server by itself, of a user who is logged in.
	imap := "sievec /etc/dovecot/bulkhead\nUSER=ann HOME=" + home + " /usr/lib/dovecot/imap 2>&1"
	crlf := strings.ReplaceAll(letter, "\n", "\r\n")
	out, _ := m.run(fmt.Sprintf(
		"a CREATE Junk\r\nb CREATE Trash\r\nc APPEND INBOX {%d+}\r\n%s\r\nd SELECT INBOX\r\ne MOVE 1 Junk\r\nf LOGOUT\r\n",
		len(crlf), crlf), imap)
	if got := m.class(letter); got != "spam" {
		t.Fatalf("moved into Junk: %s\n%s", got, out)
	}
	if got := m.votesOn("192.0.2.0/24"); got != 1 {
		t.Errorf("moved into Junk: %d votes on the network that delivered the mail, want 1", got)
	}
	out, _ = m.run("d SELECT Junk\r\ne MOVE 1 INBOX\r\nf LOGOUT\r\n", imap)
	if got := m.class(letter); got == "spam" {
		t.Errorf("moved out of Junk: %s\n%s", got, out)
	}
	m.vote(letter, "spam")
	out, _ = m.run("d SELECT INBOX\r\ne MOVE 1 Junk\r\nf SELECT Junk\r\ng MOVE 1 Trash\r\nh LOGOUT\r\n", imap)
	if got := m.class(letter); got != "spam" {
		t.Errorf("thrown away from Junk: %s\n%s", got, out)
	}

	for header, junk := range map[string]bool{"X-Bulkhead: spam": true, "X-Spam: Yes": true, "X-Spam-Flag: YES": true,
		"X-Spam: No": false, "X-Bulkhead: suspected": false,
		"X-Bulkhead: suspected\nX-Bulkhead-Results: mx; bulkhead=suspected\n\terror=0.0e+00 unanswered=yes": true,
		"X-Bulkhead: bulk\nX-Bulkhead-Results: mx; unanswered=yes":                                          false} {
		m.write("/arrived.eml", header+"\n"+mail("boats"))
		out := m.must("sieve-test /etc/dovecot/bulkhead/arrived.sieve "+m.root+"/arrived.eml 2>&1", "store message in folder")
		if strings.Contains(out, "store message in folder: Junk") != junk {
			t.Errorf("%s is filed so:\n%s", header, out)
		}
	}
}

// TestExim: Exim writes what the node says into the header, and takes mail when it is
// away.
func TestExim(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	m.setup("--yes", "--for=exim")
	letter := mail("hats")
	m.vote(letter, "spam")
	// Exim, as setup makes it, waits five seconds for the node. A busy machine may need more.
	arrives := func(mail, header string) {
		t.Helper()
		nodetest.Settle(t, nodetest.Patience, header+" is added", func() string {
			// Exim keeps a field that it will leave out with an asterisk.
			out := m.converse(mail)
			if strings.Contains(out, header) && strings.Contains(out, "* X-Bulkhead: forged") {
				return ""
			}
			return out
		})
	}
	arrives(letter, "X-Bulkhead: spam\n")
	arrives(mail("coats"), "X-Bulkhead: unknown\n")
	m.write("/etc/bulkhead/bulkhead.toml", "[listen]\nhttp = \"127.0.0.1:1\"\n")
	m.setup("--yes", "--for=exim")
	if out := m.converse(letter); strings.Contains(strings.Replace(out, "* X-Bulkhead: forged", "", 1), "X-Bulkhead") ||
		!strings.Contains(out, "hatsanchor") {
		t.Errorf("without a node a mail arrives as\n%s", out)
	}
}

// converse sends a mail to Exim by SMTP, from elsewhere, and returns it as it is kept in
// the queue.
func (m *machine) converse(mail string) string {
	m.t.Helper()
	script := `spool=$(mktemp -d /tmp/exim.XXXXXX); chmod 755 $spool; mkdir -p $spool/input $spool/db $spool/msglog; chown -R Debian-exim $spool
update-exim4.conf -o /tmp/exim.conf >/dev/null 2>&1
{ echo "spool_directory = $spool"; echo "log_file_path = $spool/%slog"; echo "queue_only"; echo "host_lookup ="; grep -v '^spool_directory\|^log_file_path\|^host_lookup' /tmp/exim.conf | sed 's|/etc/aliases|/etc/exim4/aliases|'; } >/tmp/exim2.conf
exim4 -C /tmp/exim2.conf -bs -oMa 192.0.2.7 2>&1 | grep '^[45]'
cat $spool/input/*-H $spool/input/*-D $spool/mainlog 2>&1
rm -rf $spool`
	input := "EHLO mx.sender.example\r\nMAIL FROM:<x@sender.example>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\n" +
		"X-Bulkhead: forged\r\n" + strings.ReplaceAll(mail, "\n", "\r\n") + "\r\n.\r\nQUIT\r\n"
	out, _ := m.run(input, script)
	return out
}
