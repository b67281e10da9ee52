package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one change of one file.
type mutant struct {
	source *source
	file   string
	line   int
	what   string // "< -> <=", "statement left out"
	// embed puts the change into the tree it was found in, as a switch with this number. typ is the
	// name of the type of the expression of, "" if it is not known. embed returns false, and changes
	// nothing, if the place takes no switch.
	embed func(number int, typ string) bool
	of    ast.Expr
	job   *job // nil: not in the sample
}

// A source is one parsed file and the changes that it offers.
type source struct {
	path    string
	fset    *token.FileSet
	tree    *ast.File
	mutants []*mutant
	// cases gives the line of the switch for the lines of its cases' expressions.
	cases map[int]int
	types map[ast.Expr]types.TypeAndValue // set by prepare
	// slots gives the place of a statement in its block, and posts the loop that a statement is the
	// last part of the head of.
	slots map[ast.Stmt]*ast.Stmt
	posts map[ast.Stmt]*ast.ForStmt
	// unseen has the values of the current function that no caller uses.
	unseen map[ast.Expr]bool
}

// parse reads a file and finds all its mutants.
func parse(fset *token.FileSet, path string) (*source, error) {
	s := &source{path: path, fset: fset, cases: make(map[int]int), slots: make(map[ast.Stmt]*ast.Stmt),
		posts: make(map[ast.Stmt]*ast.ForStmt)}
	var err error
	if s.tree, err = parser.ParseFile(s.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, d := range s.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			s.unseen = besideErrors(f)
			ast.Inspect(f.Body, s.visit)
		}
	}
	return s, nil
}

