package study

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestSmallStudy runs all eight experiments for a few rounds, and compares
// tables.csv with the printed one: the same lines in the same order, and similar numbers
// for the smallest filters, for which a few rounds are enough.
func TestSmallStudy(t *testing.T) {
	out := t.TempDir()
	c := experiment.Config{Out: out, Rounds: 6, Seed: 3, Only: []string{"1", "2", "3", "4", "5", "6", "7", "8"}}
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := readCSV(t, "testdata/yan-cho-tables-3-10.csv")
	got := readCSV(t, filepath.Join(out, "tables.csv"))
	if len(got) != len(want) {
		t.Fatalf("tables.csv has %d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i][:4], want[i][:4]) {
			t.Errorf("line %d begins %v, want %v", i+1, got[i][:4], want[i][:4])
		}
		if i > 0 && (want[i][5] == "") != (got[i][5] == "") {
			t.Errorf("line %d: standard deviation %q, printed %q", i+1, got[i][5], want[i][5])
		}
	}
	s, err := Summarise(out)
	if err != nil {
		t.Fatal(err)
	}
	if s.Compared != 207 {
		t.Errorf("%d numbers compared, want 207", s.Compared)
	}
	for _, line := range readCSV(t, filepath.Join(out, "comparison.csv"))[1:] {
		var z float64
		if _, err := fmt.Sscan(line[8], &z); err != nil {
			t.Fatal(err)
		}
		// With 6 rounds the standard errors are rough themselves.
		if line[2] == "80K" && math.Abs(z) > 6 {
			t.Errorf("experiment %s, %s, %s, k = %s: printed %s, measured %s, %.1f standard errors", line[0], line[1], line[2],
				line[3], line[4], line[6], z)
		}
	}
	for n := 1; n <= 8; n++ {
		for _, format := range []string{"svg", "png"} {
			name := filepath.Join(out, "figures", fmt.Sprintf("experiment-%d.%s", n, format))
			if info, err := os.Stat(name); err != nil || info.Size() < 5000 {
				t.Errorf("figure %s: %v", name, err)
			}
		}
	}
}

// TestResume interrupts a run, finishes it, and compares the results byte by byte with the results
// of one uninterrupted run with more workers.
func TestResume(t *testing.T) {
	only := []string{"2", "5", "growth", "rate"}
	whole, broken := t.TempDir(), t.TempDir()
	c := experiment.Config{Out: whole, Rounds: 8, Seed: 7, Jobs: 3, Only: only}
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Out, c.Jobs, c.Rounds = broken, 1, 5
	c.Progress = func(done float64, _ string) {
		if done > 0.5 {
			cancel()
		}
	}
	if err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run returned %v", err)
	}
	first, err := filepath.Glob(filepath.Join(broken, "results", "*.json"))
	if err != nil || len(first) == 0 {
		t.Fatalf("nothing was kept: %v", err)
	}
	c.Progress, c.Rounds = nil, 8 // more rounds than the first time
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tables.csv", "comparison.csv", "growth.json", "rate.json"} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(broken, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs after a break (%v)", name, err)
		}
	}
	// Fewer rounds use the first of those that are there.
	c.Rounds = 5
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(broken, "tables.csv"))
	if a, _ := os.ReadFile(filepath.Join(whole, "tables.csv")); err != nil || bytes.Equal(a, b) {
		t.Errorf("5 rounds gave the table of 8 (%v)", err)
	}
}

func TestOtherSeedIsNotResumed(t *testing.T) {
	c := experiment.Config{Out: t.TempDir(), Rounds: 3, Seed: 1, Only: []string{"2"}}
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(filepath.Join(c.Out, "tables.csv"))
	c.Seed = 2
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(c.Out, "tables.csv")); bytes.Equal(a, b) {
		t.Error("another seed gave the same table")
	}
}

