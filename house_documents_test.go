package bulkhead_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// TestBrokenPointers checks that the checker finds broken pointers.
func TestBrokenPointers(t *testing.T) {
	tree := fstest.MapFS{
		"README.md": {Data: []byte("# Read me\n")},
		"docs/specs/p.md": {Data: []byte("# P\n\n## Wire format\n\n```\n# not a heading\n```\n\n### Step 2: `x`\n\n" +
			"## Wire format\n")},
		"docs/good.md": {Data: []byte("# Good\n\n[a](specs/p.md#wire-format-1), [b](#good), [c](../README.md), " +
			"[d](https://example.com/x.md#y), `[e](none.md)`\n")},
		"docs/bad.md": {Data: []byte("# Bad\n\n[a](specs/p.md#wire), [b](#good) and\n[c](../NONE.md)\n")},
	}
	comments := []struct {
		text          string
		found, broken int
	}{
		{"Nothing is named here.", 0, 0},
		{"Source: docs/specs/p.md. See README.md too.", 2, 0},
		{"Source: docs/specs/p.md#wire-format, #step-2-x and #wire-format-1.", 3, 0},
		{"Run it with -o ../docs/specs/p.md.", 1, 0}, // from a folder below
		{"Source: docs/specs/q.md#wire-format.", 1, 1},
		{"Source: docs/specs/p.md#wire.", 1, 1},
		{"Source: docs/specs/p.md#wire-format and\n#none.", 2, 1},
		{"Source: docs/specs/p.md#not-a-heading.", 1, 1},
		{"Source: p.md#wire-format.", 1, 1},
		{"Source: p.md section 2.", 1, 1},
		{"Source: docs/specs/p.md\nsection 2.1.", 1, 1},
		{"The table of docs/specs/p.md#wire-format and the examples of section\n4.", 1, 1},
		{"As docs/specs/p.md#wire-format and RFC 2231 section 3 say.", 1, 0},
	}
	for _, tt := range comments {
		found, broken := commentPointers(tree, "bench", tt.text)
		if found != tt.found || len(broken) != tt.broken {
			t.Errorf("%q: %d pointers, broken %q; want %d and %d", tt.text, found, broken, tt.found, tt.broken)
		}
	}
	if found, broken := documentLinks(tree, "docs/good.md"); found != 3 || len(broken) != 0 {
		t.Errorf("good links: %d, broken %q", found, broken)
	}
	if found, broken := documentLinks(tree, "docs/bad.md"); found != 3 || len(broken) != 3 {
		t.Errorf("bad links: %d, broken %q", found, broken)
	}
}

// TestSpecificationTables compares the digests printed in the specifications with the test vectors.
func TestSpecificationTables(t *testing.T) {
	tests := []struct {
		document, vectors string
		digest            *regexp.Regexp // its first group is the digest in the document
		want              int            // lines
	}{
		{"docs/specs/razor2.md", "razor2/signatures.tsv", regexp.MustCompile(`(?m)^[^#].*\t(\S+)$`), 9},
		{"docs/specs/pyzor.md", "pyzor/digests.txt", regexp.MustCompile(`(?m)^([0-9a-f]{40}) `), 11},
		{"docs/specs/rspamd-fuzzy.md", "rspamd-fuzzy/digests.txt", regexp.MustCompile(`(?m)^([0-9a-f]{10})[0-9a-f]{118} `),
			7},
	}
	for _, tt := range tests {
		document, err := os.ReadFile(tt.document)
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := os.ReadFile("testdata/vectors/" + tt.vectors)
		if err != nil {
			t.Fatal(err)
		}
		found := tt.digest.FindAllSubmatch(vectors, -1)
		if len(found) != tt.want {
			t.Errorf("%s: %d digests, want %d", tt.vectors, len(found), tt.want)
		}
		for _, m := range found {
			if !strings.Contains(string(document), "`"+string(m[1])+"`") {
				t.Errorf("%s does not print %s of %s", tt.document, m[1], tt.vectors)
			}
		}
	}
}

// commentPointers returns the number of documents and sections that a comment names, and the faults
// of the broken ones. dir is the folder of its file, where paths that begin with ".." start.
func commentPointers(tree fs.FS, dir, comment string) (found int, broken []string) {
	pointer := regexp.MustCompile(`([\w./-]*\w\.md)((?:#[\w-]+)?(?:(?:,| and| or| to)\s+#[\w-]+)*)`)
	number := regexp.MustCompile(`(RFC \d+,? )?\bsections?\s+\d+`)
	for _, m := range pointer.FindAllStringSubmatch(comment, -1) {
		name := m[1]
		if strings.HasPrefix(name, "../") {
			name = path.Join(dir, name)
		}
		anchors := regexp.MustCompile(`#[\w-]+`).FindAllString(m[2], -1)
		found += max(1, len(anchors))
		broken = append(broken, missing(tree, name, anchors)...)
		for _, n := range number.FindAllStringSubmatch(comment, -1) {
			if strings.HasPrefix(name, "docs/specs/") && n[1] == "" {
				broken = append(broken, fmt.Sprintf("%q beside %s: sections have no numbers, want an anchor", n[0], name))
			}
		}
	}
	return found, broken
}

// documentLinks returns the number of links into this module that a document has, and the faults of
// the broken ones.
func documentLinks(tree fs.FS, name string) (found int, broken []string) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return 0, []string{err.Error()}
	}
	code := regexp.MustCompile("(?ms)^```.*?^```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], ":") {
			continue // not of this module
		}
		found++
		file, anchor, _ := strings.Cut(m[1], "#")
		target := name
		if file != "" {
			target = path.Join(path.Dir(name), file)
		}
		var anchors []string
		if anchor != "" {
			anchors = []string{"#" + anchor}
		}
		broken = append(broken, missing(tree, target, anchors)...)
	}
	return found, broken
}

// missing returns the document if it does not exist, or else the anchors that it lacks.
func missing(tree fs.FS, name string, anchors []string) (broken []string) {
	if _, err := fs.Stat(tree, name); err != nil {
		return []string{fmt.Sprintf("no document %s", name)}
	}
	if len(anchors) == 0 {
		return nil
	}
	there, err := headings(tree, name)
	if err != nil {
		return []string{err.Error()}
	}
	for _, a := range anchors {
		if !slices.Contains(there, a) {
			broken = append(broken, fmt.Sprintf("%s has no section %s", name, a))
		}
	}
	return broken
}

// headings returns the anchors that Git forges give to a document's headings.
func headings(tree fs.FS, name string) ([]string, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	var anchors []string
	times := make(map[string]int)
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		title := strings.TrimLeft(line, "#")
		if code || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		anchor := "#" + strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		if n := times[anchor]; n > 0 {
			times[anchor]++
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		times[anchor]++
		anchors = append(anchors, anchor)
	}
	return anchors, nil
}
