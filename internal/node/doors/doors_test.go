package doors

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// doorKeys returns the keys of the table of doors, sorted.
func doorKeys() (keys []string) {
	for _, d := range new(Set).list() {
		keys = append(keys, d.key)
	}
	slices.Sort(keys)
	return keys
}

// TestDoorsAreListed checks that a door has a line of the table, a key of [listen], a place in the
// README and one on a page of docs/protocols, and none of them is without the others.
func TestDoorsAreListed(t *testing.T) {
	want := doorKeys()
	if len(want) < 11 || len(slices.Compact(slices.Clone(want))) != len(want) {
		t.Fatalf("the table has doors %q", want)
	}
	var keys []string
	for _, d := range config.Default().Listen.Doors() {
		keys = append(keys, d.Key)
		if d.Address == "" {
			t.Errorf("listen.%s has no address by default", d.Key)
		}
	}
	pages, err := filepath.Glob("../../../docs/protocols/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, page := range pages {
		named := named(t, section(t, page, "## Name", "## "))
		if len(named) == 0 {
			t.Errorf("%s names no door", page)
		}
		documented = append(documented, named...)
	}
	for place, got := range map[string][]string{
		"[listen]":           keys,
		"docs/protocols":     documented,
		"the README's table": named(t, section(t, "../../../README.md", "## Front doors", "## ")),
	} {
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s has doors %q, the table %q", place, got, want)
		}
	}
}

// section returns the text of a file from a heading to the next one.
func section(t *testing.T, path, heading, next string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %q", path, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n"+next)
	return rest
}

// named returns the keys that a text describes, as `key`: at the beginning of a line or in a table.
func named(t *testing.T, text string) (keys []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?m)(?:^|[|,] )`([a-z0-9_]+)`:").FindAllStringSubmatch(text, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

// TestDoorsAreApart checks that the package of a door's protocol is imported only by the files that
// are named after it, so that a new door takes new files and the lines that list it.
func TestDoorsAreApart(t *testing.T) {
	const module = "github.com/bulkhead-mail/bulkhead/"
	protocols := []string{"razor2", "pyzor", "dcc", "fuzzy", "milter", "policy", "dnsbl"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(path, module)
			if !slices.Contains(protocols, name) {
				continue
			}
			if seen++; !strings.HasPrefix(file, name) {
				t.Errorf("%s imports %s", file, name)
			}
		}
	}
	if seen < len(protocols) {
		t.Errorf("%d imports of protocols found, want one of each of %q", seen, protocols)
	}
}
