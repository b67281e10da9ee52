package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestParsers checks that the list of parsers has each folder of the server with fuzz tests, and only files
// that exist.
func TestParsers(t *testing.T) {
	root := filepath.Join("..", "..")
	listed := make(map[string]bool)
	for line := range strings.Lines(parsers) {
		folder, files, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || listed[folder] {
			t.Errorf("line %q", line)
		}
		listed[folder] = true
		for file := range strings.FieldsSeq(files) {
			file, function, _ := strings.Cut(file, ":")
			if file == "*" || file == "-" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, folder, file))
			if err == nil && !bytes.Contains(text, []byte(function+"(")) {
				err = fmt.Errorf("no function %s in %s/%s", function, folder, file)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	fuzzes := regexp.MustCompile(`(?m)^func Fuzz\w+\(\w+ \*testing\.F\)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); d.IsDir() && path != root && err == nil {
			return fs.SkipDir // another module
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if folder, _ := filepath.Rel(root, filepath.Dir(path)); fuzzes.Match(text) && !listed[filepath.ToSlash(folder)] {
			t.Errorf("%s has a fuzz test and is not in parsers.tsv", folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBlocks checks how a coverage profile is read.
func TestBlocks(t *testing.T) {
	of, err := blocks([]byte("mode: set\nexample.com/m/a.go:3.14,5.2 1 0\nexample.com/m/a.go:7.1,9.2 2 1\n"))
	if err != nil || len(of["a.go"]) != 2 || of["a.go"][0] != (block{3, false}) || of["a.go"][1] != (block{7, true}) {
		t.Errorf("%v, %v", of, err)
	}
	if _, err := blocks([]byte("mode: set\nexample.com/m/a.go:3\n")); err == nil {
		t.Error("a torn profile is read")
	}
}
