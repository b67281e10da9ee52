package bulkhead_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// isPublic reports whether others may import a package of this module to use it.
func isPublic(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if part == "internal" || part == "cmd" || part == "test" || part == "packaging" {
			return false
		}
	}
	return true
}

// publicPackages returns the packages that others may import, with their types.
func publicPackages(t *testing.T) []*types.Package {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // not compiled again where these tests run under the race detector
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := make(map[string]string)
	var names []string
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/") && isPublic(local(p.ImportPath)) {
			names = append(names, p.ImportPath)
		}
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var all []*types.Package
	for _, name := range names {
		p, err := imp.Import(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// mentions walks the types that a user of a package sees, and records types of internal packages.
type mentions struct {
	pkg  *types.Package
	seen map[types.Type]bool
	tell func(where, name string)
}

// object walks the declaration of an exported name.
func (m *mentions) object(o types.Object) {
	if !ast.IsExported(o.Name()) {
		return
	}
	m.walk(o.Type(), o.Name())
}

func (m *mentions) named(where string, o *types.TypeName, args *types.TypeList) bool {
	for i := range args.Len() {
		m.walk(args.At(i), where)
	}
	p := o.Pkg()
	if p != nil && strings.HasPrefix(p.Path(), module+"/") && strings.Contains("/"+p.Path()+"/", "/internal/") {
		m.tell(where, p.Path()+"."+o.Name())
	}
	return p == m.pkg // other packages are walked separately
}

func (m *mentions) walk(typ types.Type, where string) {
	if m.seen[typ] {
		return
	}
	m.seen[typ] = true
	switch typ := typ.(type) {
	case *types.Alias:
		if m.named(where, typ.Obj(), typ.TypeArgs()) {
			m.walk(typ.Rhs(), where)
		}
	case *types.Named:
		if m.named(where, typ.Obj(), typ.TypeArgs()) {
			m.methods(typ, where)
			m.walk(typ.Underlying(), where)
		}
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() || f.Embedded() { // an embedded field's own fields and methods are promoted
				m.walk(f.Type(), where+"."+f.Name())
			}
		}
	case *types.Interface:
		for f := range typ.Methods() {
			if f.Exported() {
				m.walk(f.Type(), where+"."+f.Name())
			}
		}
		for e := range typ.EmbeddedTypes() {
			m.walk(e, where)
		}
	case *types.Signature:
		for p := range typ.TypeParams().TypeParams() {
			m.walk(p.Constraint(), where)
		}
		m.walk(typ.Params(), where)
		m.walk(typ.Results(), where)
	case *types.Tuple:
		for v := range typ.Variables() {
			m.walk(v.Type(), where)
		}
	case *types.Map:
		m.walk(typ.Key(), where)
		m.walk(typ.Elem(), where)
	case *types.Union:
		for term := range typ.Terms() {
			m.walk(term.Type(), where)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		m.walk(typ.Elem(), where)
	}
}

func (m *mentions) methods(typ *types.Named, where string) {
	for f := range typ.Methods() {
		if f.Exported() {
			m.walk(f.Type(), where+"."+f.Name())
		}
	}
}

// TestPublicAPI: no exported name of a public package mentions a type of an internal package, which
// code outside this module cannot name.
func TestPublicAPI(t *testing.T) {
	names := 0
	for _, p := range publicPackages(t) {
		m := &mentions{pkg: p, seen: make(map[types.Type]bool), tell: func(where, name string) {
			t.Errorf("%s: %s mentions %s", p.Path(), where, strings.TrimPrefix(name, module+"/"))
		}}
		for _, name := range p.Scope().Names() {
			m.object(p.Scope().Lookup(name))
			names++
		}
	}
	if names < 100 {
		t.Fatalf("%d names in the public packages, want all of them", names)
	}
}

// TestOutside: the outside module in test/outside, which make test runs, has an example of every
// public package, and its go.mod is in step with this one.
func TestOutside(t *testing.T) {
	list := exec.Command("go", "list", "-mod=readonly", "-deps", "-test", "-json=ImportPath,Module,XTestImports", ".")
	list.Dir = "test/outside"
	out, err := list.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = exit.Stderr
		}
		t.Fatalf("go list in test/outside: %v\n%s(go mod tidy there brings it in step)", err, out)
	}
	used := make(map[string]bool)
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath   string
			Module       *struct{ Main bool }
			XTestImports []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && p.Module.Main {
			for _, name := range p.XTestImports {
				used[name] = true
			}
		}
	}
	for _, p := range publicPackages(t) {
		if !used[p.Path()] {
			t.Errorf("test/outside has no example of %s", p.Path())
		}
	}
}

// TestPublicAPINotices checks that the walk finds the types that it must find.
func TestPublicAPINotices(t *testing.T) {
	secret := types.NewPackage(module+"/internal/secret", "secret")
	hidden := types.NewNamed(types.NewTypeName(token.NoPos, secret, "Hidden", nil), types.NewStruct(nil, nil), nil)
	pkg := types.NewPackage(module+"/open", "open")
	field := func(name string, typ types.Type, embedded bool) types.Type {
		return types.NewStruct([]*types.Var{types.NewField(token.NoPos, pkg, name, typ, embedded)}, nil)
	}
	function := func(in, out types.Type) types.Type {
		return types.NewSignatureType(nil, nil, nil, types.NewTuple(types.NewVar(token.NoPos, pkg, "", in)),
			types.NewTuple(types.NewVar(token.NoPos, pkg, "", out)), false)
	}
	number := types.Typ[types.Int]
	unexported := types.NewNamed(types.NewTypeName(token.NoPos, pkg, "inner", nil), field("Field", hidden, false), nil)
	for name, tt := range map[string]struct {
		typ  types.Type
		want int
	}{
		"the type itself":  {hidden, 1},
		"pointer":          {types.NewPointer(hidden), 1},
		"field":            {field("Field", types.NewSlice(hidden), false), 1},
		"unexported field": {field("field", hidden, false), 0},
		"embedded":         {field("inner", unexported, true), 1},
		"parameter":        {function(hidden, number), 1},
		"result":           {function(number, types.NewMap(number, hidden)), 1},
		"interface": {types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, pkg, "Do",
			function(number, hidden).(*types.Signature))}, nil), 1},
		"alias":                {types.NewAlias(types.NewTypeName(token.NoPos, pkg, "Alias", nil), hidden), 1},
		"result of unexported": {function(number, unexported), 1},
		"embedded pointer":     {field("Hidden", types.NewPointer(hidden), true), 1},
	} {
		found := 0
		m := &mentions{pkg: pkg, seen: make(map[types.Type]bool), tell: func(string, string) { found++ }}
		m.object(types.NewVar(token.NoPos, pkg, "Name", tt.typ))
		if found != tt.want {
			t.Errorf("%s: %d mentions, want %d", name, found, tt.want)
		}
	}
}
