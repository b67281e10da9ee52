package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/door"
)

// packageFolder holds what the Debian package is made of.
const packageFolder = "../../packaging"

// A machine runs the maintainer scripts with a systemctl that knows one unit.
type machine struct {
	t       *testing.T
	dir     string
	systemd string // folder that is there while systemd runs
}

const systemctl = `#!/bin/sh
echo "$*" >>"$MACHINE/calls"
case "$*" in
*is-enabled*) test -e "$MACHINE/enabled"; exit ;;
*try-restart*) : ;;
enable*) touch "$MACHINE/enabled" ;;
disable*) rm -f "$MACHINE/enabled" ;;
esac
case "$*" in
*--now*bulkhead* | stop*) rm -f "$MACHINE/active" ;;
start* | restart*) touch "$MACHINE/active" ;;
esac
exit 0
`

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir()}
	m.systemd = filepath.Join(m.dir, "systemd")
	if err := os.Mkdir(m.systemd, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"systemctl": systemctl, "getent": "#!/bin/sh\nexit 0\n", "chgrp": "#!/bin/sh\necho \"chgrp $*\" >>\"$MACHINE/calls\"\n"} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// run runs a script as dpkg does, and returns what systemctl was asked for.
func (m *machine) run(script string, args ...string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(packageFolder, script))
	if err != nil {
		m.t.Fatal(err)
	}
	here := strings.NewReplacer("/run/systemd/system", m.systemd, "/etc/", filepath.Join(m.dir, "etc")+"/").Replace(string(text))
	calls := filepath.Join(m.dir, "calls")
	if err := os.WriteFile(calls, nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", here, script}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+m.dir+":"+os.Getenv("PATH"), "MACHINE="+m.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s %q: %v: %s", script, args, err, out)
	}
	asked, err := os.ReadFile(calls)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(asked)
}

func (m *machine) want(when string, enabled, active bool) {
	m.t.Helper()
	for _, s := range []struct {
		name string
		want bool
	}{{"enabled", enabled}, {"active", active}} {
		if _, err := os.Stat(filepath.Join(m.dir, s.name)); (err == nil) != s.want {
			m.t.Errorf("%s: %s = %v, want %v", when, s.name, err == nil, s.want)
		}
	}
}

// TestMaintainerScripts: the first installation starts the service; what the
// administrator decided afterwards outlives upgrades.
func TestMaintainerScripts(t *testing.T) {
	m := newMachine(t)
	m.run("postinst", "configure", "")
	m.want("installed", true, true)
	m.run("postinst", "configure", "0.1.0")
	m.want("upgraded", true, true)

	m.run("prerm", "upgrade", "0.2.0")
	m.want("in the middle of an upgrade", true, true)
	for _, name := range []string{"enabled", "active"} { // systemctl disable --now bulkhead
		if err := os.Remove(filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if asked := m.run("postinst", "configure", "0.1.0"); !strings.Contains(asked, "daemon-reload") {
		t.Errorf("systemd is not told of the new unit: %s", asked)
	}
	m.want("upgraded where it was disabled", false, false)
}

// TestScriptsOfRPM: the same by rpm, which says how many versions there are.
func TestScriptsOfRPM(t *testing.T) {
	m := newMachine(t)
	m.run("postinst", "1")
	m.want("installed", true, true)
	if err := os.Remove(filepath.Join(m.dir, "enabled")); err != nil {
		t.Fatal(err)
	}
	m.run("postinst", "2")
	m.run("prerm", "1")
	m.run("postrm", "1")
	m.want("upgraded where it was disabled", false, true)
	m.run("prerm", "0")
	m.run("postrm", "0")
	m.want("removed", false, false)
}

// TestConfigurationOfThePackage: the file may hold passwords, so that only the
// service reads it; a mode that the administrator gave it stays.
func TestConfigurationOfThePackage(t *testing.T) {
	m := newMachine(t)
	path := filepath.Join(m.dir, "etc", "bulkhead", "bulkhead.toml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	mode := func() os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if asked := m.run("postinst", "configure", ""); mode() != 0o640 || !strings.Contains(asked, "chgrp bulkhead "+path) {
		t.Errorf("mode %v after the installation, asked for %q; want 0640 and the group of the service", mode(), asked)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if m.run("postinst", "configure", "0.1.0"); mode() != 0o644 {
		t.Errorf("mode %v after an upgrade, was 0644", mode())
	}
}

// TestRemoveAndInstallAgain: a package that was removed and comes back runs again.
func TestRemoveAndInstallAgain(t *testing.T) {
	m := newMachine(t)
	m.run("postinst", "configure", "")
	m.run("prerm", "remove")
	if _, err := os.Stat(filepath.Join(m.dir, "active")); err == nil {
		t.Error("the service runs on without its package")
	}
	m.run("postrm", "remove")
	m.run("postinst", "configure", "0.1.0")
	m.want("installed again", true, true)
	link := filepath.Join(m.dir, "etc", "systemd", "system", "multi-user.target.wants", "bulkhead.service")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/lib/systemd/system/bulkhead.service", link); err != nil {
		t.Fatal(err)
	}
	m.run("prerm", "remove")
	m.run("postrm", "remove")
	m.run("postrm", "purge")
	if _, err := os.Lstat(link); err == nil {
		t.Errorf("%s is left after a purge", link)
	}
}

// TestSocketsOfTheUnit: a mail server in the group of the service reaches its
// sockets, and nobody else does.
func TestSocketsOfTheUnit(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(packageFolder, "bulkhead.service"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^UMask=([0-7]+)$`).FindSubmatch(unit)
	if found == nil {
		t.Fatal("the unit sets no umask")
	}
	mask, err := strconv.ParseInt(string(found[1]), 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "milter")
	before := syscall.Umask(int(mask))
	l, err := door.Listen(t.Context(), "unix:"+path)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o067 != 0o060 {
		t.Errorf("a socket has mode %v, %v; want one that the group alone may write to", info.Mode(), err)
	}
}
