//go:build interop

package torture

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestDisk: what was synced survives every power cut, and what was not is gone after some
// of them, whole or in part, and is there after others.
func TestDisk(t *testing.T) {
	d := newDisk(t, rand.New(rand.NewPCG(1, 2)))
	shell := func(script string) string {
		t.Helper()
		_, out := nodetest.Command(t, "", "sh", "-c", "cd "+d.where+" || exit 1\n"+script)
		return out
	}
	later, names := make(map[string]bool), make(map[string]bool)
	for range 40 {
		d.clear(t)
		if out := shell(`mkdir a && yes 1 | head -c 2048 >a/kept && sync a/kept a . || exit 1
			yes 2 | head -c 1024 >>a/kept
			echo 3 >a/new && sync a/new
			mv a/kept a/moved`); out != "" {
			t.Fatalf("writing: %s", out)
		}
		d.cut()
		if out := shell("echo 4 >a/dead"); !strings.Contains(out, "Input/output error") {
			t.Fatalf("writing without power: %q", out)
		}
		d.boot(t)
		files := strings.Fields(shell("ls a"))
		name := "kept"
		if len(files) > 0 && files[0] != "kept" {
			name = "moved"
		}
		names[strings.Join(files, " ")] = true
		got := shell("cat a/" + name)
		if len(got) < 2048 || got[:2048] != strings.Repeat("1\n", 1024) {
			t.Fatalf("%v: of what was synced there is %.20q", files, got)
		}
		later[got[2048:]] = true
	}
	whole := strings.Repeat("2\n", 512)
	if !later[""] || !later[whole] || len(later) < 3 {
		t.Errorf("what was not synced was there in %d ways: not at all %v, whole %v", len(later), later[""], later[whole])
	}
	for _, want := range []string{"kept", "kept new", "moved new"} {
		if !names[want] {
			t.Errorf("never %q in the folder, only %v", want, names)
		}
	}
}

// TestDiskFails: the faults reach programs as what they are.
func TestDiskFails(t *testing.T) {
	d := newDisk(t, rand.New(rand.NewPCG(1, 2)))
	file := filepath.Join(d.where, "file")
	for errno, want := range map[syscall.Errno]string{syscall.EIO: "Input/output error", syscall.ENOSPC: "No space left",
		syscall.EROFS: "Read-only file system"} {
		d.ail(fault{errno: errno, share: 1})
		if _, out := nodetest.Command(t, "", "sh", "-c", "echo 1 >"+file); !strings.Contains(out, want) {
			t.Errorf("%v: a program says %q", errno, out)
		}
		if struck := d.ail(fault{}); struck == 0 {
			t.Errorf("%v: no operation is counted as failed", errno)
		}
	}
	if code, out := nodetest.Command(t, "", "sh", "-c", "echo 1 >"+file); code != 0 {
		t.Errorf("a disk that is well again: %s", out)
	}
	d.ail(fault{errno: syscall.EIO, share: 1, reads: true})
	if _, out := nodetest.Command(t, "", "cat", file); !strings.Contains(out, "Input/output error") {
		t.Errorf("reading: %q", out)
	}
}
