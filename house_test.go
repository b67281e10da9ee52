package bulkhead_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
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
	".":               {},
	"bulkheadtest":    {"."},
	"filter":          {"filter/shape", "internal/arrays", "internal/bitset", "internal/codec", "internal/huge"},
	"filter/shape":    {},
	"internal/arrays": {"filter/shape", "internal/codec", "internal/huge"},
	"internal/codec":  {"internal/huge"},
	"internal/huge":   {},
	"internal/bitset": {},
	"signature": {".", "digest/*", "internal/mail", "internal/mail/*", "internal/pace",
		"internal/text/*"},
	"internal/lesson": {".", "internal/interval", "internal/learn", "internal/wholefile"},
	"internal/learn":  {"filter", "internal/mail", "internal/mail/link", "internal/text/*"},
	"internal/mail": {".", "internal/mail/document", "internal/mail/link", "internal/mail/seen",
		"internal/pace", "internal/text/*"},
	"digest/rspamd":                {".", "internal/mail", "internal/pace", "internal/text/*"},
	"internal/mail/link":           {"internal/pace", "internal/text/*"},
	"internal/mail/seen":           {"internal/pace", "internal/text/*"},
	"digest/razor":                 {".", "internal/pace", "internal/text/*"},
	"digest/pyzor":                 {".", "internal/pace", "internal/text/*"},
	"digest/dcc":                   {".", "internal/pace", "internal/text/*"},
	"internal/pace":                {},
	"internal/text/scan":           {},
	"internal/text/markup":         {"internal/text/scan"},
	"internal/text/css":            {"internal/text/scan"},
	"internal/text/charset":        {},
	"internal/text/normal":         {"internal/text/scan"},
	"internal/mail/picture":        {".", "internal/pace", "internal/text/*"},
	"internal/mail/document":       {"internal/pace", "internal/text/*"},
	"internal/testing/mailtest":    {},
	"internal/testing/picturetest": {},
	"internal/store":               {"internal/wholefile"},
	"internal/store/stream":        {".", "internal/natsdial", "internal/store"},
	"internal/natsdial":            {},
	"internal/trust":               {"."},
	"internal/wellknown":           {},
	"internal/live":                {".", "internal/wellknown"},
	"internal/engine": {".", "filter", "internal/arrays", "internal/engine/*", "internal/learn", "internal/lesson",
		"internal/store", "internal/trust"},
	"internal/engine/aside": {"internal/engine/book", "internal/engine/pages", "internal/wholefile"},
	"internal/engine/book":  {"filter", "internal/arrays"},
	"internal/engine/codec": {".", "filter", "internal/arrays", "internal/engine/ballots", "internal/engine/book",
		"internal/engine/learned", "internal/engine/replica", "internal/engine/resolve", "internal/trust"},
	"internal/engine/view": {"filter", "internal/arrays", "internal/engine/book", "internal/engine/evidence",
		"internal/engine/keys", "internal/engine/replica"},
	"internal/engine/heal": {"filter", "internal/arrays", "internal/engine/ballots", "internal/engine/codec",
		"internal/engine/pages", "internal/engine/replica", "internal/engine/view", "internal/store",
		"internal/trust"},
	"internal/engine/check": {".", "filter", "internal/arrays", "internal/engine/evidence", "internal/engine/keys",
		"internal/engine/learned", "internal/engine/replica", "internal/engine/verdict", "internal/engine/view",
		"internal/trust"},
	"internal/engine/learned": {"filter", "internal/arrays", "internal/learn", "internal/lesson"},
	"internal/engine/pages":   {"filter", "internal/arrays", "internal/store"},
	"internal/engine/replica": {".", "filter", "internal/arrays", "internal/engine/book", "internal/engine/pages",
		"internal/store"},
	"internal/engine/verdict": {".", "internal/learn", "internal/trust", "internal/wellknown"},
	"internal/engine/keys":    {".", "filter", "internal/arrays"},
	"internal/engine/ballots": {".", "filter", "internal/arrays"},
	"internal/engine/resolve": {".", "filter", "internal/arrays", "internal/engine/ballots",
		"internal/engine/book", "internal/engine/evidence", "internal/engine/keys", "internal/engine/learned",
		"internal/engine/verdict", "internal/learn", "internal/lesson", "internal/trust", "internal/wellknown"},
	"internal/engine/evidence": {"filter", "internal/arrays", "internal/engine/book", "internal/engine/replica",
		"internal/engine/verdict"},
	"internal/mesh":        {"internal/engine", "internal/mesh/*", "internal/natsdial"},
	"internal/mesh/origin": {".", "filter", "internal/engine", "internal/mesh/member", "internal/mesh/wire"},
	"internal/mesh/replica": {".", "filter", "internal/arrays", "internal/engine", "internal/mesh/member",
		"internal/mesh/wire"},
	"internal/mesh/wire": {"filter", "internal/arrays", "internal/engine", "internal/lesson"},
	"internal/mesh/bus":  {".", "internal/mesh/wire", "internal/natsdial"},
	"internal/mesh/member": {".", "filter", "internal/arrays", "internal/engine", "internal/lesson", "internal/mesh/wire",
		"internal/wholefile"},
	"internal/aggregate":          {".", "filter", "internal/arrays", "internal/engine"},
	"internal/standby":            {".", "internal/standby/lease", "internal/store", "internal/wholefile"},
	"internal/standby/lease":      {".", "internal/natsdial"},
	"internal/shard":              {"."},
	"internal/shard/bucket":       {"internal/natsdial", "internal/shard", "internal/wholefile"},
	"internal/config":             {"."},
	"door":                        {".", "internal/clock", "internal/mmsg"},
	"internal/clock":              {},
	"internal/deadline":           {},
	"internal/ledger":             {"."},
	"internal/mailbox":            {"internal/mail"},
	"internal/abuse":              {".", "internal/mail"},
	"internal/verify":             {},
	"internal/wholefile":          {},
	"internal/mmsg":               {},
	"internal/testing/await":      {},
	"internal/testing/bubble":     {},
	"internal/testing/logtest":    {},
	"internal/testing/matrix":     {}, // a test of every door
	"internal/testing/natstest":   {"internal/testing/await", "internal/testing/nodetest"},
	"internal/testing/nodetest":   {},
	"internal/testing/disktest":   {},
	"internal/testing/enginetest": {".", "filter", "internal/engine", "internal/store"},
	"internal/testing/meshtest": {".", "filter", "internal/arrays", "internal/engine", "internal/mesh/bus",
		"internal/mesh/member", "internal/mesh/wire", "internal/testing/enginetest"},
	"internal/testing/prototest":  {".", "door"},
	"internal/testing/sharedtest": {},
	"internal/web":                {".", "client", "client/admin", "internal/consequence", "internal/web/*"},
	"internal/web/chart":          {},
	"internal/web/search":         {"client/admin"},
	"internal/consequence":        {"client/admin"},
	"internal/ratelimit":          {"filter", "internal/clock", "internal/top", "internal/wholefile"},
	"internal/lists":              {"filter", "internal/clock", "internal/wholefile"},
	"razor2":                      {".", "digest/razor", "door", "internal/deadline"},
	"pyzor":                       {".", "digest/pyzor", "door", "internal/deadline"},
	"dcc":                         {".", "digest/dcc", "internal/deadline", "internal/ledger", "door"},
	"fuzzy":                       {".", "digest/rspamd", "internal/deadline", "internal/ledger", "door"},
	"milter":                      {".", "signature", "internal/mail", "internal/mail/link", "policy", "door"},
	"policy":                      {".", "door"},
	"dnsbl":                       {".", "door"},
	"client":                      {"."},
	"client/admin":                {".", "client"},
	"internal/api":                {".", "client", "client/admin", "door"},
	"internal/recent":             {".", "door"},
	"internal/calibration":        {".", "internal/interval"},
	"internal/local":              {},
	"internal/waiting":            {},
	"internal/edge": {".", "client", "client/admin", "internal/boltfile", "internal/shard",
		"internal/wholefile"},
	"internal/boltfile": {},
	"internal/logbook":  {".", "door", "internal/boltfile", "internal/clock", "internal/top"},
	"internal/top":      {},
	"internal/audit":    {"client/admin"},
	"internal/cli":      {},
	"internal/setup":    {"internal/config", "internal/plugins"},
	"internal/trial": {".", "client", "client/admin", "dcc", "fuzzy", "internal/config", "internal/units", "pyzor",
		"razor2", "digest/dcc"},
	"internal/plugins": {},
	"internal/units":   {},
	"internal/node": {"*", "internal/*", "internal/node/*", "internal/store/stream",
		"internal/shard/bucket", "client/*", "digest/*"},
	"internal/node/metric": {},
	"internal/node/pair": {".", "client/admin", "internal/config", "internal/engine", "internal/node/metric",
		"internal/standby", "internal/standby/lease", "internal/store", "internal/store/stream", "internal/wholefile"},
	"internal/node/upstream": {"client", "client/admin", "internal/clock", "internal/config", "internal/edge",
		"internal/natsdial", "internal/node/metric", "internal/shard", "internal/shard/bucket"},
	"internal/node/doors": {"*", "client/*", "digest/*", "internal/abuse", "internal/api", "internal/clock",
		"internal/config", "internal/lists", "internal/live", "internal/local", "internal/logbook", "internal/ratelimit",
		"internal/verify", "internal/web", "internal/wholefile"},
	"internal/node/manage": {".", "client", "client/admin", "filter", "internal/api", "internal/calibration",
		"internal/clock", "internal/config", "internal/engine", "internal/engine/learned", "internal/engine/verdict",
		"internal/learn", "internal/lesson", "internal/lists",
		"internal/logbook", "internal/mesh", "internal/ratelimit", "internal/recent", "internal/top",
		"internal/trust", "internal/web", "internal/wholefile"},
	// The laboratory is a separate module. The server imports nothing from it.
	"internal/interval":    {},
	"lab/figure":           {},
	"lab/reliability":      {".", "internal/interval", "lab/figure"},
	"lab/letters":          {".", "internal/mail", "signature"},
	"lab/paper":            {"filter", "internal/bitset", "internal/codec"},
	"lab/study":            {"filter", "lab/figure", "lab/paper", "lab/study/arrays", "lab/study/experiment"},
	"lab/study/arrays":     {".", "filter", "internal/arrays", "lab/paper", "lab/study/experiment", "signature"},
	"lab/study/experiment": {"filter", "lab/paper"},
	"lab/replay": {".", "digest/rspamd", "filter", "internal/arrays", "internal/engine", "internal/mail",
		"internal/trust", "lab/figure", "lab/letters", "lab/reliability", "signature"},
	"lab/stream": {".", "filter", "internal/engine", "internal/learn", "internal/mail", "internal/recent",
		"internal/trust", "lab/figure", "lab/letters", "lab/reliability", "signature"},
	"lab/real": {".", "digest/razor", "internal/abuse", "internal/interval", "lab/letters", "lab/real/files",
		"lab/stream"},
	"lab/real/files":       {},
	"lab/attack":           {".", "internal/engine", "internal/live", "internal/trust", "lab/figure"},
	"lab/learning":         {"filter", "internal/learn", "internal/lesson", "internal/mail", "lab/letters"},
	"lab/load":             {"digest/razor", "fuzzy", "internal/mmsg", "policy"},
	"lab/bench":            {"filter", "internal/arrays"},
	"lab/gate":             {"client", "lab/load"},
	"lab/cmd/bulkhead-lab": {"*", "*/*", "lab/study/*"},

	// A command knows the node, and the packages of commands that need no node.
	"cmd/bulkhead": {"client", "client/admin", "internal/cli", "internal/command", "internal/command/*",
		"internal/config", "internal/node", "internal/setup", "internal/trial", "internal/units",
		"internal/waiting", "internal/wholefile"},
	"internal/command": {".", "client", "client/admin", "internal/cli", "internal/config", "internal/consequence",
		"internal/local", "internal/node", "internal/setup", "internal/store"},
	"internal/command/mail": {".", "client", "client/admin", "internal/abuse", "internal/cli", "internal/command",
		"internal/mailbox", "internal/units", "internal/waiting"},
	"internal/command/network": {"client/admin", "internal/cli", "internal/command", "internal/consequence",
		"internal/node", "internal/units"},
	"internal/command/shard": {".", "client", "internal/cli", "internal/command", "internal/config",
		"internal/consequence", "internal/natsdial", "internal/shard", "internal/shard/bucket", "internal/units"},
	"internal/command/account": {"client/admin", "internal/cli", "internal/command", "internal/config",
		"internal/consequence", "internal/node", "internal/units"},
	"internal/command/list": {".", "filter", "internal/cli", "internal/command", "internal/lists",
		"internal/node"},
}