// render returns the file as it stands, with or without changes.
func (s *source) render() ([]byte, error) {
	var out bytes.Buffer
	// Comments are left out: a statement that moves would leave its own behind.
	bare := *s.tree
	bare.Comments = directives(s.tree.Comments)
	err := printer.Fprint(&out, s.fset, &bare)
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

func (s *source) add(at token.Pos, what string, of ast.Expr, embed func(number int, typ string) bool) {
	s.mutants = append(s.mutants,
		&mutant{source: s, file: s.path, line: s.fset.Position(at).Line, what: what, of: of, embed: embed})
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
		was := n.Op
		if mentions(n.Y, "slack") && negated[was] != 0 {
			s.compared(n)
			break
		}
		s.operator(n.OpPos, was, nil, func(to token.Token, i int, _ string) bool {
			embedBinary(n, was, to, i)
			return true
		})
	case *ast.IncDecStmt:
		s.operator(n.TokPos, n.Tok, n.X, func(to token.Token, i int, typ string) bool {
			if loop := s.posts[n]; loop != nil {
				if typ == "" {
					return false
				}
				steps := "1, -1"
				if n.Tok == token.DEC {
					steps = "-1, 1"
				}
				loop.Post = &ast.AssignStmt{Lhs: []ast.Expr{n.X}, Tok: token.ADD_ASSIGN,
					Rhs: []ast.Expr{ast.NewIdent(fmt.Sprintf("_lit[%s](%d, %s)", typ, i, steps))}}
				return true
			}
			return s.instead(n, i, &ast.IncDecStmt{X: n.X, Tok: to})
		})
	case *ast.AssignStmt:
		s.operator(n.TokPos, n.Tok, nil, func(to token.Token, i int, _ string) bool {
			return s.instead(n, i, &ast.AssignStmt{Lhs: n.Lhs, Tok: to, Rhs: n.Rhs})
		})
	case *ast.IfStmt:
		s.condition(&n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			s.constant(&n.Cond, "false")
		}
		if n.Post != nil {
			s.posts[n.Post] = n
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
	return !spoken(n) && !sizes(n)
}

// compared adds the change of a comparison with a tolerance. To move its bound by nothing more than
// equality changes nothing: no sum of weights is equal to a bound and a tolerance.
func (s *source) compared(n *ast.BinaryExpr) {
	was, to := n.Op, negated[n.Op]
	s.add(n.OpPos, fmt.Sprintf("%s -> %s", was, to), nil, func(i int, _ string) bool {
		embedBinary(n, was, to, i)
		return true
	})
}

// mentions reports whether an expression has a name in it.
func mentions(e ast.Expr, name string) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// sizes reports whether a node only sizes a buffer that grows by itself, or a channel of signals: its number
// is no part of a contract.
func sizes(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.Ident: // make([]T, 0, capacity), make(map[K]V, size), make(chan struct{}, 1)
		if f.Name != "make" || len(call.Args) < 2 {
			return false
		}
		switch of := call.Args[0].(type) {
		case *ast.MapType:
			return true
		case *ast.ChanType:
			s, signal := of.Value.(*ast.StructType)
			return signal && len(s.Fields.List) == 0
		}
		if len(call.Args) < 3 {
			return false
		}
		length, ok := call.Args[1].(*ast.BasicLit)
		return ok && length.Value == "0"
	case *ast.SelectorExpr:
		return f.Sel.Name == "NewReaderSize" || f.Sel.Name == "NewWriterSize"
	}
	return false
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

// yields reports whether a node only lets other goroutines run: no result depends on that.
func yields(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == "runtime" && sel.Sel.Name == "Gosched"
}

func (s *source) operator(at token.Pos, was token.Token, of ast.Expr,
	embed func(to token.Token, i int, typ string) bool) {
	for _, to := range swaps[was] {
		s.add(at, fmt.Sprintf("%s -> %s", was, to), of, func(i int, typ string) bool { return embed(to, i, typ) })
	}
}

// instead runs another statement in place of st while change i is in force.
func (s *source) instead(st ast.Stmt, i int, other ast.Stmt) bool {
	slot := s.slots[st]
	if slot == nil {
		return false
	}
	*slot = &ast.IfStmt{Cond: on(i), Body: block(other), Else: block(*slot)}
	return true
}

func block(list ...ast.Stmt) *ast.BlockStmt { return &ast.BlockStmt{List: list} }

func (s *source) condition(cond *ast.Expr) {
	s.constant(cond, "true")
	s.constant(cond, "false")
}

// constant replaces a condition by true or false.
func (s *source) constant(cond *ast.Expr, value string) {
	s.add((*cond).Pos(), "condition -> "+value, nil, func(i int, _ string) bool {
		if value == "true" {
			*cond = binary(*cond, token.LOR, on(i))
		} else {
			*cond = binary(*cond, token.LAND, not(on(i)))
		}
		return true
	})
}

// result negates a boolean result of a function.
func (s *source) result(r *ast.ReturnStmt) {
	for i, e := range r.Results {
		id, ok := e.(*ast.Ident)
		if !ok || id.Name != "true" && id.Name != "false" || s.unseen[e] {
			continue
		}
		other := "true"
		if id.Name == "true" {
			other = "false"
		}
		s.add(e.Pos(), "return "+id.Name+" -> "+other, nil, func(n int, _ string) bool {
			if r.Results[i] = on(n); id.Name == "true" {
				r.Results[i] = not(on(n))
			}
			return true
		})
	}
}

func (s *source) number(l *ast.BasicLit) {
	if l.Kind != token.INT || s.unseen[l] {
		return
	}
	v, err := strconv.ParseUint(l.Value, 0, 64)
	if err != nil {
		return
	}
	was, next := l.Value, strconv.FormatUint(v+1, 10)
	s.add(l.Pos(), was+" -> "+next, l, func(i int, typ string) bool {
		if typ == "" {
			return false
		}
		l.Value, l.Kind = fmt.Sprintf("_lit[%s](%d, %s, %s)", typ, i, was, next), token.STRING // printed as it is
		return true
	})
}

// statements offers to leave out each statement that the following code does not need to compile:
// calls, assignments, sends, branches.
func (s *source) statements(list []ast.Stmt) {
	for i, st := range list {
		s.slots[st] = &list[i]
		switch st := st.(type) {
		case *ast.ExprStmt:
			if spoken(st.X) || yields(st.X) {
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
		s.add(st.Pos(), "statement left out", nil, func(n int, _ string) bool {
			list[i] = &ast.IfStmt{Cond: not(on(n)), Body: block(list[i])}
			return true
		})
	}
}
