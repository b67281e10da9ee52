// Command bench measures the production arrays of package filter side by side
// with other Go libraries, a plain map and a table of fingerprints, and prints
// docs/performance.md. It is a module of its own so that bulkhead does not depend
// on its rivals.
//
//	cd lab/bench && go run . -o ../../docs/performance.md
//
// Every row is measured in a process of its own. With all sizes it takes some
// fifteen minutes on a quiet machine and 6 GB of memory.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

func main() {
	var (
		sizes = flag.String("n", "10000,1000000,20000000,100000000", "numbers of keys, separated by commas")
		out   = flag.String("o", "", "file to write the report to; standard output if empty")
		child = flag.String("subject", "", "measure this subject alone and print the row as JSON (used by the program "+
			"itself)")
		merge = flag.Bool("merge", false, "measure merging alone and print its table")
		lean  = flag.Bool("memory", false, "with -subject: measure memory alone")
	)
	flag.Parse()
	if *merge {
		rows, err := measureMerge(1e7)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		var b strings.Builder
		mergeTable(&b, rows)
		fmt.Print(b.String())
		return
	}
	if err := run(*sizes, *out, *child, *lean); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(sizes, out, child string, lean bool) error {
	var ns []int
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1000 || n > 1e9 {
			return fmt.Errorf("number of keys %q, want 1000 to 1000000000", s)
		}
		ns = append(ns, n)
	}
	if child != "" {
		return measureChild(child, ns[0], lean)
	}
	var d document
	for _, n := range ns {
		for _, s := range measured(memberSubjects(), n) {
			if err := spawn(s.name, n, false, &d.member); err != nil {
				return err
			}
		}
		for _, s := range measured(countSubjects(), n) {
			if err := spawn(s.name, n, false, &d.count); err != nil {
				return err
			}
		}
	}
	for _, n := range memoryCounts() {
		for _, name := range []string{"bulkhead Counting", "map[[16]byte]uint32", "map[[20]byte]uint32"} {
			if err := spawn(name, n, true, &d.memory); err != nil {
				return err
			}
		}
	}
	var err error
	if d.merge, err = measureMerge(1e7); err != nil {
		return err
	}
	text := d.markdown()
	if out == "" {
		_, err = os.Stdout.WriteString(text)
		return err
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

// measured returns the subjects that are measured with n items.
func measured(all []subject, n int) []subject {
	return slices.DeleteFunc(all, func(s subject) bool { return n > mostItems && !s.huge })
}

// memoryCounts are the sizes at which memory is compared with maps: a map's cost
// per key depends on how long ago it last grew.
func memoryCounts() []int { return []int{7e6, 1e7, 1.4e7} }

func measureChild(name string, n int, lean bool) error {
	s, ok := subjectNamed(name)
	if !ok {
		return fmt.Errorf("no subject %q", name)
	}
	r, err := measure(s, n, lean)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// spawn measures one row in a new process.
func spawn(name string, n int, lean bool, rows *[]result) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s, %d keys\n", name, n)
	cmd := exec.Command(self, "-subject", name, "-n", strconv.Itoa(n), fmt.Sprintf("-memory=%v", lean))
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s, %d keys: %w", name, n, err)
	}
	var r result
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("%s, %d keys: %w", name, n, err)
	}
	*rows = append(*rows, r)
	return nil
}
