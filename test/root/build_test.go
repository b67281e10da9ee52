//go:build linux

package root

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// aptGet stands in for the real one: it notes how it was called, puts a package where its arguments
// ask for it, and fails for the packages in $BROKEN.
const aptGet = `#!/bin/sh
echo "$*" >>"$CALLS"
config= last=
for word; do [ "$last" != -c ] || config=$word; last=$word; done
case "$*" in
*"$BROKEN"*) echo "E: cannot"; exit 100 ;;
*--download-only*) touch "$(sed -n 's/^Dir::Cache "\(.*\)";/\1/p' "$config")/archives/$last.deb" ;;
esac
`

// dpkgDeb unpacks the files that build copies from packages.
const dpkgDeb = `#!/bin/sh
[ "$(basename "$2")" != "$BROKEN" ] || exit 2
tar -c -C "$FILES" .
`

// A machine has an apt of its own.
type machine struct {
	t   *testing.T
	dir string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	for name, text := range map[string]string{
		"bin/apt-get": aptGet, "bin/dpkg-deb": dpkgDeb, "bin/dpkg": "#!/bin/sh\necho amd64\n",
		"files/usr/share/base-passwd/passwd.master": "root:x:0:0::/root:/bin/sh\n",
		"files/usr/share/base-passwd/group.master":  "root:x:0:\n",
		"files/usr/share/libc-bin/nsswitch.conf":    "passwd: files\n",
		"files/etc/issue":                           "",
	} {
		path := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// build runs the script and returns what it said, and whether it ended well.
func (m *machine) build(broken string) (output string, ok bool) {
	m.t.Helper()
	cmd := exec.Command("./build", m.root())
	cmd.Env = append(os.Environ(), "PATH="+m.dir+"/bin:"+os.Getenv("PATH"), "CALLS="+m.dir+"/calls",
		"FILES="+m.dir+"/files", "BROKEN="+broken)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func (m *machine) root() string { return filepath.Join(m.dir, "cache", "root") }

// TestWholeOrNot: whatever fails, there is no root then, nothing half-built is
// left, and the reason is said.
func TestWholeOrNot(t *testing.T) {
	m := newMachine(t)
	for _, tt := range []struct{ broken, says string }{
		{"nats-server", "cannot fetch nats-server"},
		{"rspamd.deb", ""},
	} {
		output, ok := m.build(tt.broken)
		if ok || !strings.Contains(output, tt.says) {
			t.Errorf("%s broken: ended well %v, said %q", tt.broken, ok, output)
		}
		if left, _ := os.ReadDir(filepath.Dir(m.root())); len(left) > 0 {
			t.Errorf("%s broken: %v is left", tt.broken, left)
		}
	}
	output, ok := m.build("update") // other lists may be good enough
	if _, err := os.Stat(m.root() + "/etc/passwd"); !ok || err != nil {
		t.Errorf("nothing broken that is needed: %v, said %q", err, output)
	}
	if left, _ := os.ReadDir(filepath.Dir(m.root())); len(left) != 1 {
		t.Errorf("%v, want the root alone", left)
	}
}

// TestMachineIsLeftAlone: apt-get only reads lists and fetches, with a state and a cache separate
// from the machine's, and without its hooks.
func TestMachineIsLeftAlone(t *testing.T) {
	m := newMachine(t)
	// The configuration goes with the working folder: keep it.
	keep := strings.Replace(aptGet, "config= last=", "config= last=\ncp \"$3\" \"$CALLS.conf\"", 1)
	if err := os.WriteFile(m.dir+"/bin/apt-get", []byte(keep), 0o755); err != nil {
		t.Fatal(err)
	}
	if output, ok := m.build("nothing"); !ok {
		t.Fatal(output)
	}
	calls, err := os.ReadFile(m.dir + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(calls)) {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] != "-q" || words[1] != "-c" ||
			words[3] != "update" && (words[3] != "--download-only" || words[4] != "install") {
			t.Errorf("apt-get %s", line)
		}
	}
	config, err := os.ReadFile(m.dir + "/calls.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Dir::State", "Dir::State::status", "Dir::Cache", "Dir::Log"} {
		if !strings.Contains(string(config), name+" \""+m.root()+".") {
			t.Errorf("%s is not apart:\n%s", name, config)
		}
	}
	for _, hook := range []string{"APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success",
		"APT::Update::Pre-Invoke", "DPkg"} {
		if !strings.Contains(string(config), "#clear "+hook+";") {
			t.Errorf("hooks %s of the machine run:\n%s", hook, config)
		}
	}
}

// TestElsewhere: a machine that cannot do it says why.
func TestElsewhere(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"sh", "dirname", "uname", "id", "sed", "cat", "mktemp", "mkdir", "unshare", "flock",
		"sha256sum"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cache := t.TempDir()
	for _, script := range [][]string{{"./build", filepath.Join(cache, "root")}, {"./enter", "true"}} {
		cmd := exec.Command(script[0], script[1:]...)
		cmd.Env = []string{"PATH=" + bin, "HOME=" + cache}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "there is no ") || !strings.Contains(string(out), "Debian") {
			t.Errorf("%s without apt: %v, %q", script[0], err, out)
		}
	}
	if left, _ := os.ReadDir(cache); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
