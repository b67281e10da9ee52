package main

import (
	"bufio"
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An order determines the order of the tests of a package for a change: first the quick tests, then
// the tests that noticed another change of the same file, then the other tests. It may be used
// concurrently.
type order struct {
	quick []string
	took  map[string]time.Duration // by test

	mu      sync.Mutex
	noticed map[string][]string // by file: slow tests
}

// orderOf reads how long each test takes from the output of "go test -v". Quick are the shortest
// ones that together take a tenth of the time. If all tests take at most three seconds together,
// none is run first.
func orderOf(output []byte) *order {
	var all []string
	o := &order{took: make(map[string]time.Duration), noticed: make(map[string][]string)}
	for in := bufio.NewScanner(bytes.NewReader(output)); in.Scan(); {
		if name, took, ok := result(in.Text(), "--- PASS: "); ok {
			all = append(all, name)
			o.took[name] = took
		}
	}
	sum := o.time(selection{others: true})
	if sum < 3*time.Second {
		return o
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(o.took[a], o.took[b]) })
	room := sum / 10
	for _, name := range all {
		if room -= o.took[name]; room < 0 {
			break
		}
		o.quick = append(o.quick, name)
	}
	return o
}

// time returns the duration of the tests of a selection on the unchanged package.
func (o *order) time(s selection) (sum time.Duration) {
	for name, took := range o.took {
		if slices.Contains(s.names, name) != s.others {
			sum += took
		}
	}
	return sum
}

// limit returns the time limit for the tests of a selection with a change: a generous multiple,
// because other programs run at the same time. Tests that exceed it have noticed the change.
func (o *order) limit(s selection) time.Duration { return 5*o.time(s) + 10*time.Second }

// result reads "--- PASS: TestName (1.20s)" of a test that is in no other.
func result(line, prefix string) (name string, took time.Duration, ok bool) {
	rest, ok := strings.CutPrefix(line, prefix)
	if !ok {
		return "", 0, false
	}
	name, rest, _ = strings.Cut(rest, " ")
	took, err := time.ParseDuration(strings.Trim(rest, "()"))
	return name, took, err == nil
}

// A selection selects tests to run: the named tests, or all tests except the named ones.
type selection struct {
	names  []string
	others bool
}

// selections returns the selections to run one after the other for a change of a file.
func (o *order) selections(file string) (all []selection) {
	if len(o.quick) == 0 {
		return []selection{{others: true}}
	}
	o.mu.Lock()
	slow := slices.Clone(o.noticed[file])
	o.mu.Unlock()
	all = append(all, selection{names: o.quick})
	if len(slow) > 0 {
		all = append(all, selection{names: slow})
	}
	return append(all, selection{slices.Concat(o.quick, slow), true})
}

// note remembers the tests that failed with a change of a file.
func (o *order) note(file string, output []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for in := bufio.NewScanner(bytes.NewReader(output)); in.Scan(); {
		name, _, ok := result(in.Text(), "--- FAIL: ")
		if ok && !slices.Contains(o.quick, name) && !slices.Contains(o.noticed[file], name) {
			o.noticed[file] = append(o.noticed[file], name)
		}
	}
}

// args returns the arguments of the test binary for a selection. skip matches tests that are always
// left out.
func (s selection) args(skip string) (args []string) {
	names := ""
	if len(s.names) > 0 {
		names = "^(" + strings.Join(s.names, "|") + ")$"
	}
	if s.others {
		skip = strings.Trim(skip+"|"+names, "|")
	} else {
		args = append(args, "-test.run="+names)
	}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	return args
}
