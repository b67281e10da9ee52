//go:build interop

package packages

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// boots has systemd run on the machine as process 1, in namespaces of its own, with nothing
// but the node's unit to start. It takes root of the real machine: the unit's sandbox makes
// device files.
func (m *machine) boots() {
	m.t.Helper()
	if err := exec.Command("sh", "-c", "mknod -m 666 "+m.root+"/null c 1 3 && : >"+m.root+"/null").Run(); err != nil {
		m.t.Skip("takes root that may make device files")
	}
	m.must(
		`printf '[Unit]\nRequires=bulkhead.service\nAfter=bulkhead.service\nAllowIsolate=yes\n' >/etc/systemd/system/only.target
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
mkdir -p /before /sys`, "")
	script := fmt.Sprintf(`set -e
mount --make-rprivate /
cd %s
mount -t proc proc proc
mount -t sysfs sysfs sys 2>/dev/null || mount -t tmpfs tmpfs sys && mkdir -p sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=0755 tmpfs dev
while read -r name major minor; do mknod -m 666 "dev/$name" c "$major" "$minor"; done <<X
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
X
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs -o mode=0755 tmpfs run
pivot_root . before
umount -l /before
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=only.target --log-target=console`, m.root)
	cmd := exec.Command(nodetest.Program(m.t, "unshare"), "--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc",
		"--kill-child", "sh", "-c", script)
	p := nodetest.Start(m.t, cmd)
	m.t.Cleanup(p.Kill)
	nodetest.Settle(m.t, nodetest.Patience, "systemd", func() string {
		out, err := exec.Command("pgrep", "-P", fmt.Sprint(cmd.Process.Pid), "-x", "systemd").Output()
		if err != nil {
			return err.Error()
		}
		m.init = strings.TrimSpace(string(out))
		return ""
	})
}