// TestPackages checks that every package has a package comment, and checks the imports against
// the table above, whose readable form is docs/packages.md. Tests are excepted: they may import more.
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

// TestClientIsSmall checks that a program which imports the clients links the vocabulary and the
// standard library with them, and nothing else.
func TestClientIsSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"./client/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	want := []string{module, module + "/client", module + "/client/admin"}
	if got := strings.Fields(string(out)); !slices.Equal(got, want) {
		t.Errorf("the clients depend on %v, want %v", got, want)
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

// mostSleeps is the number of calls of time.Sleep in tests and their helpers. The calls that are
// left are the subject of their test, such as a slow client, or are inside a helper.
const mostSleeps = 16

// TestSleeps: tests wait for conditions (internal/testing/await) or advance a simulated clock
// (internal/testing/bubble). A test that sleeps fails on a slow machine and is slow on a fast one.
func TestSleeps(t *testing.T) {
	var calls []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go"):
			return nil
		case !strings.HasSuffix(name, "_test.go") && !matches([]string{"test/*/*", "internal/testing/*/*"}, name):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					calls = append(calls, files.Position(n.Pos()).String())
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 {
		t.Error("no call found, not even that of internal/testing/await")
	}
	if len(calls) > mostSleeps {
		t.Errorf("time.Sleep is called %d times, want at most %d: wait for a condition with await.True\n%s", len(calls),
			mostSleeps, strings.Join(calls, "\n"))
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
