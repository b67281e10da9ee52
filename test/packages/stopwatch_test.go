//go:build interop

package packages

import (
	"bufio"
	"fmt"
	"net"
	"net/textproto"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// fiveMinutes is how long it may take from a machine without the package to the first changed
// copy in Junk.
const fiveMinutes = 5 * time.Minute

// mailServer makes the machine a mail server, as its administrator had it before: Postfix
// takes mail for example.org and gives it to Dovecot, whose users are whoever logs in. Where
// Debian's scripts would have made users and files, it makes them. rspamd's list of top-level
// domains is short because it takes a minute to compile on a busy machine.
const mailServer = `
rm -rf /etc/exim4 /etc/amavis
for user in postfix dovecot dovenull _rspamd debian-spamd vmail; do
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin $user
done
groupadd --system postdrop
chgrp postdrop /usr/sbin/postdrop /usr/sbin/postqueue
chmod 2755 /usr/sbin/postdrop /usr/sbin/postqueue
install -d -o postfix -g postfix -m 0700 /var/lib/postfix
install -d -o vmail -g vmail /srv/mail
install -d -o _rspamd -g _rspamd /var/lib/rspamd /var/log/rspamd /run/rspamd
install -d -o debian-spamd -g debian-spamd /var/lib/spamassassin

cp /usr/share/postfix/dynamicmaps.cf /usr/share/postfix/makedefs.out /etc/postfix/
cp /usr/share/postfix/master.cf.dist /etc/postfix/master.cf
cat >/etc/postfix/main.cf <<X
compatibility_level = 3.6
myhostname = mx.example.org
mydestination = example.org
mynetworks = 127.0.0.0/8
inet_interfaces = loopback-only
inet_protocols = ipv4
local_recipient_maps =
alias_maps =
mailbox_transport = lmtp:unix:private/dovecot-lmtp
smtp_dns_support_level = disabled
smtpd_peername_lookup = no
smtpd_authorized_xclient_hosts = 127.0.0.1
maillog_file = /var/log/postfix.log
X
postconf -F '*/*/chroot = n'

cp -r /usr/share/dovecot/dovecot.conf /usr/share/dovecot/conf.d /etc/dovecot/
echo 'ssl = no' >/etc/dovecot/conf.d/10-ssl.conf
sed -i 's/^!include auth-system/#&/' /etc/dovecot/conf.d/10-auth.conf
cat >/etc/dovecot/conf.d/99-site.conf <<X
protocols = imap lmtp
listen = 127.0.0.1
log_path = /var/log/dovecot.log
disable_plaintext_auth = no
auth_username_format = %Ln
first_valid_uid = 1
mail_location = maildir:~/Maildir
passdb {
  driver = static
  args = password=secret
}
userdb {
  driver = static
  args = uid=vmail gid=vmail home=/srv/mail/%n allow_all_users=yes
}
service lmtp {
  unix_listener /var/spool/postfix/private/dovecot-lmtp {
    user = postfix
    group = postfix
    mode = 0600
  }
}
X
`

// A filter is what judges the mail of the machine, beside Postfix and Dovecot.
type filter struct {
	name    string
	setUp   string // what setup reports
	service string
	install string   // a script: its configuration before the package is there; DNS is the name server
	run     []string // the program, as its service runs it; none if only the milter judges
	ports   []string
	// junkBy returns what bulkhead alone makes of a mail that was filed as junk, and whether that
	// suffices for Junk.
	junkBy func(m *machine, mail string) (what string, enough bool)
}

var (
	logged   = regexp.MustCompile(`(BULKHEAD_[A-Z]+)\((-?[0-9.]+)\)`)
	reported = regexp.MustCompile(`(?m)^\*? *(-?[0-9]+\.[0-9]+) (BULKHEAD_[A-Z]+)`)
)

// scores adds up the scores of bulkhead's rules in a text, by the places of name and score in a pattern.
func scores(text string, pattern *regexp.Regexp, name, score int) (what string, sum float64) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(m[score], 64)
		if err == nil {
			what, sum = what+m[name]+" "+m[score]+", ", sum+v
		}
	}
	return fmt.Sprintf("%s%.2f in all", what, sum), sum
}

