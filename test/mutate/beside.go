package main

import (
	"go/ast"
	"go/token"
	"regexp"
)

// ofError matches the names of variables that hold an error.
var ofError = regexp.MustCompile(`^err|[eE]rr$`)

// sentinel matches the names of errors that are made once and are never nil.
var sentinel = regexp.MustCompile(`^[eE]rr[A-Z]`)

// countsAnyway matches the methods of package io: their callers use the count beside an error.
var countsAnyway = regexp.MustCompile(`^(Read|Write)(At|From|To|String)?$`)

// besideErrors returns the zeros and falses that a function returns beside an error that is not nil. By
// convention no caller uses them. Other values beside an error have a purpose.
func besideErrors(f *ast.FuncDecl) map[ast.Expr]bool {
	zeros := make(map[ast.Expr]bool)
	if countsAnyway.MatchString(f.Name.Name) {
		return zeros
	}
	assigned := assignedIn(f)
	eachReturn(f.Body, true, func(r *ast.ReturnStmt) {
		if made(last(r), assigned) {
			noteZeros(zeros, r)
		}
	})
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			noteFailed(zeros, []ast.Expr{n.Cond}, n.Body)
		case *ast.CaseClause:
			noteFailed(zeros, n.List, &ast.BlockStmt{List: n.Body})
		}
		return true
	})
	return zeros
}

// noteFailed notes the zeros beside an error that the only one of some conditions finds not to be nil,
// in the block that the condition guards.
func noteFailed(zeros map[ast.Expr]bool, conditions []ast.Expr, body *ast.BlockStmt) {
	if len(conditions) != 1 {
		return
	}
	failed := failures(conditions[0])
	for name := range assignedIn(body) {
		delete(failed, name)
	}
	eachReturn(body, false, func(r *ast.ReturnStmt) {
		if id, ok := last(r).(*ast.Ident); ok && failed[id.Name] {
			noteZeros(zeros, r)
		}
	})
}

// failures returns the names of errors that are not nil where a condition is true.
func failures(cond ast.Expr) map[string]bool {
	names := make(map[string]bool)
	b, ok := cond.(*ast.BinaryExpr)
	switch {
	case !ok:
	case b.Op == token.LAND:
		for _, side := range []ast.Expr{b.X, b.Y} {
			for name := range failures(side) {
				names[name] = true
			}
		}
	case b.Op == token.NEQ:
		x, known := b.X.(*ast.Ident)
		if y, ok := b.Y.(*ast.Ident); ok && known && y.Name == "nil" && ofError.MatchString(x.Name) {
			names[x.Name] = true
		}
	}
	return names
}

// made reports whether an expression makes an error, or names a sentinel.
func made(e ast.Expr, assigned map[string]bool) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		return calls(e, "errors", "New") || calls(e, "fmt", "Errorf")
	case *ast.Ident:
		return sentinel.MatchString(e.Name) && !assigned[e.Name]
	case *ast.SelectorExpr:
		return sentinel.MatchString(e.Sel.Name)
	}
	return false
}

func calls(c *ast.CallExpr, pkg, name string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// assignedIn returns the names that a node declares or assigns: a variable of a function may be nil, whatever its name.
func assignedIn(n ast.Node) map[string]bool {
	names := make(map[string]bool)
	note := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			names[id.Name] = true
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				note(e)
			}
		case *ast.RangeStmt:
			note(n.Key)
			note(n.Value)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				note(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				note(id)
			}
		}
		return true
	})
	return names
}

// eachReturn calls visit for the return statements in a block. If inner is true, it enters the functions in the block.
func eachReturn(body *ast.BlockStmt, inner bool, visit func(*ast.ReturnStmt)) {
	ast.Inspect(body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 1 {
			visit(r)
		}
		_, literal := n.(*ast.FuncLit)
		return inner || !literal
	})
}

func last(r *ast.ReturnStmt) ast.Expr { return r.Results[len(r.Results)-1] }

func noteZeros(zeros map[ast.Expr]bool, r *ast.ReturnStmt) {
	for _, e := range r.Results[:len(r.Results)-1] {
		switch v := e.(type) {
		case *ast.BasicLit:
			zeros[e] = v.Value == "0"
		case *ast.Ident:
			zeros[e] = v.Name == "false"
		}
	}
}
