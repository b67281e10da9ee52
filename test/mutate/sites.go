package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one change of one file.
type mutant struct {
	file string
	line int
	what string // "< -> <=", "statement left out"
	// apply makes the change in the tree it was found in, undo takes it back.
	apply, undo func()
}

// A source is one parsed file and the changes that it offers.
type source struct {
	path    string
	fset    *token.FileSet
	tree    *ast.File
	mutants []*mutant
	// cases gives the line of the switch for the lines of its cases' expressions.
	cases map[int]int
}

// parse reads a file and finds all its mutants.
func parse(path string) (*source, error) {
	s := &source{path: path, fset: token.NewFileSet(), cases: make(map[int]int)}
	var err error
	if s.tree, err = parser.ParseFile(s.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			ast.Inspect(f.Body, s.visit)
		}
	}
	return s, nil
}

// render returns the file as it stands, a mutant applied or not.
func (s *source) render() ([]byte, error) {
	var out bytes.Buffer
	// Comments are left out: a statement that goes would leave its own behind.
	bare := *s.tree
	bare.Comments = directives(s.tree.Comments)
	err := format.Node(&out, s.fset, &bare)
	return out.Bytes(), err
}

// directives returns the comments that have a meaning for the compiler.
func directives(all []*ast.CommentGroup) []*ast.CommentGroup {
	keep := []*ast.CommentGroup{} // nil would bring the doc comments back
	for _, g := range all {
		if slices.ContainsFunc(g.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") }) {
			keep = append(keep, g)
		}
	}
	return keep
}

func (s *source) add(at token.Pos, what string, apply, undo func()) {
	s.mutants = append(s.mutants, &mutant{file: s.path, line: s.fset.Position(at).Line, what: what, apply: apply,
		undo: undo})
}

// swaps holds the replacements of an operator. Each one is a mutant of its own.
var swaps = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.REM: {token.MUL}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.AND_NOT: {token.AND},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.OR_ASSIGN: {token.AND_ASSIGN}, token.XOR_ASSIGN: {token.OR_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

func (s *source) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		s.operator(n.OpPos, &n.Op)
	case *ast.IncDecStmt:
		s.operator(n.TokPos, &n.Tok)
	case *ast.AssignStmt:
		s.operator(n.TokPos, &n.Tok)
	case *ast.IfStmt:
		s.condition(&n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			s.constant(&n.Cond, "false")
		}
	case *ast.SwitchStmt:
		s.noteCases(n)
	case *ast.ReturnStmt:
		s.result(n)
	case *ast.BasicLit:
		s.number(n)
	case *ast.BlockStmt:
		s.statements(n.List)
	case *ast.CaseClause:
		s.statements(n.Body)
	case *ast.CommClause:
		s.statements(n.Body)
	}
	return !spoken(n)
}

// noteCases notes where the expressions of a switch's cases are. They run with the
// switch, and a cover profile counts their lines to the bodies, which may never run.
func (s *source) noteCases(n *ast.SwitchStmt) {
	for _, c := range n.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			for l := s.fset.Position(e.Pos()).Line; l <= s.fset.Position(e.End()).Line; l++ {
				s.cases[l] = s.fset.Position(n.Pos()).Line
			}
		}
	}
}

// covered reports whether a test runs the line, given the lines that a profile counts.
func (s *source) covered(line int, lines map[int]bool) bool {
	return lines[line] || lines[s.cases[line]]
}

// spoken reports whether a node only produces text: the text of logs, errors and panics is not part
// of a contract.
func spoken(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		id, ok := call.Fun.(*ast.Ident)
		return ok && id.Name == "panic"
	}
	switch sel.Sel.Name {
	case "Errorf", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs":
		return true
	}
	return false
}

func (s *source) operator(at token.Pos, op *token.Token) {
	was := *op
	for _, to := range swaps[was] {
		s.add(at, fmt.Sprintf("%s -> %s", was, to), func() { *op = to }, func() { *op = was })
	}
}

func (s *source) condition(cond *ast.Expr) {
	s.constant(cond, "true")
	s.constant(cond, "false")
}

// constant replaces a condition by true or false. It still uses the variables of the condition,
// because the compiler rejects unused variables.
func (s *source) constant(cond *ast.Expr, value string) {
	was, op := *cond, token.LOR
	if value == "false" {
		op = token.LAND
	}
	s.add(was.Pos(), "condition -> "+value, func() {
		*cond = &ast.BinaryExpr{X: &ast.ParenExpr{X: was}, Op: op, Y: ast.NewIdent(value)}
	}, func() { *cond = was })
}

// result negates a boolean result of a function.
func (s *source) result(r *ast.ReturnStmt) {
	for i, e := range r.Results {
		id, ok := e.(*ast.Ident)
		if !ok || id.Name != "true" && id.Name != "false" {
			continue
		}
		other := "true"
		if id.Name == "true" {
			other = "false"
		}
		s.add(e.Pos(), "return "+id.Name+" -> "+other, func() {
			r.Results[i] = ast.NewIdent(other)
		}, func() { r.Results[i] = e })
	}
}

func (s *source) number(l *ast.BasicLit) {
	if l.Kind != token.INT {
		return
	}
	v, err := strconv.ParseUint(l.Value, 0, 64)
	if err != nil {
		return
	}
	was, changed := l.Value, strconv.FormatUint(v+1, 10)
	s.add(l.Pos(), was+" -> "+changed, func() { l.Value = changed }, func() { l.Value = was })
}

// statements offers to leave out each statement that the following code does not need to compile:
// calls, assignments, sends, branches.
func (s *source) statements(list []ast.Stmt) {
	for i, st := range list {
		switch st := st.(type) {
		case *ast.ExprStmt:
			if spoken(st.X) {
				continue
			}
		case *ast.AssignStmt:
			if st.Tok == token.DEFINE {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.BranchStmt:
		default:
			continue
		}
		s.add(st.Pos(), "statement left out", func() { list[i] = &ast.EmptyStmt{Implicit: true} }, func() { list[i] = st })
	}
}