var filters = []filter{
	{
		name: "rspamd", setUp: "rspamd, postfix, dovecot", service: "rspamd",
		ports: []string{"127.0.0.1:11332", "127.0.0.1:11333"},
		install: `rm -rf /etc/spamassassin
printf 'com\norg\nnet\nexample\n' >/etc/rspamd/tld
printf 'url_tld = "/etc/rspamd/tld";\ndns { nameserver = ["DNS"]; }\n' >/etc/rspamd/local.d/options.inc
postconf smtpd_milters=inet:127.0.0.1:11332 milter_default_action=accept`,
		run: []string{"rspamd", "-f", "-u", "_rspamd", "-g", "_rspamd", "-c", "/etc/rspamd/rspamd.conf"},
		junkBy: func(m *machine, _ string) (string, bool) {
			line := m.must("grep 'lanterns.bob@gifts' /var/log/rspamd/rspamd.log | tail -n 1", "BULKHEAD")
			what, sum := scores(line, logged, 1, 2)
			return what, sum >= 6 // add_header of rspamd as it is installed
		},
	},
	{
		name: "spamassassin", setUp: "spamassassin, postfix, dovecot", service: "spamd",
		ports: []string{"127.0.0.1:783"},
		install: `rm -rf /etc/rspamd
printf 'dns_available yes\ndns_server DNS\nuse_bayes 0\n' >>/etc/spamassassin/local.cf
postconf -M 'spamassassin/unix=spamassassin unix - n n - - pipe flags=Rq user=debian-spamd argv=/usr/bin/spamc -d 127.0.0.1 -f -e /usr/sbin/sendmail -oi -f ${sender} ${recipient}'
postconf -P smtp/inet/content_filter=spamassassin`,
		run: []string{"spamd", "-u", "debian-spamd", "--listen=127.0.0.1:783", "--helper-home-dir=/var/lib/spamassassin",
			"--max-children=2"},
		junkBy: func(_ *machine, mail string) (string, bool) {
			what, sum := scores(strings.ReplaceAll(mail, "\r", ""), reported, 2, 1)
			return what, sum >= 5 // required_score of SpamAssassin as it is installed
		},
	},
	{
		name: "milter", setUp: "postfix, dovecot", service: "bulkhead",
		install: "rm -rf /etc/rspamd /etc/spamassassin",
		junkBy: func(_ *machine, mail string) (string, bool) {
			what := strings.Join(regexp.MustCompile(`(?m)^X-Bulkhead.*(\n[ \t].*)*`).FindAllString(mail, -1), "; ")
			return what, strings.Contains(what, "X-Bulkhead: suspected")
		},
	},
}

// records are what the stranger has in the DNS: all that a mail server should, but neither SPF
// nor DKIM.
var records = map[string][]string{
	"MX prizes.example": {"mx.prizes.example"}, "MX gifts.example": {"mx.prizes.example"},
	"A prizes.example": {"192.0.2.7"}, "A gifts.example": {"192.0.2.7"}, "A mx.prizes.example": {"192.0.2.7"},
}

// letter returns a mail with a subject, a recipient, a name, a link and further words.
func letter(about, from, to, name, link, tail string) string {
	text := fmt.Sprintf("Dear %s,\n\n", name)
	for i, w := range strings.Fields(
		"anchor basket copper desert engine feather guitar hollow insect jungle kitten ladder marble needle oyster pepper " +
			"quiver ribbon saddle tunnel") {
		text += fmt.Sprintf("the %[1]s%[2]s that we keep is %[2]s%[1]s for you,%[3]s", about, w,
			map[bool]string{true: "\n", false: " "}[i%3 == 2])
	}
	_, host, _ := strings.Cut(strings.Trim(from, ">"), "@")
	return fmt.Sprintf(
		"From: %s\nTo: %s <%s@example.org>\nSubject: %s for %s\nDate: %s\nMessage-ID: <%s.%s@%s>\nMIME-Version: 1.0\n"+
			"Content-Type: text/plain; charset=us-ascii\n\n%s\n%s\n%s\n",
		from, name, to, about, name, time.Now().Format(time.RFC1123Z), about, to, host, text, tail, link)
}

