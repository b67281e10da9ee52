//go:build interop

package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// dist returns a file of the last "make packages".
func dist(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob("../../dist/" + pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		nodetest.Unavailable(t, "there is no dist/%s: make packages", pattern)
	}
	at, err := filepath.Abs(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A machine is a copy of this root that may be written to.
type machine struct {
	t    *testing.T
	root string
	init string // process 1 of the machine, once it has booted
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "bulkhead-packages-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, root: filepath.Join(dir, "root")}
	t.Cleanup(func() {
		// Children of a service that has ended may take a moment.
		nodetest.Settle(t, nodetest.Patience, "umount", func() string {
			out, err := exec.Command("sh", "-c", "umount -R "+m.root+"; umount "+dir+" && rmdir "+dir).CombinedOutput()
			if err != nil {
				return string(out)
			}
			return ""
		})
	})
	script := fmt.Sprintf(`set -e
mount -t tmpfs -o mode=0755 tmpfs %[1]s
mkdir %[1]s/up %[1]s/work %[1]s/root
mount -t overlay overlay -o lowerdir=/,upperdir=%[1]s/up,workdir=%[1]s/work %[1]s/root
for f in dev proc programs; do mount --rbind /$f %[1]s/root/$f; done
mkdir -p %[1]s/root/var/lib/dpkg/info %[1]s/root/tmp
printf 'Package: passwd\nStatus: install ok installed\nVersion: 1:4.13\nArchitecture: %[2]s\nMaintainer: x\nDescription: x\n\n' >%[1]s/root/var/lib/dpkg/status`, dir, runtime.GOARCH)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return m
}

// run runs a script on the machine.
func (m *machine) run(script string) (string, error) {
	cmd := exec.Command("chroot", m.root, "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs a script that succeeds, and says what is wanted, if that is not "".
func (m *machine) must(script, want string) string {
	m.t.Helper()
	out, err := m.run(script)
	if err != nil || !strings.Contains(out, want) {
		m.t.Fatalf("%s\n%v: %s\nwant %q", script, err, out, want)
	}
	return out
}

// put copies a file to the machine's /tmp.
func (m *machine) put(name, from string) {
	m.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.root, "tmp", name), data, 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// serves starts the node as its service does, asks it, reports to it, and stops it.
const serves = `
mkdir -p /var/lib/bulkhead && chown bulkhead:bulkhead /var/lib/bulkhead && chmod 700 /var/lib/bulkhead
STATE_DIRECTORY=/var/lib/bulkhead chroot --userspec=bulkhead:bulkhead / /usr/bin/bulkhead serve --config /etc/bulkhead/bulkhead.toml >/tmp/node.log 2>&1 &
node=$!
for i in $(seq 600); do /usr/bin/bulkhead ready --config /etc/bulkhead/bulkhead.toml 2>/dev/null && break; sleep 0.1; done
/usr/bin/bulkhead ready --config /etc/bulkhead/bulkhead.toml || { cat /tmp/node.log; exit 1; }
printf 'From: a@example.com\nSubject: x\n\nThe minutes of the meeting of the garden club, and the names of all who came to it.\n' >/tmp/m.eml
/usr/bin/bulkhead report /tmp/m.eml
code=0; /usr/bin/bulkhead check /tmp/m.eml || code=$?
echo "check: $code"
cd /root && /usr/bin/bulkhead login | grep -q '^http://127.0.0.1:8420/login?link=' || { echo 'no log-in'; exit 1; }
/usr/bin/bulkhead history --kind spam | grep -q spam || { echo 'no history'; exit 1; }
kill $node; wait $node`

// TestDeb goes through the life of the package on one machine.
func TestDeb(t *testing.T) {
	deb := dist(t, "bulkhead_*_"+runtime.GOARCH+".deb")
	m := newMachine(t)
	m.put("first.deb", deb)
	m.must("dpkg -i /tmp/first.deb", "Setting up bulkhead")
	m.must("getent passwd bulkhead", "/var/lib/bulkhead")
	m.must("stat -c '%a %U:%G' /etc/bulkhead/bulkhead.toml", "640 root:bulkhead")
	m.must("readlink /etc/systemd/system/multi-user.target.wants/bulkhead.service", "/lib/systemd/system/bulkhead.service")
	const spool = "stat -c '%a %U:%G' /var/spool/bulkhead"
	m.must(spool, "1777 root:root")
	m.must("rmdir /var/spool/bulkhead; systemd-tmpfiles --create bulkhead.conf; "+spool, "1777 root:root")
	m.must("bulkhead config check /etc/bulkhead/bulkhead.toml", "")
	m.must(
		"ls /usr/share/bulkhead/monitoring /usr/share/bulkhead/plugins/rspamd /usr/share/man/man1/bulkhead-doctor.1.gz "+
			"/usr/share/bash-completion/completions/bulkhead", "bulkhead.rules.yml")
	m.must("promtool check rules /usr/share/bulkhead/monitoring/bulkhead.rules.yml", "SUCCESS")
	if out := m.must(serves, "check: 1"); !strings.Contains(out, "newly listed") {
		t.Errorf("the installed node: %s", out)
	}

	// An upgrade keeps what the administrator has changed, and what was reported.
	m.must(`echo '[limits]
requests_per_second = 77' >>/etc/bulkhead/bulkhead.toml
dpkg-deb -R /tmp/first.deb /tmp/next && sed -i 's/^Version: .*/Version: 99.0-1/' /tmp/next/DEBIAN/control
dpkg-deb --root-owner-group -Zgzip -z1 -b /tmp/next /tmp/next.deb
dpkg -i /tmp/next.deb`, "over (")
	m.must(
		"grep -c 'requests_per_second = 77' /etc/bulkhead/bulkhead.toml; stat -c '%a %U:%G' /etc/bulkhead/bulkhead.toml",
		"640 root:bulkhead")
	m.must("dpkg-query -W -f '${Version} ${Status}' bulkhead", "99.0-1 install ok installed")
	if out := m.must(serves, "check: 1"); !strings.Contains(out, "counted before") &&
		strings.Contains(out, "newly listed") {
		t.Errorf("the upgraded node has forgotten: %s", out)
	}

	// Removed, it leaves configuration and data; purged, neither, but data on a file system of
	// their own.
	m.must("dpkg -r bulkhead", "Removing bulkhead")
	m.must("test ! -e /usr/bin/bulkhead; test -f /etc/bulkhead/bulkhead.toml; test -d /var/lib/bulkhead/store", "")
	m.must("dpkg -i /tmp/first.deb", "Setting up bulkhead")
	m.must(serves, "check: 1")
	m.must("dpkg -P bulkhead", "Purging")
	m.must(
		"test ! -e /etc/bulkhead; test ! -e /etc/systemd/system/multi-user.target.wants/bulkhead.service; test ! -e "+
			"/var/lib/bulkhead; test ! -e /var/spool/bulkhead", "")
	m.must("dpkg -i /tmp/first.deb", "Setting up bulkhead")
	if out := m.must(serves, "check: 1"); !strings.Contains(out, "newly listed") {
		t.Errorf("a node installed after the purge knows what was reported before: %s", out)
	}
	m.must(
		"mkdir /tmp/disk && mv /var/lib/bulkhead/store /tmp/disk/ && mount --bind /tmp/disk /var/lib/bulkhead && dpkg -P "+
			"bulkhead", "stays in it")
	m.must("test -d /tmp/disk/store && umount /var/lib/bulkhead", "")
}

// TestLintian: Debian's checker finds nothing to complain of.
func TestLintian(t *testing.T) {
	deb := dist(t, "bulkhead_*_"+runtime.GOARCH+".deb")
	nodetest.Program(t, "lintian")
	m := newMachine(t)
	m.put(filepath.Base(deb), deb)
	out, err := m.run("ln -sfn debian /etc/dpkg/origins/default; lintian --fail-on error,warning --allow-root /tmp/" +
		filepath.Base(deb))
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestUnit: systemd understands every line of the units.
func TestUnit(t *testing.T) {
	deb := dist(t, "bulkhead_*_"+runtime.GOARCH+".deb")
	m := newMachine(t)
	m.put("first.deb", deb)
	m.must("dpkg -i /tmp/first.deb", "")
	for _, unit := range []string{"bulkhead.service", "bulkhead-waiting.service", "bulkhead-waiting.timer",
		"bulkhead-abuse.service"} {
		out, err := m.run("systemd-analyze verify --man=no --recursive-errors=no /lib/systemd/system/" + unit + " 2>&1")
		if err != nil || strings.Contains(out, unit) {
			t.Errorf("%s: %v: %s", unit, err, out)
		}
	}
	m.must("sed -i 's/^ProtectSystem=/ProtectSistem=/' /lib/systemd/system/bulkhead.service", "")
	if out, _ := m.run(
		"systemd-analyze verify --man=no --recursive-errors=no /lib/systemd/system/bulkhead.service 2>&1"); !strings.Contains(
		out, "ProtectSistem") {
		t.Errorf("a misspelt line is not noticed: %s", out)
	}
}

// TestManPages: groff has nothing to warn of in any manual page, and man-db knows each by
// its name.
func TestManPages(t *testing.T) {
	m := newMachine(t)
	m.put("first.deb", dist(t, "bulkhead_*_"+runtime.GOARCH+".deb"))
	const read = `cd /tmp/x/usr/share/man/man1
for page in *; do
	LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null
	lexgrog "$page" >/dev/null || echo "$page has no name"
done
ls | wc -l`
	out := m.must("dpkg-deb -x /tmp/first.deb /tmp/x;"+read, "")
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n < 60 {
		t.Errorf("the manual pages: %s", out)
	}
	m.must(
		"rm -r /tmp/x/usr/share/man/man1/*; printf '.TH X 1\\n.SH NOTHING\\n.nosuch macro\\n' | gzip -n "+
			">/tmp/x/usr/share/man/man1/x.1.gz", "")
	if out := m.must(read, "x.1.gz has no name"); !strings.Contains(out, "nosuch") {
		t.Errorf("a page that is not right is not noticed: %s", out)
	}
}
