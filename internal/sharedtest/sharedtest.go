// Package sharedtest finds the reference material that lies beside a
// maintainer's checkout: protocol documents, papers and the mail corpus. It is
// not part of the repository, so tests that read it skip where it is absent.
package sharedtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or folder of the reference material, for
// example Path(t, "corpus", "samples"). The material lies in the folder that
// $BULKHEAD_SHARED names, or in ../shared beside the checkout. Without it the
// test is skipped, and fails where $CI is "true".
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{root(t)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("reference material missing under CI: %v", err)
		}
		t.Skipf("needs the maintainers' reference material: %v", err)
	}
	return path
}

func root(t testing.TB) string {
	if dir := os.Getenv("BULKHEAD_SHARED"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "house_test.go")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no house_test.go above the test's folder: is this the bulkhead module?")
		}
		dir = parent
	}
}

// Unpack unpacks one archive of the corpus, for example "spamassassin-2002",
// and returns the folder that it holds. Archives are unpacked once for each
// machine and user, below the user's cache folder, and reused afterwards.
func Unpack(t testing.TB, name string) string {
	t.Helper()
	archive := Path(t, "corpus", name+".tar.zst")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(cache, "bulkhead-corpus")
	dir := filepath.Join(base, name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(base, "unpacking-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	// The archives have a 128 MiB window, which tar's own zstd call refuses.
	cmd := exec.Command("sh", "-c", `zstd -dc --long=27 "$1" | tar x -C "$2"`, "sh", archive, tmp)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s (needs the zstd command): %v\n%s", archive, err, out)
	}
	// Another test process may have been faster; its copy is as good.
	if err := os.Rename(filepath.Join(tmp, name), dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			t.Fatal(err)
		}
	}
	return dir
}
