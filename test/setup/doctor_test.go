//go:build interop

package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestDoctorDisk: doctor says that the disk of the data folder is short of room while reports
// are still taken, and that none are taken when it is full; with room again all is well,
// without a restart.
func TestDoctorDisk(t *testing.T) {
	nodetest.NeedUsers(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=100m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, 0); err != nil {
			t.Error(err)
		}
	})
	address := nodetest.Address(t)
	config := filepath.Join(dir, "bulkhead.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil,
		"[listen]\nhttp = %q\n[tally]\ncapacity = 1000\n[blocklist]\ncapacity = 1000\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, dir, nodetest.Binary(t), "serve", "--config", config, "--data", data)
	nodetest.AwaitTCP(t, address)

	type row struct {
		Name, Found, Mend string
		OK                bool
	}
	doctor := func() (code int, rows map[string]row) {
		t.Helper()
		code, out := nodetest.Command(t, "", nodetest.Binary(t), "doctor", "--json", "--server", "http://"+address)
		rows = make(map[string]row)
		for d := json.NewDecoder(strings.NewReader(out)); ; {
			var r row
			if err := d.Decode(&r); errors.Is(err, io.EOF) {
				return code, rows
			} else if err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			rows[r.Name] = r
		}
	}
	letters := 0
	report := func() int {
		t.Helper()
		letters++
		code, _ := nodetest.Command(t, mail(fmt.Sprintf("cups%d", letters)), nodetest.Binary(t), "report", "--server",
			"http://"+address, "-")
		return code
	}
	want := func(when string, code int, disk, store bool, reported int) {
		t.Helper()
		nodetest.Settle(t, nodetest.Patience, when, func() string {
			took := report()
			got, rows := doctor()
			if got != code || rows["disk"].OK != disk || rows["store"].OK != store || took != reported {
				return fmt.Sprintf("doctor ends with %d, want %d; a report with %d, want %d; rows %+v", got, code, took,
					reported, rows)
			}
			return ""
		})
	}
	want("with room", 0, true, true, 0)

	filler := filepath.Join(data, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fill := func(leave uint64) {
		t.Helper()
		var s syscall.Statfs_t
		for block := make([]byte, 64<<10); ; {
			if err := syscall.Statfs(data, &s); err != nil {
				t.Fatal(err)
			}
			if free := s.Bavail * uint64(s.Bsize); free <= leave {
				return
			} else if uint64(len(block)) > free-leave {
				block = block[:free-leave]
			}
			if _, err := f.Write(block); err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
	}
	fill(20 << 20)
	want("with little room", 65, false, true, 0)
	if _, rows := doctor(); !strings.Contains(rows["disk"].Found, "free") ||
		!strings.Contains(rows["disk"].Mend, "make room") {
		t.Errorf("with little room: %+v", rows["disk"])
	}
	// A node whose journal has failed gives up room of its own, and may recover by it once.
	nodetest.Settle(t, nodetest.Patience, "a full disk", func() string {
		fill(0)
		took := report()
		got, rows := doctor()
		if took != 75 || got != 65 || rows["disk"].OK || rows["store"].OK ||
			!strings.Contains(rows["store"].Found, "read-only") {
			return fmt.Sprintf("a report ends with %d, doctor with %d: %+v", took, got, rows)
		}
		return ""
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	f.Close()
	want("with room again", 0, true, true, 0)
}
