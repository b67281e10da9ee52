//go:build interop

package mta

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// eximPeriod is the period of both limiters, in seconds.
const eximPeriod = 6

// startExim runs an Exim that answers every RCPT with the sender's rate of
// different recipients, as its own ratelimit measures it.
func startExim(t testing.TB, mode string) (addr string) {
	t.Helper()
	return startEximWith(t,
		fmt.Sprintf("  warn ratelimit = 1000 / %ds / per_addr / %s / $sender_address\n  accept message = rate=$sender_rate",
			eximPeriod, mode))
}

// startEximWith runs an Exim with an ACL for RCPT.
func startEximWith(t testing.TB, acl string) (addr string) {
	t.Helper()
	return startEximACLs(t, map[string]string{"rcpt": acl}, "")
}

// startEximACLs runs an Exim with an ACL for each of the named events. XLIMITS in them stands
// for a file with the text of limits.
func startEximACLs(t testing.TB, acls map[string]string, limits string) (addr string) {
	t.Helper()
	nodetest.NeedUsers(t)
	exim := nodetest.Program(t, "exim4")
	base, err := os.MkdirTemp("", "bulkhead-exim-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	owner := ids(t, "mail")
	for _, dir := range []string{"spool", "spool/db", "spool/input", "spool/msglog", "log"} {
		dir = filepath.Join(base, dir)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	port := nodetest.FreePort(t)
	uses, checks := "", ""
	for event, acl := range acls {
		uses += fmt.Sprintf("acl_smtp_%[1]s = check_%[1]s\n", event)
		checks += fmt.Sprintf("check_%s:\n%s\n", event, strings.ReplaceAll(acl, "XLIMITS", base+"/limits"))
	}
	writeFile(t, base+"/exim.conf", `
exim_user = mail
exim_group = mail
never_users =
spool_directory = %[1]s/spool
log_file_path = %[1]s/log/%%s.log
pid_file_path = %[1]s/exim.pid
primary_hostname = exim.example.com
local_interfaces = 127.0.0.1
daemon_smtp_ports = %[2]d
tls_advertise_hosts =
host_lookup =
helo_lookup_domains =
smtp_accept_max_nonmail = 1000000
smtp_accept_max_per_connection = 0
dns_check_names_pattern =
rfc1413_query_timeout = 0s
keep_environment =
%[3]s
begin acl
%[4]s
begin routers
begin transports
begin retry
begin rewrite
begin authenticators
`, base, port, uses, checks)
	writeFile(t, base+"/limits", "%s", limits)
	if err := os.Chown(base+"/exim.conf", 0, 0); err != nil {
		t.Fatal(err)
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"main", "panic", "reject"} {
				log, _ := os.ReadFile(base + "/log/" + name + ".log")
				t.Logf("%s: %s", name, tail(string(log), 3000))
			}
		}
	})
	start(t, addr, exec.Command(exim, "-C", base+"/exim.conf", "-bdf"))
	return addr
}

// An eximClock keeps a quirk of Exim's limiter out of a comparison. Exim stores the second of
// time(2), which the kernel updates up to a tick late, with the microseconds of the exact
// clock. So what is stored right after the turn of a second is one second too old, and the
// next interval one second too long.
type eximClock struct {
	spoiled map[string]int // senders with such an event, and how often
}

const eximTick = 50 * time.Millisecond // more than the longest tick of a kernel

// name returns the sender's present name.
func (c *eximClock) name(sender int) string {
	return fmt.Sprintf("s%d.%d@example.org", sender, c.spoiled[strconv.Itoa(sender)])
}

// ask calls f away from the turn of a second. If that came all the same, the
// sender has another name from then on.
func (c *eximClock) ask(sender int, f func()) {
	now := time.Now()
	next := now.Truncate(time.Second).Add(time.Second)
	wait := time.Duration(0)
	switch past := time.Duration(now.Nanosecond()); {
	case past < eximTick:
		wait = eximTick - past
	case next.Sub(now) < eximTick:
		wait = next.Add(eximTick).Sub(now)
	}
	time.Sleep(wait)
	before := time.Now().Unix()
	f()
	if time.Now().Unix() != before {
		c.spoiled[strconv.Itoa(sender)]++
	}
}