// TestStopwatch goes, by the clock, from a mail server without the package to mail in Junk: the deb
// is installed, setup makes rspamd, SpamAssassin or Postfix, and Dovecot, ask the node; ann, who gets an
// unknown mail, moves it to Junk in her mail program; and a changed copy of it, with another name,
// words, link and sender, is in bob's Junk when it arrives, by the scores of bulkhead alone, while
// other mail from the same stranger is not.
func TestStopwatch(t *testing.T) {
	nodetest.NeedUsers(t)
	deb := dist(t, "bulkhead_*_"+runtime.GOARCH+".deb")
	for _, f := range filters {
		t.Run(f.name, func(t *testing.T) {
			dns := nodetest.ServeDNS(t, records)
			m := newMachine(t)
			m.put("bulkhead.deb", deb)
			m.must(mailServer, "")
			m.must(strings.ReplaceAll(f.install, "DNS", dns.Address), "")
			m.must("postfix check", "")
			m.service("/usr/lib/postfix/sbin/master", "-d")
			m.service("dovecot", "-F")
			var filter *nodetest.Process
			if f.run != nil {
				filter = m.service(f.run...)
			}
			awaitServers(t, append([]string{"127.0.0.1:25", "127.0.0.1:143"}, f.ports...))
			t.Cleanup(func() {
				if t.Failed() {
					out, _ := m.run(
						"tail -n 40 /var/log/postfix.log /var/log/dovecot.log /var/log/rspamd/rspamd.log; postconf -n; true")
					t.Logf("%s", out)
				}
			})

			w := &stopwatch{t: t, name: f.name, begun: time.Now(), last: time.Now()}
			m.must("dpkg -i /tmp/bulkhead.deb", "Setting up bulkhead")
			m.must("printf '\\n[milter]\\nresolver = \""+dns.Address+"\"\\n' >>/etc/bulkhead/bulkhead.toml", "")
			node := m.node()
			w.step("package installed, node ready")
			output := m.must("bulkhead setup --yes", "set up: "+f.setUp)
			_, after, _ := strings.Cut(output, "Then run:\n")
			for command := range strings.Lines(after) {
				switch command = strings.TrimSpace(command); {
				case command == "", command == "bulkhead doctor": // at the end
				case command == "systemctl reload dovecot":
					m.must("doveadm reload", "")
				case command == "systemctl reload postfix":
					m.must("postfix reload", "")
				case strings.HasPrefix(command, "systemctl restart bulkhead"):
					node.Stop()
					m.node()
				case strings.HasPrefix(command, "systemctl restart "+f.service):
					filter.Stop()
					m.service(f.run...)
					awaitServers(t, f.ports)
				default:
					m.must(command, "")
				}
			}
			w.step("setup, services restarted")

			send(t, "ann", letter("lanterns", "Prizes <win@prizes.example>", "ann", "Ann", "http://prizes.example/ann",
				"Come soon."))
			awaitMail(t, "ann", "lanterns", "INBOX")
			w.step("a mail that nobody knows is delivered")
			session(t, "ann", "CREATE Junk", "SELECT INBOX", "MOVE 1 Junk")
			w.step("moved to Junk by IMAP")
			send(t, "bob", letter("lanterns", "Office <news@gifts.example>", "bob", "Robert", "http://gifts.example/r/77",
				"This offer ends on Friday, so do not wait."))
			awaitMail(t, "bob", "lanterns", "Junk")
			w.step("a changed copy to another user is in Junk")
			w.end()
			what, enough := f.junkBy(m, session(t, "bob", "EXAMINE Junk", "FETCH 1 BODY.PEEK[]"))
			fmt.Printf("| %s | by bulkhead alone | %s |\n", f.name, strings.Join(strings.Fields(what), " "))
			if !enough {
				t.Errorf("by bulkhead alone the changed copy would not be in Junk: %s", what)
			}

			send(t, "bob", letter("bicycles", "Office <news@gifts.example>", "bob", "Robert", "http://bicycles.example/r/78",
				"See you on Friday."))
			awaitMail(t, "bob", "bicycles", "INBOX")
			m.must("bulkhead doctor", "")
		})
	}
}

// A stopwatch prints a row for each step.
type stopwatch struct {
	t           *testing.T
	name        string
	begun, last time.Time
}

func (w *stopwatch) step(what string) {
	now := time.Now()
	fmt.Printf("| %s | %s | %.1f s |\n", w.name, what, now.Sub(w.last).Seconds())
	w.last = now
}

func (w *stopwatch) end() {
	all := w.last.Sub(w.begun)
	fmt.Printf("| %s | in all | %.1f s |\n", w.name, all.Seconds())
	if all > fiveMinutes {
		w.t.Errorf("the first changed copy was in Junk after %v, want %v at most", all, fiveMinutes)
	}
}

// service runs a program of the machine until it is stopped, or the test ends.
func (m *machine) service(program ...string) *nodetest.Process {
	m.t.Helper()
	cmd := exec.Command("chroot", append([]string{m.root}, program...)...)
	cmd.Dir = "/"
	return nodetest.Start(m.t, cmd)
}

