package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(dir, MinBytes, func() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func read(t *testing.T, l *Log, q admin.AuditQuery) (all []admin.AuditEntry) {
	t.Helper()
	for {
		page, err := l.Read(q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if q.Before = page.Next; page.Next == 0 {
			return all
		}
	}
}

// TestRecord: entries are read in reverse order, by pages and filters, also after a restart; the
// files stay within their bound and lose the oldest.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	const n = 1500
	for i := range n {
		if err := l.Append(admin.AuditEntry{Account: fmt.Sprintf("admin%d", i%3), Action: "weighPeer", Door: "http",
			About: map[string]string{"i": fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	size := int64(0)
	for _, name := range []string{File, OlderFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if size += info.Size(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
	if size > MinBytes {
		t.Errorf("%d bytes, want at most %d", size, MinBytes)
	}
	l = open(t, dir)
	got := read(t, l, admin.AuditQuery{Limit: 7})
	if len(got) < 200 || len(got) == n {
		t.Fatalf("%d entries are left of %d", len(got), n)
	}
	for i, e := range got {
		if want := fmt.Sprint(n - 1 - i); e.About["i"] != want || i > 0 && e.ID >= got[i-1].ID {
			t.Fatalf("entry %d is %+v, want that of %s", i, e, want)
		}
	}
	for _, e := range read(t, l, admin.AuditQuery{Account: "admin1"}) {
		if e.Account != "admin1" {
			t.Fatalf("%+v is not of admin1", e)
		}
	}
	if got := read(t, l, admin.AuditQuery{Action: "evictPeer"}); len(got) != 0 {
		t.Errorf("%d entries of what nobody did", len(got))
	}
}

// TestCutShort: the remains of a line after a crash do not spoil other lines.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	if err := l.Append(admin.AuditEntry{Action: "one"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, File), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"id":17,"acti`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := l.Append(admin.AuditEntry{Action: "two"}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, l, admin.AuditQuery{}); len(got) != 2 || got[0].Action != "two" || got[1].Action != "one" {
		t.Errorf("%+v, want two and one", got)
	}
}

// TestLost: an entry that cannot be written is counted; long texts are cut.
func TestLost(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "absent"))
	if err := l.Append(admin.AuditEntry{Action: "one"}); err == nil || l.Lost.Load() != 1 {
		t.Errorf("error %v, %d lost", err, l.Lost.Load())
	}
	l = open(t, t.TempDir())
	if err := l.Append(admin.AuditEntry{Action: "one", Error: strings.Repeat("é", 5000)}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, l, admin.AuditQuery{}); len(got) != 1 || len(got[0].Error) > maxText+3 ||
		!strings.HasPrefix(got[0].Error, "éé") {
		t.Errorf("entries %+v", got)
	}
}

// TestConcurrent: no two entries are the same, and none is lost.
func TestConcurrent(t *testing.T) {
	l := open(t, t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := l.Append(admin.AuditEntry{Action: "one"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	ids := make(map[int64]bool)
	for _, e := range read(t, l, admin.AuditQuery{}) {
		ids[e.ID] = true
	}
	if len(ids) != 160 {
		t.Errorf("%d entries, want 160", len(ids))
	}
}

// FuzzRead: no file makes the reader panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"action\":\"one\"}\n"))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		page := admin.AuditPage{}
		collect(&page, text, &admin.AuditQuery{Limit: 3})
		if len(page.Entries) > 3 {
			t.Fatalf("%d entries on a page of 3", len(page.Entries))
		}
	})
}

// TestBeside checks that the entries of two logs are read as one, by pages, and that one of them may be missing.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	own, folder := open(t, dir), filepath.Join(dir, "other")
	own.Beside(folder)
	add := func(l *Log, id int64) {
		t.Helper()
		l.now = func() time.Time { return time.UnixMicro(id) }
		if err := l.Append(admin.AuditEntry{Action: "weighPeer"}); err != nil {
			t.Fatal(err)
		}
	}
	add(own, 1)
	if got := read(t, own, admin.AuditQuery{}); len(got) != 1 {
		t.Errorf("without the other log: %+v", got)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	other := open(t, folder)
	const n = 50
	for id := int64(2); id <= n; id++ {
		add([]*Log{own, own, other}[id%3], id)
	}
	for _, limit := range []int{1, 2, 7, n - 1, n, n + 1} {
		got := read(t, own, admin.AuditQuery{Limit: limit})
		for i, e := range got {
			if e.ID != int64(n-i) {
				t.Fatalf("pages of %d: entry %d has ID %d, want %d", limit, i, e.ID, n-i)
			}
		}
		if len(got) != n {
			t.Errorf("pages of %d: %d entries, want %d", limit, len(got), n)
		}
	}
	if got := read(t, own, admin.AuditQuery{Before: 9, Limit: 3}); len(got) != 8 {
		t.Errorf("before entry 9: %d entries", len(got))
	}
}
