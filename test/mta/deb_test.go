package mta

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/nodetest"
)

// unpack returns the folder into which the files of Debian packages were
// unpacked. Libraries that they need and that are missing are installed.
func unpack(t testing.TB, packages ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "bulkhead-deb", strings.Join(packages, "+"))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	needRoot(t)
	tmp, err := os.MkdirTemp("", "bulkhead-deb-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	apt(t, tmp, append([]string{"download"}, packages...)...)
	debs, err := filepath.Glob(tmp + "/*.deb")
	if err != nil || len(debs) < len(packages) {
		t.Fatalf("apt-get download gave %v, %v", debs, err)
	}
	root := filepath.Join(tmp, "root")
	for _, deb := range debs {
		run(t, tmp, "dpkg", "-x", deb, root)
		installLibraries(t, run(t, tmp, "dpkg", "-f", deb, "Depends"))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, tmp, "cp", "-a", root, dir+".new")
	if err := os.Rename(dir+".new", dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// installLibraries installs what is a library, or a module of Perl or Python,
// among dependencies: nothing that starts a service or excludes another package.
func installLibraries(t testing.TB, depends string) {
	t.Helper()
	var missing []string
	for d := range strings.SplitSeq(depends, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(d), " ")
		name, _, _ = strings.Cut(name, ":")
		if !strings.HasPrefix(name, "lib") && !strings.HasPrefix(name, "python3-") {
			continue
		}
		if out, _ := exec.Command("dpkg-query", "-W", "-f", "${Status}", name).Output(); string(out) != "install ok installed" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		apt(t, "/", append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
	}
}

// installed returns the path of a program, and installs the package that has it
// if need be. Use it for what excludes nothing and starts nothing.
func installed(t testing.TB, program, pkg string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	needRoot(t)
	apt(t, "/", "install", "-y", "--no-install-recommends", pkg)
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		nodetest.Unavailable(t, "needs root to unpack and run real mail servers")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		nodetest.Unavailable(t, "needs Debian's packages: %v", err)
	}
}

// apt runs apt-get, updating the package lists once if it fails.
func apt(t testing.TB, dir string, args ...string) {
	t.Helper()
	try := func(args ...string) ([]byte, error) {
		cmd := exec.Command("apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120", "-o", "APT::Sandbox::User=root"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		return cmd.CombinedOutput()
	}
	out, err := try(args...)
	if err != nil {
		if _, updateErr := try("update"); updateErr == nil {
			out, err = try(args...)
		}
	}
	if err != nil {
		nodetest.Unavailable(t, "apt-get %v: %v\n%s", args, err, out)
	}
}

func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// start runs a program in the foreground until the test ends, and returns when
// it answers at address ("" for no waiting).
func start(t testing.TB, address string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	nodetest.Start(t, cmd)
	if address != "" {
		nodetest.AwaitTCP(t, address)
	}
	return cmd
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	nodetest.Await(t, what, ok)
}

// freePort returns a loopback port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	return nodetest.FreePort(t)
}

func writeFile(t testing.TB, path, format string, args ...any) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644); err != nil {
		t.Fatal(err)
	}
}
