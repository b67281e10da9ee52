package main

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// packageFolder holds the source files of the packages.
const packageFolder = "../../packaging"

// A machine runs the scripts of packages, with one unit known to its tools.
type machine struct {
	t       *testing.T
	dir     string
	systemd string // folder that exists while systemd runs
}

// tools are stand-ins that append their arguments to the file calls. The files enabled, active,
// known, preset and denied record that a unit is enabled, runs, was ever enabled, is enabled by a
// preset, or must not be started by a package.
var tools = map[string]string{
	"getent": "exit 0",
	"chgrp":  "exit 0",
	"systemctl": `case "$*" in
*is-enabled*) test -e "$MACHINE/enabled"; exit ;;
*preset*) test ! -e "$MACHINE/preset" || touch "$MACHINE/enabled" ;;
*try-restart*) : ;;
*disable*) rm -f "$MACHINE/enabled" ;;
enable*) touch "$MACHINE/enabled" ;;
esac
case "$*" in
*--now*bulkhead* | stop*) rm -f "$MACHINE/active" ;;
start* | restart*) touch "$MACHINE/active" ;;
esac`,
	"deb-systemd-helper": `case "$*" in
*was-enabled*) test ! -e "$MACHINE/known" || test -e "$MACHINE/enabled"; exit ;;
enable*) touch "$MACHINE/known" "$MACHINE/enabled" ;;
update-state*) touch "$MACHINE/known" ;;
purge*) rm -f "$MACHINE/known" "$MACHINE/enabled" ;;
esac`,
	"deb-systemd-invoke": `test ! -e "$MACHINE/denied" || exit 0
case "$*" in
stop*) rm -f "$MACHINE/active" ;;
start* | restart*) test ! -e "$MACHINE/enabled" || touch "$MACHINE/active" ;;
esac`,
	"supervise-daemon": `echo "$*"`,
	"rc-service":       `case "$*" in *stop) rm -f "$MACHINE/active" ;; esac`,
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir()}
	m.systemd = filepath.Join(m.dir, "systemd")
	if err := os.Mkdir(m.systemd, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range tools {
		text = "#!/bin/sh\necho \"" + name + " $*\" >>\"$MACHINE/calls\"\n" + text + "\nexit 0\n"
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// here returns a file of packaging, made to work on this machine.
func (m *machine) here(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(packageFolder, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.NewReplacer("/run/systemd/system", m.systemd, "/usr/bin/", m.dir+"/", "/etc/",
		filepath.Join(m.dir, "etc")+"/", " /var/spool/", " "+m.dir+"/var/spool/",
		" /usr/share/", " "+m.dir+"/usr/share/").Replace(string(text))
}

// run runs a script as its package manager does, and returns the calls of the tools.
func (m *machine) run(script string, args ...string) string {
	m.t.Helper()
	calls := filepath.Join(m.dir, "calls")
	if err := os.WriteFile(calls, nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", m.here(script), script}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+m.dir+":"+os.Getenv("PATH"), "MACHINE="+m.dir, "DPKG_ROOT="+m.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s %q: %v: %s", script, args, err, out)
	}
	asked, err := os.ReadFile(calls)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(asked)
}

// set makes files of the machine, or removes them.
func (m *machine) set(there bool, names ...string) {
	m.t.Helper()
	for _, name := range names {
		path := filepath.Join(m.dir, name)
		err := os.Remove(path)
		if there {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
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

// TestScriptsOfDeb checks that the first installation starts the service, unless packages may
// start none on the machine, and that later decisions of the administrator survive upgrades.
func TestScriptsOfDeb(t *testing.T) {
	m := newMachine(t)
	m.run("deb/postinst", "configure", "")
	m.want("installed", true, true)
	m.run("deb/postinst", "configure", "0.1.0")
	m.want("upgraded", true, true)

	m.run("deb/prerm", "upgrade", "0.2.0")
	m.want("in the middle of an upgrade", true, true)
	m.set(false, "enabled", "active") // systemctl disable --now bulkhead
	if asked := m.run("deb/postinst", "configure", "0.1.0"); !strings.Contains(asked, "daemon-reload") {
		t.Errorf("systemd is not told of the new unit: %s", asked)
	}
	m.want("upgraded where it was disabled", false, false)
	m.run("deb/postinst", "abort-upgrade", "0.2.0")
	m.want("not upgraded where it was disabled", false, false)

	m = newMachine(t)
	m.set(true, "denied")
	m.run("deb/postinst", "configure", "")
	m.want("installed where packages start nothing", true, false)

	m = newMachine(t)
	if err := os.Remove(m.systemd); err != nil {
		t.Fatal(err)
	}
	if asked := m.run("deb/postinst", "configure", ""); strings.Contains(asked, "systemctl") ||
		strings.Contains(asked, "invoke") {
		t.Errorf("without systemd: %s", asked)
	}
	m.want("installed without systemd", true, false)
}

// TestRemoveAndInstallAgain checks that a removed package runs again after it is reinstalled, and
// that a purged one leaves no enabled unit and no data, except links of the administrator.
func TestRemoveAndInstallAgain(t *testing.T) {
	m := newMachine(t)
	m.run("deb/postinst", "configure", "")
	m.run("deb/prerm", "remove")
	m.want("removed", true, false)
	m.run("deb/postrm", "remove")
	m.run("deb/postinst", "configure", "0.1.0")
	m.want("installed again", true, true)
	m.run("deb/prerm", "remove")
	m.run("deb/postrm", "remove")
	data := filepath.Join(m.dir, "var/lib/bulkhead")
	if err := os.MkdirAll(filepath.Join(data, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.run("deb/postrm", "remove")
	if _, err := os.Stat(data); err != nil {
		t.Errorf("removal took the data: %v", err)
	}
	elsewhere := filepath.Join(m.dir, "elsewhere")
	if err := errors.Join(os.Rename(data, elsewhere), os.Symlink(elsewhere, data)); err != nil {
		t.Fatal(err)
	}
	m.run("deb/postrm", "purge")
	if _, err := os.Stat(filepath.Join(data, "store")); err != nil {
		t.Errorf("the purge took what is elsewhere: %v", err)
	}
	if err := errors.Join(os.Remove(data), os.Rename(elsewhere, data)); err != nil {
		t.Fatal(err)
	}
	m.run("deb/postrm", "purge")
	m.want("purged", false, false)
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data of a purged package: %v", err)
	}
	m.run("deb/postrm", "purge") // where there is none
}

// TestScriptsOfRPM checks that presets decide whether the service is enabled, that nothing
// starts it, and that an upgrade restarts it if it runs. rpm passes the number of versions.
func TestScriptsOfRPM(t *testing.T) {
	m := newMachine(t)
	m.run("rpm/post", "1")
	m.want("installed", false, false)
	m = newMachine(t)
	m.set(true, "preset")
	m.run("rpm/post", "1")
	m.want("installed where a preset enables it", true, false)

	m.set(false, "enabled")
	m.set(true, "active")
	m.run("rpm/post", "2")
	m.run("rpm/preun", "1")
	if asked := m.run("rpm/postun", "1"); !strings.Contains(asked, "try-restart") {
		t.Errorf("the old version runs on: %s", asked)
	}
	m.want("upgraded where it was disabled", false, true)
	m.set(true, "enabled")
	m.run("rpm/preun", "0")
	m.run("rpm/postun", "0")
	m.want("removed", false, false)
}

// spoolFolder is the default of waiting.Shared, which other tests change.
const spoolFolder = "/var/spool/bulkhead"

// TestFolderOfWaitingVotes checks that a package makes the folder in which votes of all users wait,
// before the node or its timer first runs, as systemd makes it again, and that votes outlive an upgrade
// and a removal.
func TestFolderOfWaitingVotes(t *testing.T) {
	line, err := os.ReadFile(filepath.Join(packageFolder, "bulkhead.tmpfiles"))
	if err != nil || !strings.HasSuffix(string(line), "\nd "+spoolFolder+" 1777 root root -\n") {
		t.Errorf("systemd makes %q, %v", line, err)
	}
	for _, p := range []struct {
		install, upgrade, remove, purge []string // script and arguments; purge: none
	}{
		{[]string{"deb/postinst", "configure", ""}, []string{"deb/postinst", "configure", "0.1.0"},
			[]string{"deb/postrm", "remove"}, []string{"deb/postrm", "purge"}},
		{[]string{"rpm/post", "1"}, []string{"rpm/post", "2"}, []string{"rpm/postun", "0"}, nil},
	} {
		m := newMachine(t)
		folder := filepath.Join(m.dir, spoolFolder)
		m.run(p.install[0], p.install[1:]...)
		info, err := os.Stat(folder)
		if err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
			t.Fatalf("%s: %v, %v; want a folder of mode 1777", p.install[0], info, err)
		}
		vote := filepath.Join(folder, "ann", "1.vote")
		if err := errors.Join(os.Mkdir(filepath.Dir(vote), 0o700), os.WriteFile(vote, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		m.run(p.upgrade[0], p.upgrade[1:]...)
		m.run(p.remove[0], p.remove[1:]...)
		if _, err := os.Stat(vote); err != nil {
			t.Errorf("%s: a removal took votes: %v", p.remove[0], err)
		}
		if p.purge != nil {
			m.run(p.purge[0], p.purge[1:]...)
		} else if err := os.RemoveAll(filepath.Dir(vote)); err != nil {
			t.Fatal(err)
		} else {
			m.run(p.remove[0], p.remove[1:]...)
		}
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder stays: %v", p.remove[0], err)
		}
	}
}

// TestCompiledScripts checks that an upgrade or a removal takes what sievec has made of the scripts for
// Dovecot, and no script.
func TestCompiledScripts(t *testing.T) {
	for script, args := range map[string][]string{"deb/prerm": {"upgrade", "remove"}, "rpm/preun": {"1", "0"}} {
		for _, arg := range args {
			m := newMachine(t)
			source := filepath.Join(m.dir, "usr/share/bulkhead/dovecot/spam.sieve")
			compiled := strings.TrimSuffix(source, "sieve") + "svbin"
			if err := errors.Join(os.MkdirAll(filepath.Dir(source), 0o755), os.WriteFile(source, nil, 0o644),
				os.WriteFile(compiled, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			m.run(script, arg)
			if _, err := os.Stat(source); err != nil {
				t.Errorf("%s %s: %v", script, arg, err)
			}
			if _, err := os.Stat(compiled); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %s: %s: %v, want none", script, arg, compiled, err)
			}
		}
	}
}

// TestConfigurationOfThePackage checks that only the service can read the file, which may
// contain passwords, and that a mode set by the administrator stays.
func TestConfigurationOfThePackage(t *testing.T) {
	for script, first := range map[string][]string{"deb/postinst": {"configure", ""}, "rpm/post": {"1"},
		"apk/post-install": {"0.1.0"}} {
		m := newMachine(t)
		path := filepath.Join(m.dir, "etc", "bulkhead", "bulkhead.toml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644),
			os.Chmod(path, 0o644)); err != nil {
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
		if asked := m.run(script, first...); mode() != 0o640 || !strings.Contains(asked, "chgrp bulkhead "+path) {
			t.Errorf("%s: mode %v after the installation, asked for %q; want 0640 and the group of the service", script,
				mode(), asked)
		}
		upgrade, ok := map[string][]string{"deb/postinst": {"configure", "0.1.0"}, "rpm/post": {"2"}}[script]
		if !ok { // apk runs no script
			continue
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if m.run(script, upgrade...); mode() != 0o644 {
			t.Errorf("%s: mode %v after an upgrade, was 0644", script, mode())
		}
	}
}

// TestPackageIsLocal checks that a node started by a package listens to this machine only.
func TestPackageIsLocal(t *testing.T) {
	cfg, err := config.Load(filepath.Join(packageFolder, "bulkhead.toml"))
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, d := range cfg.Listen.Doors() {
		if d.Address == "" {
			continue
		}
		open++
		if addr, err := netip.ParseAddrPort(d.Address); err != nil || !addr.Addr().IsLoopback() {
			t.Errorf("%s listens at %s", d.Key, d.Address)
		}
	}
	if open == 0 || cfg.Mesh.Mode != "off" {
		t.Errorf("%d doors are open, mesh.mode is %q", open, cfg.Mesh.Mode)
	}
	if _, err := config.Load(filepath.Join(packageFolder, "container.toml")); err != nil {
		t.Error(err)
	}
}

// TestOpenRC checks that the service of Alpine behaves like the unit, does not start with a mistake
// in its configuration, and goes on running if a restart would fail.
func TestOpenRC(t *testing.T) {
	m := newMachine(t)
	unit := m.here("bulkhead.service")
	script := m.here("apk/bulkhead.initd")
	call := func(what string, env ...string) (string, error) {
		t.Helper()
		stub := "checkpath() { echo checkpath $*; }\nebegin() { :; }\neend() { return $1; }\nRC_SVCNAME=bulkhead\n"
		cmd := exec.Command("sh", "-c", stub+script+"\n"+what)
		cmd.Env = append(append(os.Environ(), "PATH="+m.dir+":"+os.Getenv("PATH"), "MACHINE="+m.dir), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := call(`echo "$command ${command_args% --data *}"`); err != nil ||
		!strings.Contains(unit, "\nExecStart="+out) {
		t.Errorf("OpenRC starts %q, %v; systemd not", out, err)
	}
	if out, err := call(
		`set -- $supervise_daemon_args; echo "UMask=$2"; echo "LimitNOFILE=${rc_ulimit#-n }"; ` +
			`echo "User=${command_user%:*}"`); err != nil {
		t.Error(err)
	} else {
		for line := range strings.Lines(out) {
			if !strings.Contains(unit, "\n"+line) {
				t.Errorf("the unit does not have %q", line)
			}
		}
	}
	if out, err := call("reload"); err != nil || out != "bulkhead --signal HUP\n" {
		t.Errorf("reload: %q, %v", out, err)
	}
	for code, ok := range map[string]bool{"0": true, "78": false} {
		if err := os.WriteFile(filepath.Join(m.dir, "bulkhead"), []byte("#!/bin/sh\necho bulkhead $*\nexit "+code+"\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
		out, err := call("start_pre", "RC_CMD=start")
		if (err == nil) != ok || strings.Contains(out, "0700 /var/lib/bulkhead") != ok ||
			!strings.Contains(out, "bulkhead config check "+m.dir) {
			t.Errorf("start where the check ends with %s: %q, %v", code, out, err)
		}
		if out, err := call("stop_pre", "RC_CMD=restart"); (err == nil) != ok {
			t.Errorf("restart where the check ends with %s: %q, %v", code, out, err)
		}
		if out, err := call("stop_pre", "RC_CMD=stop"); err != nil || out != "" {
			t.Errorf("stop: %q, %v", out, err)
		}
	}
}

// TestSocketsOfTheUnit checks that a mail server in the group of the service can reach its sockets,
// and that other users cannot.
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
