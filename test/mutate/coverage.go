package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// coverage runs the tests of a package as it is, and returns the lines of each
// file that they run, and the order to run them in with a change.
func (o *options) coverage(ctx context.Context, p pkg, profile string) (map[string]map[int]bool, *order, error) {
	args := []string{"test", "-v", "-count=1", "-vet=off", "-coverprofile", profile, "-skip", o.skip}
	if o.short {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, p.ImportPath)...)
	cmd.Dir = p.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: the tests fail as it is: %w\n%s", p.ImportPath, err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	lines, err := readProfile(bufio.NewScanner(f))
	return lines, orderOf(out), err
}

// readProfile reads a cover profile; see "go tool cover".
func readProfile(in *bufio.Scanner) (map[string]map[int]bool, error) {
	lines := make(map[string]map[int]bool)
	for in.Scan() {
		text := in.Text()
		if strings.HasPrefix(text, "mode:") {
			continue
		}
		colon := strings.LastIndexByte(text, ':')
		if colon < 0 {
			return nil, fmt.Errorf("cover profile: malformed line %.80q", text)
		}
		var fromLine, fromCol, toLine, toCol, statements, count int
		if _, err := fmt.Sscanf(text[colon+1:], "%d.%d,%d.%d %d %d", &fromLine, &fromCol, &toLine, &toCol, &statements,
			&count); err != nil {
			return nil, fmt.Errorf("cover profile: malformed line %.80q: %w", text, err)
		}
		if count == 0 {
			continue
		}
		file := lines[text[:colon]]
		if file == nil {
			file = make(map[int]bool)
			lines[text[:colon]] = file
		}
		for l := fromLine; l <= toLine; l++ {
			file[l] = true
		}
	}
	return lines, in.Err()
}
