package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const baselineFile = "test/prose/baseline.tsv"

// A finding is one place that breaks a rule.
type finding struct {
	rule, file string
	line       int
	text       string
}

// A place is a folder and a rule: what baseline.tsv counts.
type place struct{ folder, rule string }

func main() {
	list := flag.String("list", "", "print every finding of this `RULE`, or of \"all\" rules")
	lower := flag.Bool("lower", false, "write lower counts into the baseline")
	flag.Parse()
	if err := run(*list, *lower); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(list string, lower bool) error {
	findings, err := check(os.DirFS("."))
	if err != nil {
		return err
	}
	counts := make(map[place]int)
	for _, f := range findings {
		counts[place{path.Dir(f.file), f.rule}]++
		if list == f.rule || list == "all" {
			fmt.Printf("%s:%d: %s: %s\n", f.file, f.line, f.rule, f.text)
		}
	}
	if list != "" {
		return nil
	}
	summary(counts)
	mean, err := meanWords(os.DirFS("docs"))
	if err != nil {
		return err
	}
	fmt.Printf("%-20s %.1f\n", "words a sentence", mean)
	allowed, err := readBaseline()
	if err != nil {
		return err
	}
	if lower {
		return writeBaseline(counts, allowed)
	}
	worse := 0
	for _, p := range slices.SortedFunc(maps.Keys(counts), byPlace) {
		if counts[p] > allowed[p] {
			worse++
			fmt.Printf("%s: %d of %s, at most %d\n", p.folder, counts[p], p.rule, allowed[p])
		}
	}
	if worse > 0 {
		return fmt.Errorf("%d folders have more findings than %s allows; -list RULE prints them", worse, baselineFile)
	}
	return nil
}

func byPlace(a, b place) int {
	return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.rule, b.rule))
}

// summary prints the findings of each rule.
func summary(counts map[place]int) {
	sums := make(map[string]int)
	for p, n := range counts {
		sums[p.rule] += n
	}
	for _, r := range slices.Sorted(maps.Keys(sums)) {
		fmt.Printf("%-20s %d\n", r, sums[r])
	}
}

// check returns the findings in every Go file and document of a tree, in the order of files.
func check(tree fs.FS) ([]finding, error) {
	var all []finding
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "dist" ||
				base == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		if ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		var found []finding
		if ext == ".go" {
			found, err = checkGo(name, string(text))
		} else {
			found = checkDocument(name, string(text))
		}
		all = append(all, found...)
		return err
	})
	return all, err
}

// generated matches the comment that generated Go files have.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// checkGo returns the findings in a Go file: its comments, the sentences in its strings, the
// names that it declares, and its lines.
func checkGo(name, text string) ([]finding, error) {
	if generated.MatchString(text) {
		return nil, nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := longLines(name, text, rawLines(files, file))
	at := func(p token.Pos) int { return files.Position(p).Line }
	for _, group := range file.Comments {
		found = append(found, checkProse(name, at(group.Pos()), group.Text())...)
	}
	declared := func(id *ast.Ident) {
		if id != nil && vagueNames[id.Name] {
			found = append(found, finding{"vague-name", name, at(id.Pos()), id.Name})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.Count(s, " ") > 2 &&
				!strings.Contains(s, "\r") && !strings.HasSuffix(name, "_test.go") {
				s = jsonKey.ReplaceAllString(s, "")
				found = append(found, checkProse(name, at(n.Pos()), s)...)
			}
		case *ast.CallExpr:
			if message, ok := logged(n); ok && !strings.HasSuffix(name, "_test.go") && severalParts.MatchString(message) {
				found = append(found, finding{"message-parts", name, at(n.Pos()), message})
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				for _, e := range []ast.Expr{n.Key, n.Value} {
					id, _ := e.(*ast.Ident)
					declared(id)
				}
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					id, _ := left.(*ast.Ident)
					declared(id)
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				declared(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				declared(id)
			}
		case *ast.FuncDecl:
			declared(n.Name)
		}
		return true
	})
	return found, nil
}

// severalParts matches a message that has its consequence or its hint in itself, after a colon or semicolon.
var severalParts = regexp.MustCompile(`^\S+ .*[:;] `)

// logged returns the message of a call that logs a warning or an error; ok is false for any other call.
func logged(call *ast.CallExpr) (message string, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Warn" && f.Sel.Name != "Error" || len(call.Args) == 0 {
		return "", false
	}
	switch logger := f.X.(type) {
	case *ast.Ident:
		ok = logger.Name == "log"
	case *ast.SelectorExpr:
		ok = strings.EqualFold(logger.Sel.Name, "log")
	}
	return constant(call.Args[0]), ok
}

// constant returns the text of a string, of several that are joined, or of the first of them that are.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) // "" for a number
		return text
	case *ast.BinaryExpr:
		return constant(e.X) + constant(e.Y)
	}
	return ""
}

