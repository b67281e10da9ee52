package main

import (
	"bufio"
	"fmt"
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
	}
	return n, true
}

func record(int) {}
`

// TestSites names every change of a small file, applies each and takes it back.
func TestSites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sample.go")
	if err := os.WriteFile(path, []byte(sample), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := parse(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.render()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(before), "//go:build linux\n") {
		t.Errorf("the build constraint is lost:\n%s", before)
	}
	var got []string
	for _, m := range s.mutants {
		m.apply()
		changed, err := s.render()
		m.undo()
		if err != nil {
			t.Errorf("line %d, %s: %v", m.line, m.what, err)
		}
		if string(changed) == string(before) {
			t.Errorf("line %d, %s: changes nothing", m.line, m.what)
		}
		if again, _ := s.render(); string(again) != string(before) {
			t.Fatalf("line %d, %s: was not taken back:\n%s", m.line, m.what, again)
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
	s, err := parse(path)
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
