//go:build interop

package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// fiveMinutes is how long it may take from nothing to the first spam in Junk.
const fiveMinutes = 5 * time.Minute

// TestFirstSpam goes from the configuration that Debian's packages come with to the first
// spam in Junk: setup, one user who moves a mail there by IMAP, and a copy of it to
// another user, which rspamd and SpamAssassin call spam by their own limits and Sieve
// files.
func TestFirstSpam(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	// The list of top-level domains takes rspamd a minute to compile on a busy machine.
	m.write("/etc/rspamd/tld", "com\norg\nnet\nexample\n")
	m.write("/etc/rspamd/local.d/options.inc", "url_tld = \"/etc/rspamd/tld\";\n")
	begin := time.Now()
	m.setup("--yes", "--for=rspamd,spamassassin,dovecot")
	m.must("sed -i 's|/usr/bin/bulkhead|"+nodetest.Binary(t)+"|' /etc/dovecot/bulkhead/pipe/bulkhead-vote", "")
	home := filepath.Join(m.root, "home/ann")
	if err := os.MkdirAll(home+"/Maildir", 0o755); err != nil {
		t.Fatal(err)
	}
	m.must("chown -R daemon:daemon "+home, "")
	letter := strings.ReplaceAll(mail("lanterns"), "\n", "\r\n")
	out, _ := m.run(fmt.Sprintf(
		"a CREATE Junk\r\nb APPEND INBOX {%d+}\r\n%s\r\nc SELECT INBOX\r\nd MOVE 1 Junk\r\ne LOGOUT\r\n",
		len(letter), letter),
		"sievec /etc/dovecot/bulkhead\nUSER=ann HOME="+home+" /usr/lib/dovecot/imap 2>&1")

	again := strings.Replace(mail("lanterns"), "To: bob", "X-Other: yes\nTo: eve", 1)
	if got := m.class(again); got != "spam" {
		t.Fatalf("after a move into Junk a copy is %s\n%s", got, out)
	}
	got, _ := m.run(again, `cd /tmp; d=$(mktemp -d /tmp/rspamd.XXXXXX)
rspamd -i -f -c /etc/rspamd/rspamd.conf --var=DBDIR=$d --var=RUNDIR=$d --var=LOGDIR=$d >/dev/null 2>&1 &
p=$!
cat >$d/mail
for i in $(seq 1 200); do rspamc -h 127.0.0.1:11334 stat </dev/null 2>&1 | grep -q 'Messages scanned' && break; sleep 1; done
for i in $(seq 1 10); do # as it is installed, it waits three seconds for the node
	rspamc -t 100 -h 127.0.0.1:11333 -i 192.0.2.7 $d/mail >$d/out 2>&1
	grep -q BULKHEAD_FAIL $d/out || break
done
cat $d/out
kill $p; wait $p 2>/dev/null; rm -rf $d`)
	if !strings.Contains(got, "Action: add header") || !strings.Contains(got, "Symbol: BULKHEAD_SPAM (8.00)") {
		t.Errorf("rspamd, as it is installed, says of the copy\n%s", got)
	}
	got, _ = m.run(again, "spamassassin --cf='dns_available no' --cf='use_bayes 0' --cf='bulkhead_timeout 60' "+
		"--prefspath=/dev/null 2>&1")
	if !strings.Contains(got, "X-Spam-Flag: YES") || !strings.Contains(got, "BULKHEAD_SPAM") {
		t.Errorf("SpamAssassin, as it is installed, says of the copy\n%s", got)
	}
	m.write("/arrived.eml", got)
	m.must("sieve-test /etc/dovecot/bulkhead/arrived.sieve "+m.root+"/arrived.eml 2>&1", "store message in folder: Junk")
	if took := time.Since(begin); took > fiveMinutes {
		t.Errorf("the first spam was in Junk after %v, want %v at most", took, fiveMinutes)
	}
}