// checkDocument returns the findings in a Markdown document, outside of code and tables.
func checkDocument(name, text string) []finding {
	var found []finding
	for _, p := range paragraphs(text) {
		for i, l := range p.lines {
			if n := utf8.RuneCountInString(l); n > maxLine && !strings.Contains(l, "](") {
				found = append(found, finding{"long-line", name, p.begin + i, strconv.Itoa(n)})
			}
		}
		found = append(found, checkProse(name, p.begin, p.text)...)
		for _, s := range sentences(p.text) {
			if n := len(strings.Fields(s)); n > maxWords {
				found = append(found, finding{"long-sentence", name, p.begin, fmt.Sprintf("%d words: %s", n, s)})
			}
		}
	}
	return found
}

// A paragraph is a paragraph or an item of a list in a document.
type paragraph struct {
	begin int // number of its first line
	lines []string
	text  string // in one line, without the mark of an item
}

// paragraphs returns the running text of a Markdown document: code, tables and headings are left out.
func paragraphs(text string) (all []paragraph) {
	var p paragraph
	flush := func() {
		if len(p.lines) > 0 {
			all = append(all, p)
		}
		p = paragraph{}
	}
	code, line := false, 0
	for l := range strings.Lines(text) {
		line++
		l = strings.TrimRight(l, "\n")
		trimmed := strings.TrimSpace(l)
		fence := strings.HasPrefix(trimmed, "```")
		switch {
		case fence, code, trimmed == "", strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "#"),
			strings.HasPrefix(l, "    "):
			flush()
			code = code != fence
		default:
			if strings.HasPrefix(trimmed, "- ") || numbered.MatchString(trimmed) {
				flush()
			}
			if len(p.lines) == 0 {
				p.begin = line
			}
			p.lines = append(p.lines, l)
			p.text = strings.TrimSpace(p.text + " " + strings.TrimPrefix(trimmed, "- "))
		}
	}
	flush()
	return all
}

// meanWords returns the mean number of words of the sentences in the documents of a tree, outside of
// code and tables. Fragments of fewer than three words, such as links and abbreviations, are left out.
func meanWords(tree fs.FS) (float64, error) {
	words, count := 0, 0
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		for _, p := range paragraphs(string(text)) {
			for _, s := range sentences(p.text) {
				if n := len(strings.Fields(s)); n > 2 {
					words, count = words+n, count+1
				}
			}
		}
		return err
	})
	return float64(words) / float64(max(count, 1)), err
}

// numbered matches the beginning of an item of a numbered list.
var numbered = regexp.MustCompile(`^\d+\. `)

// checkProse returns what the sentences of a text break.
func checkProse(name string, line int, text string) []finding {
	var found []finding
	for _, s := range sentences(text) {
		for _, r := range broken(s) {
			found = append(found, finding{r, name, line, s})
		}
	}
	return found
}

// rawLines returns the numbers of the lines that hold a part of a raw string literal of more than one
// line, such as a shell script, which cannot be broken without changing the string.
func rawLines(files *token.FileSet, file *ast.File) map[int]bool {
	lines := make(map[int]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
			if first, last := files.Position(lit.Pos()).Line, files.Position(lit.End()).Line; first < last {
				for line := first; line <= last; line++ {
					lines[line] = true
				}
			}
		}
		return true
	})
	return lines
}

// longLines returns the lines that are too long, except those in exempt. A tab counts as one
// character. A line with a struct tag may be longer, because a tag cannot be broken.
func longLines(name, text string, exempt map[int]bool) []finding {
	var found []finding
	line := 0
	for l := range strings.Lines(text) {
		line++
		if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > maxLine && !exempt[line] &&
			!structTag.MatchString(l) {
			found = append(found, finding{"long-line", name, line, strconv.Itoa(n)})
		}
	}
	return found
}

// jsonKey matches the key of a field in a struct tag. It is a name of the interface and no prose.
var jsonKey = regexp.MustCompile(`json:"[^"]*"`)

// structTag matches a line that ends in a struct tag.
var structTag = regexp.MustCompile("`[a-z]+:\"[^`]*`\\s*(//.*)?$")

// readBaseline returns how many findings each folder may have of each rule.
func readBaseline() (map[place]int, error) {
	f, err := os.Open(baselineFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	allowed := make(map[place]int)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var p place
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "%s\t%s\t%d", &p.folder, &p.rule, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", baselineFile, lines.Text(), err)
		}
		allowed[p] = n
	}
	return allowed, lines.Err()
}

// writeBaseline writes the lower of the counts and what was allowed. A first baseline, from an
// empty file, takes the counts as they are.
func writeBaseline(counts, allowed map[place]int) error {
	var out strings.Builder
	for _, p := range slices.SortedFunc(maps.Keys(counts), byPlace) {
		n := counts[p]
		if len(allowed) > 0 {
			n = min(n, allowed[p])
		}
		if n > 0 {
			fmt.Fprintf(&out, "%s\t%s\t%d\n", p.folder, p.rule, n)
		}
	}
	return os.WriteFile(baselineFile, []byte(out.String()), 0o644)
}
