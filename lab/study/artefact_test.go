package study

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// TestArtefact checks an artefact against its manifest, its mail and a repetition, and
// wants every change noticed.
func TestArtefact(t *testing.T) {
	corpus := writeCorpus(t, 60)
	c := experiment.Config{Out: t.TempDir(), Rounds: 3, Seed: 5, Only: []string{"2", "rate", "dcc"}, Corpus: corpus}
	if err := RunArtefact(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m, err := CheckArtefact(t.Context(), c.Out, corpus, []string{"2", "rate"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Seed != 5 || m.Rounds != 3 || m.Draw != experiment.DrawPrinted || len(m.Corpora) != 1 ||
		m.Corpora[0].Messages != 60 || len(m.Files) < 4 ||
		m.Command != "bulkhead-lab study --artefact DIR --rounds 3 --seed 5 --draw printed --experiment 2,rate,dcc "+
			"--corpus MAIL" {
		t.Errorf("%+v", m)
	}
	path := filepath.Join(c.Out, "results", "rate.json")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(c.Out, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	restore := func() {
		t.Helper()
		for name, b := range map[string][]byte{path: good, filepath.Join(c.Out, ManifestName): manifest} {
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for want, damage := range map[string]func(){
		"results/rate.json is another file": func() { write(path, string(good)+" ") },
		"results/rate.json is missing":      func() { os.Remove(path) },
		"notes is not in the manifest":      func() { write(filepath.Join(c.Out, "notes"), "x") },
		"format 2, want 1":                  func() { write(filepath.Join(c.Out, ManifestName), `{"format":2}`) },
		"unknown field":                     func() { write(filepath.Join(c.Out, ManifestName), `{"form":1}`) },
		"artefact.json: EOF":                func() { write(filepath.Join(c.Out, ManifestName), "") },
	} {
		damage()
		if _, err := CheckArtefact(t.Context(), c.Out, "", nil); !errors.Is(err, ErrArtefact) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		os.Remove(filepath.Join(c.Out, "notes"))
		restore()
	}
	// Changed numbers with a manifest to match are noticed when the study is repeated.
	forged := strings.Replace(string(good), `"limit":10,`, `"limit":11,`, 1)
	if forged == string(good) {
		t.Fatal("nothing was forged")
	}
	write(path, forged)
	files, err := hashFiles(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	m.Files = files
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(c.Out, ManifestName), string(b))
	if _, err := CheckArtefact(t.Context(), c.Out, "", nil); err != nil {
		t.Errorf("files that are as the manifest says: %v", err)
	}
	if _, err := CheckArtefact(t.Context(), c.Out, "", []string{"2", "rate"}); !errors.Is(err, ErrArtefact) ||
		!strings.Contains(err.Error(), "results/rate.json comes out with other numbers") {
		t.Errorf("forged numbers: %v", err)
	}
	if _, err := CheckArtefact(t.Context(), c.Out, writeCorpus(t, 61), nil); !errors.Is(err, ErrArtefact) ||
		!strings.Contains(err.Error(), "the mail is another") {
		t.Errorf("other mail: %v", err)
	}
	if _, err := CheckArtefact(t.Context(), t.TempDir(), "", nil); err == nil {
		t.Error("an empty folder is an artefact")
	}
}
