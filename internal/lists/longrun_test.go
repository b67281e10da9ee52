package lists

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestDeepNames looks up names with as many labels as possible: the owner of a domain may send from
// any of them.
func TestDeepNames(t *testing.T) {
	path, l := build(t, Options{}, "evil.example", "bad.co.example")
	for labels := 1; labels <= 119; labels++ {
		deep := strings.Repeat("a.", labels)
		for _, text := range []string{deep + "evil.example", "ann@" + deep + "bad.co.example",
			"http://" + deep + "evil.example/x"} {
			if _, ok := l.Find(entry(t, text)); !ok {
				t.Fatalf("%d labels: %s is not found", labels, text)
			}
		}
		if m, ok := l.Find(entry(t, deep+"good.example")); ok {
			t.Fatalf("%d labels: found %+v", labels, m)
		}
	}
	if err := Allow(path, []string{"good.evil.example"}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := l.Find(entry(t, strings.Repeat("a.", 50)+"good.evil.example")); ok {
		t.Errorf("allowed, and found: %+v", m)
	}
}

// TestReloadAfterTrouble changes a list while no file descriptor is left: the list must be read
// when one is available again, although it does not change any more.
func TestReloadAfterTrouble(t *testing.T) {
	path, _ := build(t, Options{}, "evil.example")
	s, err := OpenSet(SetOptions{Files: []File{{"bad", path}}, Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), path, []string{write(t, "new", "new.example")}, Options{}); err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err = s.Reload()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err == nil || !s.Handle("bad").HasDomain("evil.example") {
		t.Errorf("without a file descriptor: %v, want an error and the old list", err)
	}
	if err := s.Reload(); err != nil || !s.Handle("bad").HasDomain("new.example") {
		t.Errorf("with one again: %v, want the new list", err)
	}
}

// TestModeIsKept changes a list and an allow list that others may not read.
func TestModeIsKept(t *testing.T) {
	path, _ := build(t, Options{Capacity: 100}, "evil.example")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("a new list: %v, %v, want 0644", info.Mode(), err)
	}
	if err := Allow(path, []string{"a.example"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + AllowSuffix} {
		if err := os.Chmod(name, 0o640); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(name, 1234, 4321); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Add(t.Context(), path, 1<<30, []string{write(t, "more", "new.example")}, false, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Allow(path, []string{"b.example"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + AllowSuffix} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v, want 0640", name, info.Mode(), err)
		}
		if sys := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (sys.Uid != 1234 || sys.Gid != 4321) {
			t.Errorf("%s belongs to %d:%d, want 1234:4321", name, sys.Uid, sys.Gid)
		}
	}
}

// TestDiffNewerOfHashes compares a list of hashes with a text of hashes, some of them repeated.
func TestDiffNewerOfHashes(t *testing.T) {
	for _, hash := range []string{NoHash, MD5, SHA1, SHA256} {
		line := func(i int) string {
			text := fmt.Sprintf("d%d.example", i)
			if hash == NoHash {
				return text
			}
			return digest(hash, text)
		}
		_, l := build(t, Options{Hash: hash}, line(0), line(1), line(2))
		newer := write(t, "newer.txt", line(1), line(2), line(3), line(3), line(2))
		var added []string
		d, err := l.DiffNewer(t.Context(), newer, func(e Entry) { added = append(added, e.Text) })
		if want := (Difference{Old: 3, New: 3, Added: 1}); err != nil || d != want ||
			fmt.Sprint(added) != fmt.Sprint([]string{line(3)}) {
			t.Errorf("hash %q: %+v, %v, added %v; want %+v", hash, d, err, added, want)
		}
	}
}

// TestMappedNetworks lists IPv4 addresses in the form that IPv6 sockets report.
func TestMappedNetworks(t *testing.T) {
	_, l := build(t, Options{}, "::ffff:192.0.2.0/120", "::ffff:198.51.100.7", "2001:db8::/32")
	for text, want := range map[string]bool{
		"192.0.2.77": true, "::ffff:192.0.2.77": true, "192.0.3.1": false, "198.51.100.7": true, "2001:db8::5": true,
		"::ffff:192.0.2.0/120": true,
	} {
		if _, ok := l.Find(entry(t, text)); ok != want {
			t.Errorf("%s: found %v, want %v", text, ok, want)
		}
	}
}

// TestMergeKeepsAllowLists merges lists whose false positives were corrected, and checks that the
// false positives do not come back.
func TestMergeKeepsAllowLists(t *testing.T) {
	a, l := build(t, Options{}, "a.example")
	b, _ := build(t, Options{Like: l}, "b.example")
	for path, entry := range map[string]string{a: "good.a.example", b: "Good.b.example"} {
		if err := Allow(path, []string{entry}); err != nil {
			t.Fatal(err)
		}
	}
	both := t.TempDir() + "/both.list"
	for _, path := range []string{both, a} {
		for range 2 { // the second time nothing is new
			if _, err := Merge(path, 1<<30, []string{a, b}, now); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Open(path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{"a.example": true, "b.example": true, "good.a.example": false,
			"x.good.b.example": false} {
			if _, ok := m.Find(entry(t, text)); ok != want {
				t.Errorf("%s: %s found %v, want %v", path, text, ok, want)
			}
		}
		if text, err := os.ReadFile(path + AllowSuffix); err != nil || strings.Count(string(text), "\n") != 2 {
			t.Errorf("allow list %q, %v, want two lines", text, err)
		}
	}
	plain := t.TempDir() + "/plain.list"
	c, k := build(t, Options{}, "c.example")
	d, _ := build(t, Options{Like: k}, "d.example")
	if _, err := Merge(plain, 1<<30, []string{c, d}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(plain + AllowSuffix); err == nil {
		t.Error("an allow list was made of none")
	}
}

// TestAddAtOnce adds to a list and its allow list from many goroutines concurrently, as jobs of one
// machine may: nothing may be lost.
func TestAddAtOnce(t *testing.T) {
	path, _ := build(t, Options{}, "evil.example")
	const jobs = 8
	var wg sync.WaitGroup
	for i := range jobs {
		added := write(t, fmt.Sprint("more", i), fmt.Sprintf("d%d.example", i))
		wg.Go(func() {
			if _, err := Add(t.Context(), path, 1<<30, []string{added}, false, Options{}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := Allow(path, []string{fmt.Sprintf("good.d%d.example", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l, err := Open(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if _, ok := l.Find(entry(t, fmt.Sprintf("x.d%d.example", i))); !ok {
			t.Errorf("what job %d added is lost", i)
		}
		if _, ok := l.Find(entry(t, fmt.Sprintf("good.d%d.example", i))); ok {
			t.Errorf("what job %d allowed is lost", i)
		}
	}
	if n := len(l.Meta().Sources); n != jobs+1 {
		t.Errorf("%d sources, want %d", n, jobs+1)
	}
}