func TestRunRefuses(t *testing.T) {
	ok := experiment.Config{Out: t.TempDir(), Rounds: 1, Only: []string{"2"}}
	for name, change := range map[string]func(*experiment.Config){
		"no folder":        func(c *experiment.Config) { c.Out = "" },
		"negative rounds":  func(c *experiment.Config) { c.Rounds = -1 },
		"too many rounds":  func(c *experiment.Config) { c.Rounds = 1 << 30 },
		"negative jobs":    func(c *experiment.Config) { c.Jobs = -1 },
		"unknown part":     func(c *experiment.Config) { c.Only = []string{"9"} },
		"unknown draw":     func(c *experiment.Config) { c.Draw = "loaded" },
		"unknown family":   func(c *experiment.Config) { c.Family = "crc32" },
		"report of a part": func(c *experiment.Config) { c.Report = t.TempDir() },
		"no corpus there":  func(c *experiment.Config) { c.Corpus, c.Only = t.TempDir(), []string{"dcc"} },
	} {
		c := ok
		change(&c)
		if err := Run(t.Context(), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	broken := ok
	if err := os.MkdirAll(filepath.Join(ok.Out, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(ok.Out, "results", "experiment2-80K-k4.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), broken); err != nil {
		t.Errorf("a broken result file is not replaced: %v", err)
	}
}

// writeCorpus makes a corpus of made-up mail with a few repetitions.
func writeCorpus(t *testing.T, n int) string {
	t.Helper()
	folder := t.TempDir()
	dir := filepath.Join(folder, "made-up")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields("harbour copper meadow lantern violet orchard timber gravel saddle thunder window basket " +
		"pepper ribbon castle garden marble feather barrel candle")
	var index strings.Builder
	index.WriteString("file\tlabel\ttime\tmore\n")
	r := experiment.Stream(1, "made-up mail")
	for i := range n {
		topic := i
		if i%3 == 0 {
			topic = 0 // a wave of equal messages
		}
		body := experiment.Stream(uint64(topic), "body")
		var text strings.Builder
		for range 40 {
			text.WriteString(words[body.IntN(len(words))] + " ")
		}
		mail := fmt.Sprintf("From: a%d@example.com\nTo: b@example.org\nSubject: note %d\n"+
			"Date: Thu, 29 Feb 2024 12:00:00 +0000\n\n%s\n", i, i, text.String())
		name := fmt.Sprintf("%04d.eml", i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(mail), 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_700_000_000+int64(r.IntN(1_000_000)), 0).UTC().Format(time.RFC3339)
		fmt.Fprintf(&index, "%s\tspam\t%s\tx\n", name, at)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.tsv"), []byte(index.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestReport writes the whole report from a tiny run.
func TestReport(t *testing.T) {
	c := experiment.Config{Out: t.TempDir(), Report: t.TempDir(), Rounds: 1, Seed: 1, Corpus: writeCorpus(t, 90)}
	last := 0.0
	c.Progress = func(done float64, what string) {
		if done < last-1e-9 || done > 1+1e-9 || what == "" {
			t.Errorf("progress went from %g to %g (%q)", last, done, what)
		}
		last = done
	}
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if last < 0.999 {
		t.Errorf("progress ended at %g", last)
	}
	b, err := os.ReadFile(filepath.Join(c.Report, "study.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{"Table X)", "## Merging", "### Deletion", "## Split storage", "dcc/fuz1", "1 in 170000",
		"1.948E-8", "SBF first",
		"Garwood", "expected by chance", "| independent |", "GhostError", "as a node reads", "Spam that revocations hide",
		"Table II", "made-up"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "%!") || strings.Contains(line, "NaN") {
			t.Errorf("a number that is none: %s", line)
		}
	}
	pictures := 0
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, "](study/"); ok {
			pictures++
			name, _, _ := strings.Cut(rest, ")")
			if _, err := os.Stat(filepath.Join(c.Report, "study", name)); err != nil {
				t.Error(err)
			}
		}
	}
	if pictures != 23 {
		t.Errorf("%d pictures in the report, want 23", pictures)
	}
}

// TestOtherFamilyIsNotResumed: results of one hash family are no results of another,
// and MD5 in 8 chunks, which cannot reach all cells, errs more often.
func TestOtherFamilyIsNotResumed(t *testing.T) {
	c := experiment.Config{Out: t.TempDir(), Rounds: 3, Seed: 1, Only: []string{"2"}}
	rate := func() (wrong float64) {
		if err := Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for _, line := range readCSV(t, filepath.Join(c.Out, "tables.csv"))[1:] {
			if line[1] == "refined" && line[2] == "320K" && line[3] == "8" {
				if _, err := fmt.Sscan(line[4], &wrong); err != nil {
					t.Fatal(err)
				}
			}
		}
		return wrong
	}
	universal := rate()
	c.Family = experiment.FamilyMD5
	if md5 := rate(); md5 < 1e-3 || md5 < 100*universal {
		t.Errorf("320K, k = 8: %g with MD5, %g with universal functions", md5, universal)
	}
	c.Family = experiment.FamilyUniversal
	if again := rate(); again != universal {
		t.Errorf("universal functions gave %g, then %g", universal, again)
	}
}

// TestPrintedCells compares the printed numbers in the program with the tables in testdata.
func TestPrintedCells(t *testing.T) {
	lines := readCSV(t, "testdata/yan-cho-tables-3-10.csv")
	printed := experiment.PrintedCells()
	if len(lines)-1 != len(printed) {
		t.Fatalf("%d numbers, want %d", len(printed), len(lines)-1)
	}
	for i, c := range printed {
		got := []string{fmt.Sprint(c.Experiment), c.Extension, c.M, fmt.Sprint(c.K), c.Mean, c.SD}
		if !slices.Equal(got, lines[i+1]) {
			t.Errorf("line %d: %v, want %v", i+2, got, lines[i+1])
		}
	}
}
