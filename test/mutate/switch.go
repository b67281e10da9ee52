package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The test binary of a package contains all changes of a sample, so it is compiled once. The
// environment variable selects the change that is in force, by its number from 1 on.
const variable = "BULKHEAD_MUTANT"

// helpers is a file that the binary has in addition to the package's own. Its functions take the
// number of a change, and apply the changed operator or number if the change is in force.
const helpers = `
import (
	"os"
	"strconv"
)

var _mutant, _ = strconv.Atoi(os.Getenv("` + variable + `"))

func _on(i int) bool { return i == _mutant }

type _integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type _number interface{ _integer | ~float32 | ~float64 }

func _lit[T any](i int, a, b T) T {
	if _on(i) {
		return b
	}
	return a
}
`

// arithmetic names the helper of each operator that has a replacement, by its constraints.
var arithmetic = map[token.Token]string{
	token.ADD: "_add[T _number]", token.SUB: "_sub[T _number]", token.MUL: "_mul[T _number]",
	token.QUO: "_quo[T _number]", token.REM: "_rem[T _integer]", token.AND: "_and[T _integer]",
	token.OR: "_or[T _integer]", token.XOR: "_xor[T _integer]", token.AND_NOT: "_andnot[T _integer]",
	token.SHL: "_shl[T, S _integer]", token.SHR: "_shr[T, S _integer]",
}

// helperFile returns the source of the helpers for a package.
func helperFile(pkg string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n%s", pkg, helpers)
	for op, name := range arithmetic {
		second := "T"
		if strings.Contains(name, "S ") {
			second = "S"
		}
		fmt.Fprintf(&b, "\nfunc %s(i int, a T, b %s) T {\n\tif _on(i) {\n\t\treturn a %s b\n\t}\n\treturn a %s b\n}\n", name,
			second, swaps[op][0], op)
	}
	return b.Bytes()
}

func on(i int) ast.Expr { return call("_on", number(i)) }

func not(x ast.Expr) ast.Expr { return &ast.UnaryExpr{Op: token.NOT, X: x} }

func call(name string, args ...ast.Expr) ast.Expr {
	return &ast.CallExpr{Fun: ast.NewIdent(name), Args: args}
}

func number(i int) ast.Expr { return &ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(i)} }

func binary(x ast.Expr, op token.Token, y ast.Expr) ast.Expr {
	return &ast.BinaryExpr{X: &ast.ParenExpr{X: x}, Op: op, Y: &ast.ParenExpr{X: y}}
}

// embedBinary puts the change of an operator of n to another one into the tree, as change i.
func embedBinary(n *ast.BinaryExpr, was, to token.Token, i int) {
	x := ast.Expr(&ast.BinaryExpr{X: n.X, Op: n.Op, Y: n.Y})
	switch {
	case was == token.LAND || was == token.LOR: // by De Morgan's laws, so that each side is there once
		n.X, n.Y = binary(n.X, token.NEQ, on(i)), binary(n.Y, token.NEQ, on(i))
		inner := *n
		n.X, n.Op, n.Y = &ast.ParenExpr{X: &inner}, token.NEQ, on(i)
	case arithmetic[was] != "":
		name, _, _ := strings.Cut(arithmetic[was], "[")
		n.X, n.Op, n.Y = call(name, number(i), n.X, n.Y), token.ADD, number(0)
	case to == negated[was]:
		n.X, n.Op, n.Y = &ast.ParenExpr{X: x}, token.NEQ, on(i)
	case was == token.LSS || was == token.GTR: // the bound moves
		n.Op, n.X, n.Y = token.LOR, x, binary(on(i), token.LAND, &ast.BinaryExpr{X: n.X, Op: token.EQL, Y: n.Y})
	default:
		n.Op, n.X, n.Y = token.LAND, x, not(&ast.ParenExpr{X: binary(on(i), token.LAND,
			&ast.BinaryExpr{X: n.X, Op: token.EQL, Y: n.Y})})
	}
}

// negated is the comparison that is true where another one is false.
var negated = map[token.Token]token.Token{
	token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
}