// TestEximRates sends the same events to Exim's limiter and to ours, at the same times, and wants
// the same rates. Both filters are sized for a limit that is never reached. The remaining
// difference is small and has a bound, below one lost event: Exim rounds to tenths, and the
// questions are some milliseconds apart. Exim keeps the age of its filter in whole seconds: a pause
// around the end of its life keeps that out of the comparison.
func TestEximRates(t *testing.T) {
	n := newNode(t, fmt.Sprintf(`
[[ratelimit]]
name = "rcpts"
key = "{sender}"
unique = "{recipient}"
limit = 1000
period = "%ds"
mode = "strict"
action = "dunno"
`, eximPeriod))
	n.start(t)
	exim := dialSMTP(t, startExim(t, "strict"))
	random := rand.New(rand.NewPCG(4, 2))
	clock := eximClock{spoiled: make(map[string]int)}
	var slowest time.Duration // between the two questions
	ask := func(sender, to string) (theirs, ours float64) {
		t.Helper()
		exim.ok(t, 250, "MAIL FROM:<%s>", sender)
		begin := time.Now()
		code, text := exim.send(t, "RCPT TO:<%s>", to)
		_, rate, ok := strings.Cut(text, "rate=")
		if code != 250 || !ok {
			t.Fatalf("Exim: %d %s", code, text)
		}
		theirs, err := strconv.ParseFloat(strings.TrimSpace(rate), 64)
		if err != nil {
			t.Fatal(err)
		}
		ours = n.rate(t, sender, to)
		slowest = max(slowest, time.Since(begin))
		exim.ok(t, 250, "RSET")
		return theirs, ours
	}
	worst, total := 0.0, 0
	burst := func(seconds float64) {
		for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); total++ {
			if random.IntN(4) == 0 {
				time.Sleep(time.Duration(random.IntN(120)) * time.Millisecond)
			}
			sender := random.IntN(3)
			clock.ask(sender, func() {
				name := clock.name(sender)
				// Recipients that come again, and some that do not.
				theirs, ours := ask(name, fmt.Sprintf("r%d@example.com", random.IntN(60)))
				difference := math.Abs(theirs - ours)
				worst = max(worst, difference)
				if may := 0.05 + 0.1 + 2*theirs*-math.Expm1(-slowest.Seconds()/eximPeriod); difference > may {
					t.Errorf("event %d of %s: Exim measures %.2f, we %.2f; want no more than %.2f between them", total, name,
						theirs, ours, may)
				}
			})
		}
	}
	// A slow machine takes more than two turns.
	for turn, begun := 0, time.Now(); turn < 2 || total < 20 && time.Since(begun) < nodetest.Patience; turn++ {
		if turn > 0 {
			time.Sleep(eximPeriod * time.Second * 11 / 10) // every filter is thrown away by both, the rates decay
		}
		burst(0.65 * eximPeriod)
	}
	t.Logf("%d events: the rates differ by %.2f at most, the questions by %v", total, worst, slowest)
	if total < 20 {
		t.Errorf("only %d events", total)
	}
}

// rate counts an event over HTTP and returns the rate.
func (n *node) rate(t testing.TB, sender, to string) float64 {
	t.Helper()
	body := fmt.Sprintf(`{"attributes":{"protocol_state":"RCPT","sender":%q,"recipient":%q}}`, sender, to)
	resp, err := http.Post("http://"+n.http+"/v1/ratelimits", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var d struct{ Rules []struct{ Rate float64 } }
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || len(d.Rules) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	return d.Rules[0].Rate
}

// TestEximAsksPolicy uses the lines of docs/protocols/policy.md as they stand
// there.
func TestEximAsksPolicy(t *testing.T) {
	n := newNode(t, `
[[ratelimit]]
name = "rcpts"
key = "{sender}"
unique = "{recipient}"
limit = 2
period = "1h"
[[ratelimit]]
name = "domain"
key = "{sender:domain}"
unique = "{recipient}"
limit = 3
period = "1h"
action = "reject"
`)
	n.start(t)
	doc, err := os.ReadFile("../../docs/protocols/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, acl, _ := strings.Cut(string(doc), "Exim (in the ACL for RCPT):")
	acl, _, found := strings.Cut(acl, "\nSendmail")
	if !found {
		t.Fatal("docs/protocols/policy.md has no lines for Exim")
	}
	acl = strings.ReplaceAll(acl, "127.0.0.1:10040", n.policy)
	exim := dialSMTP(t, startEximWith(t, acl+"\n  accept"))
	for _, tt := range []struct {
		sender string
		to     int
		code   int
		text   string
	}{
		{"a@example.org", 1, 250, ""}, {"a@example.org", 2, 250, ""},
		{"a@example.org", 3, 451, "4.7.1 limit of 2 per 1h reached"},
		{"a@example.org", 2, 250, ""}, {"b@example.org", 4, 250, ""},
		{"b@example.org", 5, 550, "5.7.1 limit of 3 per 1h reached"},
	} {
		exim.ok(t, 250, "MAIL FROM:<%s>", tt.sender)
		if code, text := exim.send(t, "RCPT TO:<r%d@example.com>", tt.to); code != tt.code ||
			!strings.Contains(text, tt.text) {
			t.Errorf("%s to %d: %d %s, want %d %s", tt.sender, tt.to, code, text, tt.code, tt.text)
		}
		exim.ok(t, 250, "RSET")
	}
	if err := n.process.Stop(); err != nil {
		t.Fatal(err)
	}
	exim.ok(t, 250, "MAIL FROM:<a@example.org>")
	if code, text := exim.send(t, "RCPT TO:<r9@example.com>"); code != 250 {
		t.Errorf("without the node: %d %s, want mail to pass", code, text)
	}
}
