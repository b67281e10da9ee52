package main

import (
	"bufio"
	"errors"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const sample = `//go:build linux

package sample

import "fmt"

// Sum is a doc comment.
func Sum(limit int, list []int) (n int, ok bool) {
	for i := 0; i < len(list); i++ {
		// A comment inside.
		if n > limit && list[i] != 0 {
			fmt.Errorf("at %d", 7)
			return n, false
		}
		n += list[i]
		record(n)
		runtime.Gosched()
		signal(make(chan struct{}, 1), make(chan int, 9))
		if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) {
			continue
		}
	}
	return n, true
}

func record(int) {}

const slack = 1
`

// TestSites names every change of a small file, and puts each into the file alone.
func TestSites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sample.go")
	if err := os.WriteFile(path, []byte(sample), 0o666); err != nil {
		t.Fatal(err)
	}
	parsed := func() (*source, string) {
		s, err := parse(token.NewFileSet(), path)
		if err != nil {
			t.Fatal(err)
		}
		code, err := s.render()
		if err != nil {
			t.Fatal(err)
		}
		return s, string(code)
	}
	s, before := parsed()
	if !strings.HasPrefix(before, "//go:build linux\n") {
		t.Errorf("the build constraint is lost:\n%s", before)
	}
	var got []string
	for i, m := range s.mutants {
		changed, _ := parsed()
		if !changed.mutants[i].embed(7, "int") {
			t.Errorf("line %d, %s: takes no switch", m.line, m.what)
		}
		code, err := changed.render()
		if err != nil || !numbers.Match(code) || string(code) == before {
			t.Errorf("line %d, %s: %v, no switch in\n%s", m.line, m.what, err, code)
		}
		got = append(got, strings.TrimSpace(strings.Split(sample, "\n")[m.line-1])+" | "+m.what)
	}
	want := []string{
		"for i := 0; i < len(list); i++ { | condition -> false",
		"for i := 0; i < len(list); i++ { | 0 -> 1",
		"for i := 0; i < len(list); i++ { | < -> <=",
		"for i := 0; i < len(list); i++ { | < -> >=",
		"for i := 0; i < len(list); i++ { | ++ -> --",
		"n += list[i] | statement left out",
		"record(n) | statement left out",
		"signal(make(chan struct{}, 1), make(chan int, 9)) | statement left out",
		"signal(make(chan struct{}, 1), make(chan int, 9)) | 9 -> 10",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | condition -> true",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | condition -> false",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | || -> &&",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | >= -> <",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | - -> +",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | > -> >=",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | > -> <=",
		"if n >= limit-slack || cap(make([]int, 0, 5)) > cap(make([]int, 6)) { | 6 -> 7",
		"continue | statement left out",
		"if n > limit && list[i] != 0 { | condition -> true",
		"if n > limit && list[i] != 0 { | condition -> false",
		"if n > limit && list[i] != 0 { | && -> ||",
		"if n > limit && list[i] != 0 { | > -> >=",
		"if n > limit && list[i] != 0 { | > -> <=",
		"if n > limit && list[i] != 0 { | != -> ==",
		"if n > limit && list[i] != 0 { | 0 -> 1",
		"return n, false | return false -> true",
		"n += list[i] | += -> -=",
		"return n, true | return true -> false",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("changes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBesideErrors: a zero or a false beside an error that is not nil offers no change. Other values do, and zeros
// where the error may be nil.
func TestBesideErrors(t *testing.T) {
	const head = "package sample\n\n"
	for _, c := range []struct {
		name, code string
		want       bool // a change of the result
	}{
		{"plain", "func f() (int, error) { return 0, nil }", true},
		{"failed", "func f() (int, error) { if err := g(); err != nil { return 0, err }; h() }", false},
		{"failed flag", "func f() (bool, error) { if err := g(); err != nil { return false, err }; h() }", false},
		{"failed and more", "func f() (int, error) { if err != nil && ok { return 0, err }; h() }", false},
		{"failed or not", "func f() (int, error) { if err != nil || ok { return 0, err }; h() }", true},
		{"not failed", "func f() (int, error) { if err == nil { return 0, err }; h() }", true},
		{"otherwise", "func f() (int, error) { if err != nil { h() } else { return 0, err }; h() }", true},
		{"no error", "func f() (int, *T) { if p != nil { return 0, p }; h() }", true},
		{"mended", "func f() (int, error) { if err != nil { return 0, nil }; h() }", true},
		{"assigned again", "func f() (int, error) { if err != nil { err = g(); return 0, err }; h() }", true},
		{"another error", "func f() (int, error) { if err != nil { return 0, other }; h() }", true},
		{"another function", "func f() { if err != nil { h(func() (int, error) { return 0, err }) }; h() }", true},
		{"a function's error", "func f() (int, error) { if err != nil { return 0, mend(err) }; h() }", true},
		{"case", "func f() (int, error) { switch { case err != nil: return 0, err }; h() }", false},
		{"case of two", "func f() (int, error) { switch { case err != nil, ok: return 0, err }; h() }", true},
		{"joined", "func f() (int, error) { return 0, errors.Join(err, g()) }", true},
		{"new", `func f() (int, error) { return 0, errors.New("x") }`, false},
		{"wrapped", `func f() (int, bool, error) { return 0, false, fmt.Errorf("x: %w", err) }`, false},
		{"sentinel", "func f() (int, error) { return 0, errBad }", false},
		{"sentinel elsewhere", "func f() (int, error) { return 0, p.ErrBad }", false},
		{"only a name", "func f() (int, error) { errBad := g(); return 0, errBad }", true},
		{"only a result", "func f() (n int, errBad error) { return 0, errBad }", true},
		{"end of file", "func f() (int, error) { return 0, io.EOF }", true},
		{"in a function", "func f() { h(func() (int, error) { return 0, errBad }) }", false},
		{"on purpose", "func f() (bool, error) { return true, errBad }", true},
		{"a number on purpose", "func f() (int, error) { if err != nil { return 1, err }; h() }", true},
		{"part of a value", "func f() (int, error) { return n + 0, errBad }", true},
		{"count", "func (w *w) Write([]byte) (int, error) { return 0, errBad }", true},
		{"count at", "func (w *w) ReadAt([]byte, int64) (int, error) { if err != nil { return 0, err }; h() }", true},
		{"no result beside", "func f() error { return errBad }", false},
	} {
		path := filepath.Join(t.TempDir(), "sample.go")
		if err := os.WriteFile(path, []byte(head+c.code), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := parse(token.NewFileSet(), path)
		if err != nil {
			t.Fatal(c.name, err)
		}
		got := slices.ContainsFunc(s.mutants, func(m *mutant) bool {
			return m.what[0] >= '0' && m.what[0] <= '9' || strings.HasPrefix(m.what, "return ")
		})
		if got != c.want {
			t.Errorf("%s: a change %v, want %v: %s", c.name, got, c.want, c.code)
		}
	}
}

// switched is a package whose tests print what each function returns.
var switched = map[string]string{"go.mod": "module example.org/switched\n\ngo 1.26\n",
	"switched.go": `package switched

import "time"

type word uint8

func less(a, b int) bool { return a < b }
func atMost(a, b int) bool { return a <= b }
func above(a, b int) bool { return a > b }
func atLeast(a, b int) bool { return a >= b }
func equal(a, b int) bool { return a == b }
func other(a, b int) bool { return a != b }
func chain(a, b int) bool { return a > 0 && b > 0 || a == b }
func plus(a, b int) int { return a + b }
func minus(a, b float64) float64 { return a - b }
func times(a time.Duration) time.Duration { return a * time.Second }
func over(a, b int) int { return a / b }
func rest(a, b int) int { return a % b }
func left(a word, b uint) word { return a << b }
func bits(a, b word) word { return a&b ^ a | a&^b }
func text(a, b string) string { return a + b }
func text2(a string) string { a += "x"; return a }
func small(a word) word { return a + 255 }
func table() int { return len([3]int{2: 1}) }
func is(a bool) bool {
	if a {
		return true
	}
	return false
}
func loop(n int) (sum int) {
	for i := 0; i*i < n*n; i++ {
		if i == 1 {
			continue
		}
		sum += i
	}
	sum--
	return sum
}
`,
	"switched_test.go": `package switched

import (
	"fmt"
	"testing"
)

func Test(t *testing.T) {
	for i, f := range []func(a, b int) bool{less, atMost, above, atLeast, equal, other, chain} {
		fmt.Println([]string{"less", "atMost", "above", "atLeast", "equal", "other", "chain"}[i], f(1, 2), f(2, 2), f(3, 2), f(0, 5))
	}
	fmt.Println("plus", plus(5, 2))
	fmt.Println("minus", minus(5, 2))
	fmt.Println("times", times(3))
	fmt.Println("over", over(6, 2))
	fmt.Println("rest", rest(7, 4))
	fmt.Println("left", left(4, 1))
	fmt.Println("bits", bits(6, 3))
	fmt.Println("text", text("a", "b"))
	fmt.Println("text2", text2("a"))
	fmt.Println("small", small(3), table())
	fmt.Println("is", is(true), is(false))
	fmt.Println("loop", loop(4))
}
`}

// TestSwitches compiles a package with all its changes, and selects one after the other.
func TestSwitches(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	for name, text := range switched {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	pkgs, err := packages(t.Context(), []string{"."})
	if err != nil || len(pkgs) != 1 {
		t.Fatal(pkgs, err)
	}
	o, p := &options{}, pkgs[0]
	jobs, sources, err := o.sample(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.prepare(t.Context(), p, sources); err != nil {
		t.Fatal(err)
	}
	own := &suite{pkg: p, binary: filepath.Join(tmp, "tests")}
	if err := o.build(t.Context(), own, sources, jobs, tmp); err != nil {
		t.Fatal(err)
	}
	printed := func(number int) map[string]string {
		out, _ := o.test(t.Context(), own, number, selection{others: true}, time.Minute, tmp)
		lines := make(map[string]string)
		for line := range strings.Lines(string(out)) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			lines[name] = rest
		}
		return lines
	}
	plain := printed(0)
	got := make(map[string]string)
	for _, j := range jobs {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.Split(switched["switched.go"], "\n")[j.line-1], "func "), "(")
		if strings.HasPrefix(name, "\t") || strings.HasPrefix(name, "}") {
			name = "loop"
			if j.line < 32 {
				name = "is"
			}
		}
		what := name + ": " + j.what
		if j.fate == invalid {
			got[what] += ";invalid"
			continue
		}
		now := printed(j.number)
		for line, result := range plain {
			if line != name && now[line] != result {
				t.Errorf("%s: changes %s from %q to %q", what, line, result, now[line])
			}
		}
		got[what] += ";" + now[name]
	}
	for what, all := range got {
		list := strings.Split(all[1:], ";")
		slices.Sort(list)
		got[what] = strings.Join(list, ";")
	}
	want := map[string]string{
		"less: < -> <=": "true true false true", "less: < -> >=": "false true true false",
		"atMost: <= -> <": "true false false true", "atMost: <= -> >": "false false true false",
		"above: > -> >=": "false true true false", "above: > -> <=": "true true false true",
		"atLeast: >= -> >": "false false true false", "atLeast: >= -> <": "true false false true",
		"equal: == -> !=": "true false true true", "other: != -> ==": "false true false false",
		"chain: && -> ||": "true true true true", "chain: || -> &&": "false true false false",
		"chain: > -> <=": "false true false false;false true false true",
		"chain: > -> >=": "true true true false;true true true true",
		"chain: 0 -> 1":  "false true true false;true true true false", "chain: == -> !=": "true true true true",
		"plus: + -> -": "3", "minus: - -> +": "7", "times: * -> /": "0s", "over: / -> *": "12", "rest: % -> *": "28",
		"left: << -> >>": "2", "bits: & -> |": "5", "bits: &^ -> &": "6", "bits: ^ -> &": "6", "bits: | -> &": "4",
		"is: condition -> false": "false false", "is: condition -> true": "true true",
		"is: return true -> false": "false false", "is: return false -> true": "true true", "text2: statement left out": "a",
		"loop: 0 -> 1": "4", "loop: 1 -> 2": "3", "loop: < -> <=": "8", "loop: < -> >=": "-1", "loop: == -> !=": "0",
		"loop: * -> /": ";-1", "loop: ++ -> --": "-7", "loop: -- -> ++": "6", "loop: += -> -=": "-6",
		"loop: condition -> true": "-1", "loop: condition -> false": "-1;5", "loop: statement left out": "-1;5;5",
		// A string has no difference, a word has no 256, and the length of an array is a constant.
		"text: + -> -": "invalid", "text2: += -> -=": "invalid", "small: 255 -> 256": "invalid", "small: + -> -": "invalid",
		"table: 1 -> 2": "invalid", "table: 2 -> 3": "invalid", "table: 3 -> 4": "invalid",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("results: %q\nwant %q", got, want)
	}
}

// TestWith tries the changes of a package with its own tests, which notice none, and with the tests of a package that
// uses it, which notice all.
func TestWith(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.org/with\n\ngo 1.26\n",
		"a/a.go":      "package a\n\nfunc Positive(n int) bool { return n > 0 }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { Positive(2) }\n",
		"uses/b.go":   "package uses\n",
		"uses/b_test.go": "package uses\n\nimport (\n\t\"testing\"\n\n\t\"example.org/with/a\"\n)\n\n" +
			"func Test(t *testing.T) {\n\tif a.Positive(0) || !a.Positive(1) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	pkgs, err := packages(t.Context(), []string{"./a", "./uses"})
	if err != nil || len(pkgs) != 2 {
		t.Fatal(pkgs, err)
	}
	o := &options{jobs: 1}
	for want, with := range map[float64][]pkg{0: nil, 100: pkgs} {
		if got, err := o.run(t.Context(), pkgs[0], with); err != nil || got != want {
			t.Errorf("with %d packages: %v, %v; want %v", len(with), got, err, want)
		}
	}
}

// TestCoveredCases: the condition of a case is run with its switch, even if its body
// never is; the body is not.
func TestCoveredCases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sample.go")
	code := `package sample

func Sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0 &&
		n < 9:
		return 2
	}
	return 3
}
`
	if err := os.WriteFile(path, []byte(code), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := parse(token.NewFileSet(), path)
	if err != nil {
		t.Fatal(err)
	}
	run := map[int]bool{3: true, 4: true, 11: true} // a profile of Sign(0)
	for _, m := range s.mutants {
		want := m.line != 6 && m.line != 9
		if got := s.covered(m.line, run); got != want {
			t.Errorf("line %d, %s: covered %v", m.line, m.what, got)
		}
		if s.covered(m.line, nil) {
			t.Errorf("line %d, %s: covered, and nothing ran", m.line, m.what)
		}
	}
}

func TestReadProfile(t *testing.T) {
	got, err := readProfile(bufio.NewScanner(
		strings.NewReader("mode: set\nm/p/a.go:3.20,5.2 2 1\nm/p/a.go:7.1,9.2 1 0\n")))
	want := map[string]map[int]bool{"m/p/a.go": {3: true, 4: true, 5: true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"nothing", "a.go:1.2,3 1 1", "a.go:"} {
		if got, err := readProfile(bufio.NewScanner(strings.NewReader(bad))); err == nil {
			t.Errorf("%q: read %v", bad, got)
		}
	}
}

// TestOrder: tests that take little go first, then those that noticed something in the
// same file, and every test is run once.
func TestOrder(t *testing.T) {
	out := `=== RUN   TestLong
    --- PASS: TestLong/part (3.00s)
--- PASS: TestLong (6.00s)
--- PASS: TestA (0.01s)
--- SKIP: TestNever (0.00s)
--- PASS: TestB (0.89s)
--- PASS: TestC (0.40s)
--- PASS: FuzzD (0.00s)
--- PASS: TestMiddle (2.00s)
PASS
`
	o := orderOf([]byte(out))
	want := "[-test.run=^(FuzzD|TestA|TestC)$ -test.skip=Slow] [-test.skip=Slow|^(FuzzD|TestA|TestC)$]"
	if got := selected(o, "a.go"); got != want {
		t.Errorf("selected %s, want %s", got, want)
	}
	o.note("a.go",
		[]byte("--- FAIL: TestMiddle (1.00s)\n    --- FAIL: TestMiddle/part (1.00s)\n--- FAIL: TestA (0.01s)\npanic: x"))
	o.note("a.go", []byte("--- FAIL: TestMiddle (1.00s)\n"))
	if got := selected(o, "b.go"); got != want {
		t.Errorf("of another file: selected %s, want %s", got, want)
	}
	want = "[-test.run=^(FuzzD|TestA|TestC)$ -test.skip=Slow] [-test.run=^(TestMiddle)$ -test.skip=Slow] " +
		"[-test.skip=Slow|^(FuzzD|TestA|TestC|TestMiddle)$]"
	if got := selected(o, "a.go"); got != want {
		t.Errorf("selected %s, want %s", got, want)
	}
	// ms that the quick ones take, the one that noticed, and the others
	for i, want := range []time.Duration{410, 2000, 6890} {
		if got := o.limit(o.selections("a.go")[i]); got != 5*want*time.Millisecond+10*time.Second {
			t.Errorf("selection %d may take %v, want five times %d ms and 10 s", i, got, want)
		}
	}
	o = orderOf([]byte("--- PASS: TestA (0.01s)\n--- PASS: TestB (2.90s)\n"))
	if got := o.limit(o.selections("a.go")[0]); got != 5*2910*time.Millisecond+10*time.Second {
		t.Errorf("all may take %v", got)
	}
	if got := selected(o, "a.go"); got != "[-test.skip=Slow]" {
		t.Errorf("of few: selected %s", got)
	}
}

func selected(o *order, file string) string {
	var all []string
	for _, s := range o.selections(file) {
		all = append(all, fmt.Sprint(s.args("Slow")))
	}
	return strings.Join(all, " ")
}