// node starts the node as its unit does, and waits until it is ready.
func (m *machine) node() *nodetest.Process {
	m.t.Helper()
	m.must("install -d -o bulkhead -g bulkhead -m 0700 /var/lib/bulkhead", "")
	cmd := exec.Command("chroot", "--userspec=bulkhead:bulkhead", m.root, "/usr/bin/bulkhead", "serve", "--config",
		"/etc/bulkhead/bulkhead.toml")
	cmd.Dir, cmd.Env = "/", []string{"STATE_DIRECTORY=/var/lib/bulkhead", "PATH=/usr/bin:/bin"}
	p := nodetest.Start(m.t, cmd)
	nodetest.Settle(m.t, fiveMinutes, "the node", func() string {
		if out, err := m.run("bulkhead ready --config /etc/bulkhead/bulkhead.toml"); err != nil {
			return out
		}
		return ""
	})
	return p
}

// awaitServers waits for servers that may be slow to start.
func awaitServers(t *testing.T, addresses []string) {
	t.Helper()
	for _, address := range addresses {
		nodetest.Settle(t, fiveMinutes, "a server on "+address, func() string {
			c, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				return err.Error()
			}
			c.Close()
			return ""
		})
	}
}

// send hands a mail to Postfix as a stranger at 192.0.2.7 does.
func send(t *testing.T, to, mail string) {
	t.Helper()
	from := regexp.MustCompile(`<([^>]*)>`).FindStringSubmatch(mail)[1]
	c, err := textproto.Dial("tcp", "127.0.0.1:25")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _, err = c.ReadResponse(220)
	for _, step := range []struct {
		say  string
		code int
	}{
		{"EHLO mx.prizes.example", 250}, {"XCLIENT ADDR=192.0.2.7 NAME=mx.prizes.example", 220},
		{"EHLO mx.prizes.example", 250},
		{"MAIL FROM:<" + from + ">", 250}, {"RCPT TO:<" + to + "@example.org>", 250}, {"DATA", 354},
		{strings.ReplaceAll(mail, "\n", "\r\n") + ".", 250}, {"QUIT", 221},
	} {
		if err == nil {
			err = c.PrintfLine("%s", step.say)
		}
		if err == nil {
			_, _, err = c.ReadResponse(step.code)
		}
		if err != nil {
			t.Fatalf("%.60q: %v", step.say, err)
		}
	}
}

// session logs in as a user by IMAP, gives commands, and returns what was said.
func session(t *testing.T, user string, commands ...string) string {
	t.Helper()
	reply, err := speak(user, commands...)
	if err != nil {
		t.Fatalf("%v:\n%s", err, reply)
	}
	return reply
}

func speak(user string, commands ...string) (reply string, err error) {
	c, err := net.DialTimeout("tcp", "127.0.0.1:143", nodetest.Patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * nodetest.Patience))
	lines := bufio.NewScanner(c)
	for i, command := range append([]string{"LOGIN " + user + " secret"}, commands...) {
		tag := fmt.Sprintf("a%d ", i)
		if _, err := fmt.Fprintf(c, "%s%s\r\n", tag, command); err != nil {
			return reply, err
		}
		for lines.Scan() {
			reply += lines.Text() + "\n"
			if answer, ok := strings.CutPrefix(lines.Text(), tag); ok {
				if !strings.HasPrefix(answer, "OK") {
					return reply, fmt.Errorf("%s: %s", command, answer)
				}
				break
			}
		}
		if err := lines.Err(); err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// awaitMail waits until a user has one mail with a subject, and fails unless it is in the folder.
func awaitMail(t *testing.T, user, subject, folder string) {
	t.Helper()
	in := func(folder string) bool {
		reply, err := speak(user, "EXAMINE "+folder, "SEARCH SUBJECT "+subject)
		return err == nil && regexp.MustCompile(`(?m)^\* SEARCH \d`).MatchString(reply)
	}
	found := ""
	nodetest.Settle(t, fiveMinutes, subject+" for "+user, func() string {
		for _, found = range []string{"INBOX", "Junk"} {
			if in(found) {
				return ""
			}
		}
		return "not delivered"
	})
	if found != folder {
		reply, _ := speak(user, "EXAMINE "+found, "SEARCH SUBJECT "+subject, "FETCH 1:* BODY.PEEK[HEADER]")
		t.Fatalf("%s for %s is in %s, want %s:\n%s", subject, user, found, folder, reply)
	}
}
