package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/interval"
)

type options struct {
	n       int
	seed    uint64
	min     float64
	jobs    int
	list    bool
	verbose bool
	short   bool
	skip    string // tests that are left out
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 60, "changes to try in each package; 0 means all")
	flag.Uint64Var(&o.seed, "seed", 1, "of the sample")
	flag.Float64Var(&o.min, "min", 0, "score in percent below which the command fails")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "changes tried at once")
	flag.BoolVar(&o.list, "list", false, "list the changes of the sample and try none")
	flag.BoolVar(&o.verbose, "v", false, "print each change as it was tried")
	flag.BoolVar(&o.short, "short", false, "run the tests with -short")
	flag.StringVar(&o.skip, "skip", "", "regular expression of tests to leave out, for packages whose tests take minutes")
	flag.Parse()
	ctx := context.Background()
	dirs, err := packages(ctx, flag.Args())
	if err == nil && len(dirs) == 0 {
		err = errors.New("no packages; name some, such as ./filter")
	}
	low := false
	for _, d := range dirs {
		var score float64
		if score, err = o.run(ctx, d); err != nil {
			break
		}
		low = low || score < o.min
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if low {
		os.Exit(1)
	}
}

// A pkg describes a package as the go command reports it.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, TestImports, XTestImports []string
}

func packages(ctx context.Context, patterns []string) ([]pkg, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	out, err := exec.CommandContext(ctx, "go",
		append([]string{"list", "-json=ImportPath,Dir,GoFiles,TestImports,XTestImports"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// A job is a mutant made ready to be tried.
type job struct {
	*mutant
	code    []byte
	covered bool
	fate    fate
}

type fate int

const (
	survived fate = iota
	killed
	invalid // it does not compile
)

// run tries the sample of one package, prints what survived, and returns the
// score in percent.
func (o *options) run(ctx context.Context, p pkg) (float64, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if o.list {
		jobs, _, err := o.sample(p, nil)
		for _, j := range jobs {
			fmt.Printf("%s:%d: %s\n", relative(j.file), j.line, j.what)
		}
		return 100, err
	}
	lines, tests, err := o.coverage(ctx, p, filepath.Join(dir, "cover"))
	if err != nil {
		return 0, err
	}
	jobs, of, err := o.sample(p, lines)
	if err != nil {
		return 0, err
	}
	if err := o.tryAll(ctx, p, tests, jobs, dir); err != nil {
		return 0, err
	}
	return o.print(p, jobs, of), nil
}

// sample draws the mutants to try, and returns the number of all mutants.
func (o *options) sample(p pkg, lines map[string]map[int]bool) (jobs []*job, of int, err error) {
	type candidate struct {
		s *source
		m *mutant
	}
	var all []candidate
	for _, name := range p.GoFiles {
		s, err := parse(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, 0, err
		}
		for _, m := range s.mutants {
			all = append(all, candidate{s, m})
		}
	}
	of = len(all)
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(of, func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all {
		if o.n > 0 && len(jobs) == o.n+o.n/2 { // some will not compile
			break
		}
		c.m.apply()
		code, err := c.s.render()
		c.m.undo()
		if err != nil {
			continue // a change that cannot be printed is none
		}
		jobs = append(jobs, &job{mutant: c.m, code: code,
			covered: c.s.covered(c.m.line, lines[p.ImportPath+"/"+filepath.Base(c.m.file)])})
	}
	return jobs, of, nil
}

// tryAll tries the jobs, several at once, until o.n of them have compiled.
func (o *options) tryAll(ctx context.Context, p pkg, tests *order, jobs []*job, dir string) error {
	var (
		mu   sync.Mutex
		next int
		done int // that compiled
		fail error
		wg   sync.WaitGroup
	)
	take := func() (int, *job) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(jobs) || o.n > 0 && done >= o.n || fail != nil {
			return 0, nil
		}
		next++
		return next - 1, jobs[next-1]
	}
	for range max(1, o.jobs) {
		wg.Go(func() {
			for i, j := take(); j != nil; i, j = take() {
				f, err := o.try(ctx, p, tests, j, filepath.Join(dir, fmt.Sprint(i)))
				mu.Lock()
				j.fate = f
				if f != invalid {
					done++
				}
				fail = errors.Join(fail, err)
				if o.verbose {
					fmt.Fprintf(os.Stderr, "%4d %s %s:%d: %s\n", done, [...]string{"SURVIVED", "killed", "invalid"}[f],
						relative(j.file), j.line, j.what)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, j := range jobs[next:] {
		j.fate = invalid // not tried
	}
	return fail
}

// try runs the tests of a package with one change.
func (o *options) try(ctx context.Context, p pkg, tests *order, j *job, dir string) (fate, error) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return invalid, err
	}
	defer os.RemoveAll(dir)
	changed := filepath.Join(dir, filepath.Base(j.file))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {j.file: changed}})
	if err != nil {
		return invalid, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := errors.Join(os.WriteFile(changed, j.code, 0o666), os.WriteFile(list, overlay, 0o666)); err != nil {
		return invalid, err
	}
	binary := filepath.Join(dir, "tests")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", binary,
		p.ImportPath)
	build.Dir = p.Dir
	if build.Run() != nil {
		return invalid, nil
	}
	if !j.covered {
		return survived, nil // no test runs the line
	}
	for _, some := range tests.selections(j.file) {
		if out, err := o.test(ctx, p, binary, some, tests.limit(some), dir); err != nil {
			tests.note(j.file, out)
			return killed, nil
		}
	}
	return survived, nil
}

// test runs some of the tests.
func (o *options) test(ctx context.Context, p pkg, binary string, tests selection, limit time.Duration,
	dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	test := exec.CommandContext(ctx, binary, append(o.args(p, limit), tests.args(o.skip)...)...)
	test.Dir = p.Dir
	// Some changes allocate without end.
	test.Env = append(os.Environ(), "GOMEMLIMIT=2GiB", "TMPDIR="+dir)
	return test.CombinedOutput()
}

// args returns the arguments of a package's test binary that do not depend on the selected tests.
func (o *options) args(p pkg, limit time.Duration) []string {
	args := []string{"-test.failfast", "-test.timeout", limit.String()}
	if o.short {
		args = append(args, "-test.short")
	}
	if slices.Contains(append(p.TestImports, p.XTestImports...), "pgregory.net/rapid") {
		// Its files would go into the tree, and the minimal failing input is not used.
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	return args
}

// print lists the survivors and the score, and returns the score in percent.
func (o *options) print(p pkg, jobs []*job, of int) float64 {
	n, dead := 0, 0
	for _, j := range jobs {
		switch j.fate {
		case killed:
			n, dead = n+1, dead+1
		case survived:
			n++
			note := ""
			if !j.covered {
				note = " (no test runs this line)"
			}
			fmt.Printf("%s:%d: %s%s\n", relative(j.file), j.line, j.what, note)
		}
	}
	if n == 0 {
		fmt.Printf("%s: nothing to change\n", p.ImportPath)
		return 100
	}
	low, high := interval.Wilson(dead, n)
	score := 100 * float64(dead) / float64(n)
	fmt.Printf("%s: %d of %d noticed, %.0f %% (%.0f to %.0f), of %d changes, seed %d\n", p.ImportPath, dead, n, score,
		100*low, 100*high, of, o.seed)
	return score
}

func relative(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if r, err := filepath.Rel(wd, path); err == nil {
			return r
		}
	}
	return path
}
