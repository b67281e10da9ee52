package bulkhead_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of a package, without its tests, and of a struct that is no configuration.
const (
	maxFiles  = 25
	maxLines  = 5000
	maxFields = 20
	// maxState is the number of unexported fields that a configuration may have: its own state,
	// grouped in types with a meaning.
	maxState = 5
)

// A size is the number of files and lines of a package, without its tests.
type size struct{ files, lines int }

// exceeds reports whether a package of this size is above the limits.
func (s size) exceeds() bool { return s.files > maxFiles || s.lines > maxLines }

// configurations lists the structs with more than maxFields fields that an embedder or a file sets, or
// that a format dictates, and the reason for each.
var configurations = map[string]string{
	"client/admin.HistoryEntry":    "the fields of an answer of the HTTP interface",
	"client/admin.NodeState":       "the fields of an answer of the HTTP interface",
	"client/admin.Peer":            "the fields of an answer of the HTTP interface",
	"dcc.Ifd":                      "options of dccifd, which an embedder sets",
	"dcc.Server":                   "options of the DCC server, which an embedder sets",
	"fuzzy.Server":                 "options of the fuzzy storage, which an embedder sets",
	"internal/api.Options":         "one option for each part of the API",
	"internal/config.Config":       "one field for each section of the file",
	"internal/config.Milter":       "one field for each key of [milter]",
	"internal/config.RateLimit":    "one field for each key of [[ratelimit]]",
	"internal/engine.Options":      "options of the engine",
	"internal/logbook.Entry":       "the fields of a record of the history",
	"internal/mesh/member.Options": "options of the mesh",
	"internal/ratelimit.Rule":      "one field for each key of [[ratelimit]]",
	"lab/real.World":               "the parameters of a world, each drawn apart",
	"milter.Server":                "options of the milter, which an embedder sets",
}

// TestPackagesAreSmall checks the size of every package, whatever the build tags of its files.
func TestPackagesAreSmall(t *testing.T) {
	sizes := make(map[string]size)
	eachFile(t, func(name string, text []byte, _ *ast.File) {
		s := sizes[path.Dir(name)]
		sizes[path.Dir(name)] = size{s.files + 1, s.lines + bytes.Count(text, []byte("\n"))}
	})
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if s := sizes[name]; s.exceeds() {
			t.Errorf("%s has %d files and %d lines without tests, limits %d and %d", name, s.files, s.lines, maxFiles,
				maxLines)
		}
	}
}

// TestStructsAreSmall checks the number of fields of every struct. An embedded struct is one field.
func TestStructsAreSmall(t *testing.T) {
	large := make(map[string]bool)
	eachFile(t, func(name string, _ []byte, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			fields, state := countFields(s)
			if fields <= maxFields {
				return true
			}
			full := path.Dir(name) + "." + spec.Name.Name
			large[full] = true
			switch {
			case configurations[full] != "" && state > maxState:
				t.Errorf("%s is a configuration with %d unexported fields, limit %d", full, state, maxState)
			case configurations[full] == "":
				t.Errorf("%s has %d fields, limit %d", full, fields, maxFields)
			}
			return true
		})
	})
	for name := range configurations {
		if !large[name] {
			t.Errorf("%s is within the limit: remove its row", name)
		}
	}
}

// countFields returns the number of fields of a struct, and how many of them are unexported.
func countFields(s *ast.StructType) (fields, state int) {
	for _, f := range s.Fields.List {
		fields += max(1, len(f.Names))
		for _, name := range f.Names {
			if !name.IsExported() {
				state++
			}
		}
	}
	return fields, state
}

// eachFile calls do for every Go file of the module and the laboratory that is no test.
func eachFile(t *testing.T, do func(name string, text []byte, file *ast.File)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files++
		do(filepath.ToSlash(name), text, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("%d files, want the whole module", files)
	}
}