// prepare finds the types of the expressions of a package, as far as they are known. Without the
// type of a number, its change is not tried.
func (o *options) prepare(ctx context.Context, p pkg, sources []*source) error {
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", p.ImportPath)
	list.Dir = p.Dir
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list -export %s: %w", p.ImportPath, err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[path] = file
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	var files []*ast.File
	for _, s := range sources {
		files, s.types = append(files, s.tree), info.Types
	}
	conf := types.Config{Importer: importer.ForCompiler(sources[0].fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	_, err = conf.Check(p.ImportPath, sources[0].fset, files, info)
	return err
}

// typeName returns the name of a type in a file of a package, "" if it has none there.
func typeName(t types.Type, file *ast.File) string {
	if t == nil {
		return ""
	}
	if b, ok := t.(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
		return ""
	}
	known := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p.Name() == file.Name.Name {
			return ""
		}
		known = known && slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == strconv.Quote(p.Path())
		})
		return p.Name()
	})
	if !known {
		return ""
	}
	return name
}

// errorLine matches a line of the compiler that names a line of a file.
var errorLine = regexp.MustCompile(`(?m)^(?:\./|vet: )?([^\s:]+\.go):(\d+):`)

// numbers matches the numbers of changes in a line of code.
var numbers = regexp.MustCompile(`\b_[a-z]+(?:\[[^\]]*\])?\((\d+)`)

// build compiles the test binary of a package with all changes of jobs, and sets their numbers. A
// change that does not compile has the fate invalid.
func (o *options) build(ctx context.Context, s *suite, sources []*source, jobs []*job, dir string) error {
	for i, j := range jobs {
		j.number = i + 1
	}
	for range 20 {
		report, files, err := o.compile(ctx, s, sources, jobs, dir)
		if err == nil {
			return nil
		}
		dropped := 0
		for _, m := range errorLine.FindAllStringSubmatch(report, -1) {
			code := files[filepath.Base(m[1])]
			line, _ := strconv.Atoi(m[2])
			lines := bytes.Split(code, []byte("\n"))
			if line < 1 || line > len(lines) {
				continue
			}
			// A statement of a change follows the line with its number.
			for line--; line > 0 && !numbers.Match(lines[line]); line-- {
			}
			for _, n := range numbers.FindAllSubmatch(lines[line], -1) {
				if i, _ := strconv.Atoi(string(n[1])); i > 0 && i <= len(jobs) && jobs[i-1].fate != invalid {
					jobs[i-1].fate = invalid
					dropped++
				}
			}
		}
		if dropped == 0 {
			return fmt.Errorf("%s: does not compile with its changes: %w\n%s", s.ImportPath, err, report)
		}
	}
	return fmt.Errorf("%s: does not compile with its changes", s.ImportPath)
}

// compile compiles the binary of the changed package. It returns the compiler's report, and the code of
// each file.
func (o *options) compile(ctx context.Context, own *suite, sources []*source, jobs []*job, dir string) (string,
	map[string][]byte, error) {
	files, replace := make(map[string][]byte), make(map[string]string)
	for _, s := range sources {
		fresh, err := parse(token.NewFileSet(), s.path) // without the changes of the attempt before
		if err != nil {
			return "", nil, err
		}
		for i, m := range fresh.mutants {
			was := s.mutants[i]
			if was.job != nil && was.job.fate != invalid && !m.embed(was.job.number, typeName(s.types[was.of].Type, s.tree)) {
				was.job.fate = invalid
			}
		}
		code, err := fresh.render()
		if err != nil {
			return "", nil, err
		}
		name := filepath.Base(s.path)
		files[name], replace[s.path] = code, filepath.Join(dir, name)
	}
	helper := "zz_mutants.go"
	files[helper] = helperFile(sources[0].tree.Name.Name)
	replace[filepath.Join(own.Dir, helper)] = filepath.Join(dir, helper)
	for name, code := range files {
		if err := os.WriteFile(filepath.Join(dir, name), code, 0o666); err != nil {
			return "", nil, err
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(overlayOf(dir), overlay, 0o666); err != nil {
		return "", nil, err
	}
	report, err := own.link(ctx, dir)
	return string(report), files, err
}

func overlayOf(dir string) string { return filepath.Join(dir, "overlay.json") }

// link compiles the binary of a suite with the changes in dir, and returns the compiler's report.
func (s *suite) link(ctx context.Context, dir string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-gcflags=-e", "-overlay",
		overlayOf(dir), "-o", s.binary, s.ImportPath)
	cmd.Dir = s.Dir
	return cmd.CombinedOutput()
}