// booted runs a script on the machine that has booted.
func (m *machine) booted(script string) (string, error) {
	cmd := exec.Command("nsenter", "-t", m.init, "-m", "-p", "-u", "-i", "-C", "-r", "sh", "-ec", "cd /; "+script)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// does runs a script there that must succeed, and say what is wanted.
func (m *machine) does(script, want string) string {
	m.t.Helper()
	out, err := m.booted(script)
	if err != nil || !strings.Contains(out, want) {
		log, _ := m.booted("systemctl status --no-pager -n 40 bulkhead")
		m.t.Fatalf("%s\n%v: %s\nwant %q\n%s", script, err, out, want, log)
	}
	return strings.TrimSpace(out)
}

// active waits until the service runs in another process than before, and returns that.
func (m *machine) active(before string) (pid string) {
	m.t.Helper()
	nodetest.Settle(m.t, nodetest.Patience, "the service", func() string {
		out, err := m.booted("systemctl show -p ActiveState -p SubState -p MainPID bulkhead")
		_, pid, _ = strings.Cut(out, "MainPID=")
		pid, _, _ = strings.Cut(pid, "\n")
		if err != nil || !strings.Contains(out, "ActiveState=active") || !strings.Contains(out, "SubState=running") ||
			pid == "0" || pid == before {
			return fmt.Sprint(err, out)
		}
		return ""
	})
	return pid
}

// waits has a user vote while the node is down. The service of the timer, in its sandbox, then casts the
// vote as that user.
func (m *machine) waits() {
	m.t.Helper()
	m.does("stat -c %a /var/spool/bulkhead", "1777")
	m.does("useradd --create-home ann && sed 's/garden/sailing/; s/Subject: x/Subject: y/' /root/m.eml >/tmp/wait.eml && "+
		"chmod 644 /tmp/wait.eml && systemctl stop bulkhead", "")
	m.does("code=0; cd /; setpriv --reuid ann --regid nogroup --clear-groups "+
		"bulkhead report --user ann /tmp/wait.eml || code=$?; echo code: $code", "code: 75")
	m.does("bulkhead waiting", "ann")
	m.does("systemctl start bulkhead && systemctl is-active bulkhead-waiting.timer", "active")
	m.active("")
	m.does("systemctl start bulkhead-waiting.service && systemctl show -p Result bulkhead-waiting.service",
		"Result=success")
	m.does("bulkhead history --kind spam", "ann")
	if out, err := m.booted("bulkhead waiting"); err != nil || strings.Contains(out, "ann") {
		m.t.Errorf("after the service, there wait %v %s", err, out)
	}
}

// TestSystemd: systemd itself runs the service in its sandbox, reloads it, starts it again
// after a crash with all that was reported, and after an upgrade; casts votes that waited; and stops it.
func TestSystemd(t *testing.T) {
	nodetest.NeedUsers(t)
	for _, name := range []string{"nsenter", "pgrep", "mknod", "pivot_root"} {
		nodetest.Program(t, name)
	}
	deb := dist(t, "bulkhead_*_"+runtime.GOARCH+".deb")
	m := newMachine(t)
	m.put("first.deb", deb)
	m.must(`dpkg -i /tmp/first.deb
dpkg-deb -R /tmp/first.deb /tmp/next && sed -i 's/^Version: .*/Version: 99.0-1/' /tmp/next/DEBIAN/control
dpkg-deb --root-owner-group -Zgzip -z1 -b /tmp/next /root/next.deb && rm -r /tmp/next
printf 'From: a@example.com\nSubject: x\n\nThe minutes of the meeting of the garden club, and the names of all who came to it.\n' >/root/m.eml`, "Setting up bulkhead")
	m.boots()
	pid := m.active("")

	// It runs as its own user without any capability, and writes nowhere but in its folder.
	m.does("ps -o user= -p "+pid, "bulkhead")
	if out := m.does("cat /proc/"+pid+"/status", "NoNewPrivs:\t1"); !strings.Contains(out, "CapEff:\t0000000000000000") ||
		!strings.Contains(out, "Seccomp:\t2") {
		t.Errorf("the service may\n%s", out)
	}
	for _, at := range []string{"/etc/new", "/usr/new", "/var/new", "/root/new"} {
		if out, err := m.booted("nsenter -t " + pid + " -m -r touch " + at); err == nil ||
			!strings.Contains(out, "Read-only") && !strings.Contains(out, "Permission") {
			t.Errorf("%s can be written: %v %s", at, err, out)
		}
	}
	m.does("stat -c '%U %a' /var/lib/bulkhead /run/bulkhead", "bulkhead 700\nbulkhead 755")

	check := "code=0; bulkhead check /root/m.eml || code=$?; echo code: $code"
	m.does("bulkhead ready && bulkhead report /root/m.eml", "newly listed")
	m.does(check, "code: 1")
	m.does("cd /root && bulkhead login", "http://127.0.0.1:8420/login?link=")
	m.does("cd /root && bulkhead history", "spam")
	m.does("echo '[tally]\nthreshold = 33' >>/etc/bulkhead/bulkhead.toml && systemctl reload bulkhead", "")
	nodetest.Settle(t, nodetest.Patience, "the reload", func() string {
		out, err := m.booted("journalctl --no-pager -u bulkhead")
		if err != nil || !strings.Contains(out, "changed=[tally.threshold]") {
			return fmt.Sprint(out, err)
		}
		return ""
	})
	m.does("kill -9 "+pid, "")
	pid = m.active(pid)
	m.does(check, "code: 1")
	m.does("dpkg -i /root/next.deb", "over (")
	pid = m.active(pid)
	m.does(check, "code: 1")
	m.waits()
	m.does("systemctl stop bulkhead; systemctl show -p ActiveState -p Result bulkhead",
		"Result=success\nActiveState=inactive")
	m.does("systemctl start bulkhead", "")
	m.active("")
	m.does("dpkg -P bulkhead; systemctl is-active bulkhead || true", "inactive")
}
