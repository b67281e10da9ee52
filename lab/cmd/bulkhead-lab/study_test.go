package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStudyCommand(t *testing.T) {
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := newStudyCommand()
	cmd.SetArgs([]string{"--rounds", "3", "--experiment", "2,rate", "--out", out, "--jobs", "2"})
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if got := stdout.String(); !strings.Contains(got, "of 18 printed numbers") || !strings.Contains(got, out) {
		t.Errorf("printed %q", got)
	}
	for _, name := range []string{"tables.csv", "comparison.csv", "rate.json", "figures/experiment-2.svg",
		"figures/unique-rate.png"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestStudyCommandRefuses(t *testing.T) {
	for _, args := range [][]string{{"--experiment", "12"}, {"--rounds", "-1"}, {"--draw", "none"}, {"extra"},
		{"--experiment", "1", "--report", "x"}} {
		cmd := newStudyCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append(args, "--out", t.TempDir()))
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
