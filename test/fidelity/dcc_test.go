//go:build interop

package fidelity

import (
	"bufio"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// TestDCC compares our Body and Fuz1 with those that dccproc 1.3.158 has printed for the
// corpus, and for mails that the generator of templates makes.
func TestDCC(t *testing.T) {
	body := newTally(t, "dcc body", map[string]float64{"": 0.999})
	fuz1 := newTally(t, "dcc fuz1, rules 1", map[string]float64{"": 0.99})
	folders := make(map[string]string)
	for _, set := range sets {
		folders[set] = sharedtest.Unpack(t, set)
	}
	compareDCC(t, sharedtest.Corpus(t, "..", "protocols", "vectors", "dcc", "dcc-corpus.tsv"), folders, body, fuz1)
	compareDCC(t, sharedtest.Corpus(t, "..", "protocols", "vectors", "dcc", "dcc-templates.tsv"), templates(t), body, fuz1)
	body.report()
	fuz1.report()
}

// templates makes the mails of templates and returns the folders that they are in.
func templates(t *testing.T) map[string]string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	folders := make(map[string]string)
	for _, tool := range []string{"generate", "mutate"} {
		folders[tool] = filepath.Join(t.TempDir(), tool)
		cmd := exec.CommandContext(t.Context(), python, sharedtest.Corpus(t, "templates", tool), folders[tool], "--seed", "1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tool, err, out)
		}
	}
	return folders
}

// compareDCC reads a table of what dccproc printed: set, file, Body and Fuz1.
func compareDCC(t *testing.T, table string, folders map[string]string, body, fuz1 *tally) {
	t.Helper()
	f, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		column := strings.Split(in.Text(), "\t")
		if len(column) != 4 || column[0] == "set" || !wanted(t, column[0]+"/"+column[1]) {
			continue
		}
		s := sample{column[0], column[0] + "/" + column[1], filepath.Join(folders[column[0]], column[1])}
		sums, err := dcc.Sums(t.Context(), s.raw(t), dcc.Options{Rules: dcc.Rules1})
		if err != nil {
			t.Fatal(err)
		}
		ours := map[dcc.Type]string{dcc.TypeBody: "-", dcc.TypeFuz1: "-"}
		for _, sum := range sums {
			ours[sum.Type] = hex.EncodeToString(sum.Sum[:])
		}
		body.compare(s.source, s.name, ours[dcc.TypeBody] == column[2], "%s, dccproc has %s", ours[dcc.TypeBody], column[2])
		fuz1.compare(s.source, s.name, ours[dcc.TypeFuz1] == column[3], "%s, dccproc has %s", ours[dcc.TypeFuz1], column[3])
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
}
