package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/token"
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
	with    string // packages whose tests are run too, separated by commas
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
	flag.StringVar(&o.with, "with", "", "packages whose tests are run too, separated by commas")
	flag.Parse()
	ctx := context.Background()
	dirs, err := packages(ctx, flag.Args())
	if err == nil && len(dirs) == 0 {
		err = errors.New("no packages; name some, such as ./filter")
	}
	var with []pkg
	if err == nil && o.with != "" {
		with, err = packages(ctx, strings.Split(o.with, ","))
	}
	low := false
	for _, d := range dirs {
		if err != nil {
			break
		}
		var score float64
		if score, err = o.run(ctx, d, with); err != nil {
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

// A suite is the tests of one package: of the changed one, or of one that uses it.
type suite struct {
	pkg
	binary string
	tests  *order
	lines  map[string]map[int]bool // the lines of the changed package that they run, by file
}

// A job is a mutant to be tried.
type job struct {
	*mutant
	number int      // of the switch, from 1 on
	by     []*suite // those that run its line
	fate   fate
}

type fate int

const (
	survived fate = iota
	killed
	invalid // it does not compile
)

// run tries the sample of one package, prints what survived, and returns the
// score in percent.
func (o *options) run(ctx context.Context, p pkg, with []pkg) (float64, error) {
	dir, err := folder("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if o.list {
		jobs, _, err := o.sample(p)
		for _, j := range jobs {
			fmt.Printf("%s:%d: %s\n", relative(j.file), j.line, j.what)
		}
		return 100, err
	}
	suites := []*suite{{pkg: p}}
	for _, w := range with {
		if w.ImportPath != p.ImportPath {
			suites = append(suites, &suite{pkg: w})
		}
	}
	for i, s := range suites {
		s.binary = filepath.Join(dir, fmt.Sprint("tests", i))
		if err := o.coverage(ctx, s, p.ImportPath, filepath.Join(dir, "cover")); err != nil {
			return 0, err
		}
	}
	jobs, sources, err := o.sample(p)
	if err != nil {
		return 0, err
	}
	for _, j := range jobs {
		for _, s := range suites {
			if j.source.covered(j.line, s.lines[p.ImportPath+"/"+filepath.Base(j.file)]) {
				j.by = append(j.by, s)
			}
		}
	}
	if err := o.prepare(ctx, p, sources); err != nil {
		return 0, err
	}
	if err := o.build(ctx, suites[0], sources, jobs, dir); err != nil {
		return 0, err
	}
	for _, s := range suites[1:] {
		if out, err := s.link(ctx, dir); err != nil {
			return 0, fmt.Errorf("%s: the tests do not compile: %w\n%s", s.ImportPath, err, out)
		}
	}
	for _, s := range suites {
		all := selection{others: true}
		if out, err := o.test(ctx, s, 0, all, s.tests.limit(all), dir); err != nil {
			return 0, fmt.Errorf("%s: the tests fail with all changes switched off: %w\n%s", s.ImportPath, err, out)
		}
	}
	o.tryAll(ctx, jobs, dir)
	return o.print(p, jobs, sources), nil
}

// sample draws the mutants to try, a few more than wanted because some will not compile, and
// returns all files of the package.
func (o *options) sample(p pkg) (jobs []*job, sources []*source, err error) {
	fset := token.NewFileSet()
	for _, name := range p.GoFiles {
		s, err := parse(fset, filepath.Join(p.Dir, name))
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
		for _, m := range s.mutants {
			jobs = append(jobs, &job{mutant: m})
		}
	}
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	if o.n > 0 {
		jobs = jobs[:min(len(jobs), o.n+o.n/2)]
	}
	for _, j := range jobs {
		j.mutant.job = j
	}
	return jobs, sources, nil
}

// tryAll tries the jobs, several at once, until o.n of those that compiled were tried.
func (o *options) tryAll(ctx context.Context, jobs []*job, dir string) {
	left := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.fate == invalid })
	if o.n > 0 && len(left) > o.n {
		for _, j := range left[o.n:] {
			j.fate = invalid // not tried
		}
		left = left[:o.n]
	}
	var wg sync.WaitGroup
	queue := make(chan *job)
	for range max(1, o.jobs) {
		wg.Go(func() {
			for j := range queue {
				j.fate = o.try(ctx, j, dir)
				if o.verbose {
					fmt.Fprintf(os.Stderr, "%s %s:%d: %s\n", [...]string{"SURVIVED", "killed"}[j.fate], relative(j.file),
						j.line, j.what)
				}
			}
		})
	}
	for _, j := range left {
		queue <- j
	}
	close(queue)
	wg.Wait()
}

// folder makes a temporary folder that all users may search: tests start their binary as another user.
func folder(parent, pattern string) (string, error) {
	dir, err := os.MkdirTemp(parent, pattern)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// try runs the tests that run the line of a change, with the change in force.
func (o *options) try(ctx context.Context, j *job, dir string) fate {
	tmp, err := folder(dir, "try")
	if err != nil {
		return survived
	}
	defer os.RemoveAll(tmp)
	for _, s := range j.by {
		for _, part := range s.tests.selections(j.file) {
			if out, err := o.test(ctx, s, j.number, part, s.tests.limit(part), tmp); err != nil {
				s.tests.note(j.file, out)
				return killed
			}
		}
	}
	return survived
}

// test runs a selection of the tests with the change of a number in force, 0 for none.
func (o *options) test(ctx context.Context, s *suite, number int, part selection, limit time.Duration,
	dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	test := exec.CommandContext(ctx, s.binary, append(o.args(s.pkg, limit), part.args(o.skip)...)...)
	test.Dir = s.Dir
	// Some changes allocate without end.
	test.Env = append(os.Environ(), "GOMEMLIMIT=2GiB", "TMPDIR="+dir, fmt.Sprintf("%s=%d", variable, number))
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
func (o *options) print(p pkg, jobs []*job, sources []*source) float64 {
	n, dead, of := 0, 0, 0
	for _, s := range sources {
		of += len(s.mutants)
	}
	for _, j := range jobs {
		switch j.fate {
		case killed:
			n, dead = n+1, dead+1
		case survived:
			n++
			note := ""
			if len(j.by) == 0 {
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
