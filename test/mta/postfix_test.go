//go:build interop

package mta

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A postfix is a running instance that accepts mail on Addr and delivers all of
// it to a sink.
type postfix struct {
	addr  string // of its SMTP port
	queue string // folder of its queue
	log   string // file
	conf  string // folder of its configuration
}

// startPostfix runs an instance that gives mail to the sink at sinkAddr. main
// holds further lines of main.cf.
func startPostfix(t testing.TB, sinkAddr, main string) *postfix {
	t.Helper()
	nodetest.NeedUsers(t)
	master := nodetest.Program(t, "/usr/lib/postfix/sbin/master")
	base, err := os.MkdirTemp("", "bulkhead-postfix-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	p := &postfix{conf: base + "/conf", queue: base + "/queue", log: base + "/log/mail.log"}
	port := nodetest.FreePort(t)
	p.addr = fmt.Sprintf("127.0.0.1:%d", port)
	sinkHost, sinkPort, _ := strings.Cut(sinkAddr, ":")
	writeFile(t, p.conf+"/main.cf", `
compatibility_level = 3.6
config_directory = %[1]s/conf
queue_directory = %[1]s/queue
data_directory = %[1]s/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
shlib_directory = /usr/lib/postfix
meta_directory = %[1]s/conf
import_environment = MAIL_CONFIG
mail_owner = daemon
setgid_group = mail
default_privs = nobody
maillog_file = %[1]s/log/mail.log
maillog_file_prefixes = %[1]s
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mx.example.com
mydestination =
mynetworks =
relay_domains = example.com example.net example.org
relay_transport = smtp:[%[2]s]:%[3]s
default_transport = $relay_transport
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
smtpd_authorized_xclient_hosts = 127.0.0.1
smtpd_client_connection_count_limit = 0
smtpd_peername_lookup = no
notify_classes =
soft_bounce = no
smtp_dns_support_level = disabled
smtpd_reject_footer =
in_flow_delay = 0
milter_connect_timeout = 300s
milter_command_timeout = 300s
%[4]s
`, base, sinkHost, sinkPort, main)
	writeFile(t, p.conf+"/master.cf", `
%d inet n - n - 600 smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`, port)
	p.folders(t, base)
	cmd := exec.Command(master, "-c", p.conf, "-d")
	cmd.Env = append(os.Environ(), "MAIL_CONFIG="+p.conf)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(p.log)
			t.Logf("Postfix said:\n%s", tail(string(log), 6000))
		}
	})
	start(t, p.addr, cmd)
	return p
}

// folders makes what "postfix start" would make.
func (p *postfix) folders(t testing.TB, base string) {
	t.Helper()
	owner := ids(t, "daemon")
	for _, f := range []struct {
		path string
		mode os.FileMode
		own  bool
	}{
		{base, 0o755, false}, {base + "/log", 0o755, false}, {base + "/data", 0o700, true}, {p.queue, 0o755, false},
		{p.queue + "/active", 0o700, true}, {p.queue + "/bounce", 0o700, true}, {p.queue + "/corrupt", 0o700, true},
		{p.queue + "/defer", 0o700, true}, {p.queue + "/deferred", 0o700, true}, {p.queue + "/flush", 0o700, true},
		{p.queue + "/hold", 0o700, true}, {p.queue + "/incoming", 0o700, true}, {p.queue + "/maildrop", 0o1730, true},
		{p.queue + "/pid", 0o755, false}, {p.queue + "/private", 0o700, true}, {p.queue + "/public", 0o2710, true},
		{p.queue + "/saved", 0o700, true}, {p.queue + "/trace", 0o700, true},
	} {
		if err := os.MkdirAll(f.path, 0o755); err != nil {
			t.Fatal(err)
		}
		if f.own {
			if err := os.Chown(f.path, owner, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(f.path, f.mode); err != nil {
			t.Fatal(err)
		}
	}
}

func ids(t testing.TB, name string) int {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// held returns the paths of the messages in the hold queue.
func (p *postfix) held(t testing.TB) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(p.queue+"/hold", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
