package bulkhead_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityIsTested checks that each row of the table "What an attacker can cost" in SECURITY.md names
// tests that hold it, as `TestName` in `folder`, and that these tests exist.
func TestSecurityIsTested(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What an attacker can cost\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)` in `([a-z0-9/]+)`")
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 4 || len(tests) == 0 {
			t.Errorf("no test holds the row %.80q", line)
		}
		for _, m := range tests {
			if !hasTest(t, m[2], m[1]) {
				t.Errorf("%s has no %s, of the row %.80q", m[2], m[1], line)
			}
		}
	}
	if rows < 8 {
		t.Errorf("%d rows", rows)
	}
}

// hasTest reports whether a folder has a test function.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := fs.Glob(os.DirFS(folder), "*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
