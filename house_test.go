package bulkhead_test

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/bulkhead-mail/bulkhead"

// mayImport lists the packages of this module that each package may import, as patterns for
// path.Match. Data flows down: to answer a check, and up to report. A package that is not listed
// fails the test: name its place here.
var mayImport = map[string][]string{
	".":                            {},
	"bulkheadtest":                 {"."},
	"filter":                       {"filter/internal/*"},
	"filter/paper":                 {"filter", "filter/internal/*"},
	"filter/internal/bitset":       {},
	"filter/internal/codec":        {"filter/internal/huge"},
	"filter/internal/huge":         {},
	"signature":                    {".", "signature/*", "digest/*", "internal/pace", "internal/text/*"},
	"signature/mail":               {".", "signature/document", "internal/pace", "internal/text/*"},
	"digest/rspamd":                {".", "signature/mail", "internal/pace", "internal/text/*"},
	"signature/link":               {"internal/pace", "internal/text/*"},
	"digest/razor":                 {".", "internal/pace", "internal/text/*"},
	"digest/pyzor":                 {".", "internal/pace", "internal/text/*"},
	"digest/dcc":                   {".", "internal/pace", "internal/text/*"},
	"internal/pace":                {},
	"internal/text/scan":           {},
	"internal/text/markup":         {"internal/text/scan"},
	"internal/text/normal":         {"internal/text/scan"},
	"signature/picture":            {".", "internal/pace", "internal/text/*"},
	"signature/document":           {"internal/pace", "internal/text/*"},
	"internal/testing/mailtest":    {},
	"internal/testing/picturetest": {},
	"internal/store":               {},
	"internal/trust":               {"."},
	"internal/engine":              {".", "filter", "internal/engine/*", "internal/store", "internal/trust"},
	"internal/engine/book":         {"filter"},
	"internal/engine/pages":        {"filter", "internal/store"},
	"internal/engine/replica":      {".", "filter", "internal/engine/book", "internal/engine/pages", "internal/store"},
	"internal/engine/verdict":      {".", "internal/trust"},
	"internal/engine/keys":         {".", "filter"},
	"internal/engine/ballots":      {".", "filter"},
	"internal/engine/resolve": {".", "filter", "internal/engine/ballots", "internal/engine/book",
		"internal/engine/evidence", "internal/engine/keys", "internal/engine/verdict", "internal/trust"},
	"internal/engine/evidence": {"filter", "internal/engine/book", "internal/engine/replica",
		"internal/engine/verdict"},
	"internal/mesh":               {".", "filter", "internal/engine", "internal/wholefile"},
	"internal/aggregate":          {".", "filter", "internal/engine"},
	"internal/config":             {"."},
	"door":                        {".", "internal/clock", "internal/mmsg"},
	"internal/clock":              {},
	"internal/ledger":             {"."},
	"internal/mailbox":            {},
	"internal/abuse":              {"."},
	"internal/verify":             {},
	"internal/wholefile":          {},
	"internal/mmsg":               {},
	"internal/testing/matrix":     {}, // a test of every door
	"internal/testing/nodetest":   {},
	"internal/testing/disktest":   {},
	"internal/testing/prototest":  {".", "door"},
	"internal/testing/sharedtest": {},
	"internal/web":                {".", "client", "internal/consequence", "internal/web/element"},
	"internal/consequence":        {"client"},
	"internal/web/element":        {},
	"internal/ratelimit":          {"filter", "internal/top", "internal/wholefile"},
	"internal/lists":              {"filter", "internal/wholefile"},
	"razor2":                      {".", "digest/razor", "door"},
	"pyzor":                       {".", "digest/pyzor", "door"},
	"dcc":                         {".", "digest/dcc", "internal/ledger", "door"},
	"fuzzy":                       {".", "digest/rspamd", "internal/ledger", "door"},
	"milter":                      {".", "signature", "signature/link", "signature/mail", "door"},
	"policy":                      {".", "door"},
	"dnsbl":                       {".", "door"},
	"client":                      {"."},
	"internal/api":                {".", "client", "door"},
	"internal/recent":             {".", "door"},
	"internal/edge":               {".", "client"},
	"internal/logbook":            {".", "door", "internal/top"},
	"internal/top":                {},
	"internal/audit":              {"client"},
	"internal/cli":                {},
	"internal/setup":              {"internal/config", "internal/plugins"},
	"internal/trial":              {"."},
	"internal/probe": {".", "client", "dcc", "fuzzy", "internal/trial", "internal/units",
		"pyzor", "razor2", "digest/dcc"},
	"internal/plugins": {},
	"internal/units":   {},
	"internal/node":    {"*", "internal/*", "signature/*", "digest/*"},
	// The laboratory is a separate module. The server imports nothing from it.
	"internal/interval":    {},
	"lab/figure":           {},
	"lab/reliability":      {".", "internal/interval", "lab/figure"},
	"lab/letters":          {".", "signature/mail", "signature"},
	"lab/study":            {"filter", "filter/paper", "lab/figure", "lab/study/arrays", "lab/study/experiment"},
	"lab/study/arrays":     {".", "filter", "filter/paper", "lab/study/experiment", "signature"},
	"lab/study/experiment": {"filter", "filter/paper"},
	"lab/replay": {".", "digest/rspamd", "filter", "internal/engine", "signature/mail", "internal/trust",
		"lab/figure", "lab/letters", "lab/reliability", "signature"},
	"lab/stream": {".", "filter", "internal/engine", "signature/mail", "internal/trust", "lab/figure",
		"lab/letters", "lab/reliability", "signature"},
	"lab/attack":           {".", "internal/engine", "internal/trust", "lab/figure"},
	"lab/load":             {"digest/razor", "fuzzy", "internal/mmsg", "policy"},
	"lab/bench":            {"filter"},
	"lab/cmd/bulkhead-lab": {"*", "*/*", "lab/study/*"},

	// Commands know the node, and the packages of commands that need no node.
	"internal/command": {".", "client", "internal/cli", "internal/config", "internal/consequence", "internal/node",
		"internal/setup", "internal/store"},
	"internal/command/mail": {".", "client", "internal/abuse", "internal/cli", "internal/command", "internal/mailbox",
		"internal/units"},
	"internal/command/network": {"client", "internal/cli", "internal/command", "internal/consequence", "internal/node",
		"internal/units"},
	"internal/command/account": {"client", "internal/cli", "internal/command", "internal/config", "internal/consequence",
		"internal/node", "internal/units"},
	"internal/command/list": {".", "filter", "filter/paper", "internal/cli", "internal/command", "internal/lists",
		"internal/node"},
	"cmd/bulkhead": {"client", "internal/cli", "internal/command", "internal/command/*", "internal/config",
		"internal/node", "internal/probe", "internal/setup", "internal/trial", "internal/units", "internal/wholefile"},
}

