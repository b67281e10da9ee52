// Command fuzzcover measures how much of each parser the inputs of its fuzz tests reach: the seeds in the
// tests and those below testdata/fuzz, which "go test" runs too. The result is the same on each machine.
//
//	go run ./test/fuzzcover [-min PERCENT] [FOLDER...]
//
// parsers.tsv has a line for each folder with fuzz tests: the folder, and the files in which it parses, or * for
// all, or - where its fuzz tests are of other folders' parsers. FILE:FUNCTION is a single function. The share
// is that of blocks in the functions of these files that the inputs enter. A function whose name begins with
// parse, decode, skip or scan counts even if none enters it. For a folder below PERCENT, the functions that
// lack most are printed, and the command fails.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed parsers.tsv
var parsers string

// worst is how many functions are printed of a parser below the bound.
const worst = 8

func main() {
	least := flag.Float64("min", 80, "least `percent` of blocks")
	flag.Parse()
	below := 0
	for line := range strings.Lines(parsers) {
		folder, files, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if files == "-" || flag.NArg() > 0 && !slices.Contains(flag.Args(), folder) {
			continue
		}
		p := measured{folder: folder, files: strings.Fields(files)}
		if err := p.measure(); err != nil {
			fmt.Fprintf(os.Stderr, "fuzzcover: %s: %v\n", folder, err)
			os.Exit(1)
		}
		fmt.Printf("%3.0f %%  %s, %d of %d blocks\n", p.share(), folder, p.hit, p.all)
		if p.share() < *least {
			below++
			for _, f := range p.lowest() {
				fmt.Printf("\t%s, %d of %d\n", f.name, f.hit, f.all)
			}
		}
	}
	if below > 0 {
		fmt.Fprintf(os.Stderr, "fuzzcover: %d folders are below %g %%\n", below, *least)
		os.Exit(1)
	}
}

// A measured is a parser and what the inputs reach of it.
type measured struct {
	folder    string
	files     []string
	all, hit  int // blocks
	functions []function
}

// A function is what the inputs reach of one function.
type function struct {
	name        string
	first, last int // lines
	all, hit    int // blocks
}

func (m *measured) share() float64 {
	if m.all == 0 {
		return 0
	}
	return 100 * float64(m.hit) / float64(m.all)
}

// lowest returns the functions of which most blocks are not reached.
func (m *measured) lowest() []function {
	slices.SortFunc(m.functions, func(a, b function) int { return (b.all - b.hit) - (a.all - a.hit) })
	return m.functions[:min(len(m.functions), worst)]
}

// measure runs the fuzz tests of the folder with their inputs.
func (m *measured) measure() error {
	dir, err := os.MkdirTemp("", "fuzzcover")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	profile := filepath.Join(dir, "cover")
	run := exec.Command("go", "test", "-vet=off", "-run", "^Fuzz", "-covermode", "set", "-coverprofile", profile, ".")
	run.Dir = filepath.FromSlash(m.folder)
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	content, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	of, err := blocks(content)
	if err != nil {
		return err
	}
	for file, all := range of {
		if err := m.count(file, all); err != nil {
			return err
		}
	}
	return nil
}

// A block is a line of a coverage profile: where it begins, and whether it ran.
type block struct {
	line int
	hit  bool
}

// blocks reads a coverage profile, by the base names of files.
func blocks(profile []byte) (map[string][]block, error) {
	of := make(map[string][]block)
	lines := bufio.NewScanner(bytes.NewReader(profile))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "mode:") {
			continue
		}
		file, rest, _ := strings.Cut(lines.Text(), ":")
		var b block
		var column, end, endColumn, statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &column, &end, &endColumn, &statements,
			&count); err != nil {
			return nil, fmt.Errorf("profile line %q: %w", lines.Text(), err)
		}
		b.hit = count > 0
		of[path.Base(file)] = append(of[path.Base(file)], b)
	}
	return of, lines.Err()
}

// counts reports whether a function of a file belongs to the parser.
func (m *measured) counts(file, name string) bool {
	return slices.Contains(m.files, "*") || slices.Contains(m.files, file) || slices.Contains(m.files, file+":"+name)
}

// always matches the names of functions that count though no input enters them.
var always = regexp.MustCompile(`^(?i:parse|decode|skip|scan)`)

// count adds the functions of a file that count.
func (m *measured) count(file string, all []block) error {
	set := token.NewFileSet()
	name := filepath.Join(filepath.FromSlash(m.folder), file)
	parsed, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !m.counts(file, fn.Name.Name) {
			continue
		}
		f := function{name: file + ": " + fn.Name.Name, first: set.Position(fn.Pos()).Line,
			last: set.Position(fn.End()).Line}
		for _, b := range all {
			if b.line >= f.first && b.line <= f.last {
				f.all++
				if b.hit {
					f.hit++
				}
			}
		}
		if f.hit > 0 || f.all > 0 && always.MatchString(fn.Name.Name) {
			m.all, m.hit, m.functions = m.all+f.all, m.hit+f.hit, append(m.functions, f)
		}
	}
	return nil
}
