package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// coverage runs a suite as it is, and notes the lines of a package that it runs, and the order to run its
// tests in with a change.
func (o *options) coverage(ctx context.Context, s *suite, of, profile string) error {
	args := []string{"test", "-v", "-count=1", "-vet=off", "-coverprofile", profile, "-coverpkg", of, "-skip", o.skip}
	if o.short {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, s.ImportPath)...)
	cmd.Dir = s.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: the tests fail as it is: %w\n%s", s.ImportPath, err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	s.tests = orderOf(out)
	s.lines, err = readProfile(bufio.NewScanner(f))
	return err
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
