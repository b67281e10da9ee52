package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is a linked module, with the licences of its linked packages.
type module struct {
	Path, Version, Dir string
	Main               bool
	licences           map[string]bool // paths below Dir
}

// licenceName matches the files that licences require to be passed on.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([._-].*)?$`)

// writeNotices writes the licences of Go itself and of every module that a
// package of the main module in the working folder is linked from, in the order
// of their paths. A module without a licence is an error.
func writeNotices(out io.Writer, pkg string) error {
	modules, err := linked(pkg)
	if err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	all := []*module{{Path: "Go and its standard library", Version: version, Dir: goroot,
		licences: map[string]bool{"LICENSE": true, "PATENTS": true}}}
	all = append(all, modules...)
	fmt.Fprintf(out, "bulkhead is linked from the following, each under its own licence.\n")
	for _, m := range all {
		fmt.Fprintf(out, "\n%s\n%s %s\n%s\n", strings.Repeat("=", 80), m.Path, m.Version, strings.Repeat("=", 80))
		if len(m.licences) == 0 {
			return fmt.Errorf("notices: %s %s has no licence in %s", m.Path, m.Version, m.Dir)
		}
		for _, name := range slices.Sorted(maps.Keys(m.licences)) {
			text, err := os.ReadFile(filepath.Join(m.Dir, name))
			if err != nil {
				return fmt.Errorf("notices: %w", err)
			}
			fmt.Fprintf(out, "\n-- %s --\n\n%s\n", filepath.ToSlash(name),
				strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"))
		}
	}
	return nil
}

// linked returns the modules that a package is linked from, except its own, in the order of their
// paths.
func linked(pkg string) ([]*module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", pkg)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	modules := make(map[string]*module)
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *module
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", pkg, err)
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		m, ok := modules[p.Module.Path]
		if !ok {
			m = p.Module
			m.licences = make(map[string]bool)
			modules[m.Path] = m
		}
		if err := m.gather(p.Dir); err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(modules), func(a, b *module) int { return strings.Compare(a.Path, b.Path) }), nil
}

// gather notes the licences in the folder of a package and in its parent folders, up to the
// module's.
func (m *module) gather(dir string) error {
	for {
		below, err := filepath.Rel(m.Dir, dir)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			return fmt.Errorf("notices: %s is not below %s", dir, m.Dir)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("notices: %w", err)
		}
		for _, f := range files {
			if f.Type().IsRegular() && licenceName.MatchString(f.Name()) && !strings.HasSuffix(f.Name(), ".go") {
				m.licences[filepath.Join(below, f.Name())] = true
			}
		}
		if below == "." {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}