// TestPackages checks that every package has a package comment, and checks the package table of
// ARCHITECTURE.md against the imports. Tests are excepted: they may import more.
func TestPackages(t *testing.T) {
	var out []byte
	for _, dir := range []string{".", "lab"} {
		list, err := exec.Command("go", "list", "-C", dir, "-json=ImportPath,Name,Doc,Imports", "./...").Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", dir, err)
		}
		out = append(out, list...)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	seen := 0
	for dec.More() {
		var pkg struct {
			ImportPath, Name, Doc string
			Imports               []string
		}
		if err := dec.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
		seen++
		name := local(pkg.ImportPath)
		begin := "Package " + pkg.Name + " "
		if pkg.Name == "main" {
			begin = "Command " + path.Base(pkg.ImportPath) + " "
		}
		if !strings.HasPrefix(pkg.Doc, begin) {
			t.Errorf("the comment of package %s begins with %.40q, want %q", name, pkg.Doc, begin)
		}
		if strings.HasPrefix(name, "test/") {
			continue // tests of the whole program, which see all of it
		}
		allowed, ok := mayImport[name]
		if !ok {
			t.Errorf("package %s has no place in the import table of house_test.go", name)
			continue
		}
		for _, imp := range pkg.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			if !matches(allowed, local(imp)) {
				t.Errorf("%s imports %s, which lies above or beside it; it may import %v", name, local(imp), allowed)
			}
		}
	}
	if seen < 3 {
		t.Fatalf("go list named %d packages, want the whole module", seen)
	}
}

// TestClientIsSmall: a program that imports the client links the vocabulary and the standard
// library with it, and nothing else.
func TestClientIsSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"./client").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if got, want := strings.Fields(string(out)), []string{module, module + "/client"}; !slices.Equal(got, want) {
		t.Errorf("the client depends on %v, want %v", got, want)
	}
}

// TestServerIsSmall keeps packages out of the server that it does not need.
func TestServerIsSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/bulkhead").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/internal/engine") {
		t.Fatalf("%d dependencies and no engine among them", len(deps))
	}
	for _, dep := range deps {
		for _, none := range []string{"gonum.org/", "github.com/schollz/progressbar", module + "/lab", "testing"} {
			if dep == none || strings.HasPrefix(dep, none+"/") || strings.HasSuffix(none, "/") && strings.HasPrefix(dep, none) {
				t.Errorf("cmd/bulkhead depends on %s", dep)
			}
		}
	}
}

func local(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// TestPointers checks that every document and section exists that a comment or a document names. A
// comment names it by its path from the root and the section's anchor: docs/specs/dcc.md#body.
func TestPointers(t *testing.T) {
	tree, comments, links := os.DirFS("."), 0, 0
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, group := range file.Comments {
				found, broken := commentPointers(tree, path.Dir(name), group.Text())
				comments += found
				for _, b := range broken {
					t.Errorf("%s: %s", name, b)
				}
			}
		case strings.HasSuffix(name, ".md"):
			found, broken := documentLinks(tree, name)
			links += found
			for _, b := range broken {
				t.Errorf("%s: %s", name, b)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if comments < 100 || links < 20 {
		t.Errorf("found %d pointers in comments and %d links in documents, want those of the whole module", comments, links)
	}
}

// TestReleasesHaveNoTags: a program built with tags is not released, such as simclock, which lets
// its clock be moved. No release step asks for one, and the check of a program before it is packed
// refuses it.
func TestReleasesHaveNoTags(t *testing.T) {
	text, err := os.ReadFile(".goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"tags", "GOFLAGS", "simclock"} {
		if strings.Contains(string(text), word) {
			t.Errorf(".goreleaser.yaml says %q", word)
		}
	}
	recipes, err := exec.Command("make", "--dry-run", "build", "server", "GO=go").Output()
	if err != nil || !strings.Contains(string(recipes), "go build") || strings.Contains(string(recipes), "tags") {
		t.Errorf("make build server: %v\n%s", err, recipes)
	}

	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tags := range []string{"", "simclock"} {
		build := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", "m", ".")
		build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := exec.Command("packaging/artifacts", filepath.Join(dir, "m"), "0", "none",
			filepath.Join(dir, "none")).CombinedOutput()
		if err == nil {
			t.Fatalf("packaging/artifacts made artifacts in a folder that is not there:\n%s", out)
		}
		if refused := strings.Contains(string(out), "was built with tags"); refused != (tags != "") {
			t.Errorf("tags %q: %s", tags, out)
		}
	}
}
