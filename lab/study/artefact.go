package study

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/lab/study/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// ManifestName is the file in which an artefact says what it is.
const ManifestName = "artefact.json"

// A Manifest names the program, the inputs and the results of a study, so that others can repeat it and
// compare theirs.
type Manifest struct {
	Format  int             `json:"format"` // 1
	Command string          `json:"command"`
	Rounds  int             `json:"rounds"`
	Seed    uint64          `json:"seed"`
	Draw    experiment.Draw `json:"draw"`
	// Family of hash functions; empty for the paper's.
	Family experiment.HashFamily `json:"family,omitempty"`
	Parts  []string              `json:"parts"`
	// Go, System and Modules are the compiler, the operating system and processor, and the
	// modules of the program with their versions and checksums. Revision is the commit,
	// followed by "+changes" if the checkout had uncommitted ones, and "unknown" if the
	// program was built outside a checkout.
	Go       string   `json:"go"`
	System   string   `json:"system"`
	Revision string   `json:"revision"`
	Modules  []string `json:"modules"`
	// Printed is the checksum of the printed numbers of Tables III to X, which are part of the
	// program: lines of experiment, extension, m, k, mean and standard deviation.
	Printed string `json:"printed_sha256"`
	// Corpora are the collections of mail that were read. They are not part of the artefact.
	Corpora []CorpusHash `json:"corpora"`
	// Lists are the text files beside the mail, likewise.
	Lists []arrays.FileHash `json:"lists,omitempty"`
	Files []arrays.FileHash `json:"files"` // all files but the manifest, by name
}

const manifestFormat = 1

// A CorpusHash identifies a collection of mail by its content.
type CorpusHash struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
	// SHA256 is the hash of a line for each message, in the order of their names: the SHA-256
	// of its bytes, two blanks and its name within the collection, as sha256sum prints them.
	SHA256 string `json:"sha256"`
}

// RunArtefact is [Run] into the folder c.Out, with the report beside the results if all
// parts are run. Then it writes the manifest of all files there.
func RunArtefact(ctx context.Context, c experiment.Config) error {
	if len(c.Only) == 0 {
		c.Report = filepath.Join(c.Out, "report")
	}
	if err := Run(ctx, c); err != nil {
		return err
	}
	if err := c.Complete(); err != nil {
		return err
	}
	m, err := manifest(&c, ctx)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("study: %w", err)
	}
	return experiment.WriteFile(filepath.Join(c.Out, ManifestName), append(b, '\n'))
}

func manifest(c *experiment.Config, ctx context.Context) (*Manifest, error) {
	parts := c.Only
	if len(parts) == 0 {
		parts = experiment.Parts()
	}
	m := &Manifest{
		Format: manifestFormat, Rounds: c.Rounds, Seed: c.Seed, Draw: c.Draw, Family: c.StoredFamily(), Parts: parts,
		Go:     runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Revision: "unknown", Modules: []string{}, Corpora: []CorpusHash{},
	}
	m.Command = fmt.Sprintf("bulkhead-lab study --artefact DIR --rounds %d --seed %d --draw %s", c.Rounds, c.Seed, c.Draw)
	if m.Family != "" {
		m.Command += " --family " + string(m.Family)
	}
	if len(c.Only) > 0 {
		m.Command += " --experiment " + strings.Join(c.Only, ",")
	}
	if c.Corpus != "" {
		m.Command += " --corpus MAIL"
	}
	m.build()
	sum := sha256.New()
	for _, cell := range experiment.PrintedCells() {
		fmt.Fprintf(sum, "%d,%s,%s,%d,%s,%s\n", cell.Experiment, cell.Extension, cell.M, cell.K, cell.Mean, cell.SD)
	}
	m.Printed = hex.EncodeToString(sum.Sum(nil))
	var err error
	if c.Corpus != "" {
		if m.Corpora, err = hashCorpora(ctx, c.Corpus); err != nil {
			return nil, err
		}
		if m.Lists, err = arrays.HashLists(c.Corpus); err != nil {
			return nil, err
		}
	}
	m.Files, err = hashFiles(c.Out)
	return m, err
}

// build fills in what the program was built from.
func (m *Manifest) build() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			m.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	m.Revision += changed
	for _, d := range info.Deps {
		m.Modules = append(m.Modules, strings.TrimSpace(d.Path+" "+d.Version+" "+d.Sum))
	}
}

// hashCorpora returns the checksums of the collections in folder, by their names.
func hashCorpora(ctx context.Context, folder string) ([]CorpusHash, error) {
	files, err := arrays.ListCorpus(folder)
	if err != nil {
		return nil, err
	}
	lines := make(map[string][]string)
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		name, err := filepath.Rel(folder, f.Path)
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		corpus, message, _ := strings.Cut(filepath.ToSlash(name), "/")
		sum, _, err := arrays.HashFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		lines[corpus] = append(lines[corpus], message+"\x00"+sum)
	}
	all := []CorpusHash{}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		slices.Sort(lines[name])
		h := sha256.New()
		for _, line := range lines[name] {
			message, sum, _ := strings.Cut(line, "\x00")
			fmt.Fprintf(h, "%s  %s\n", sum, message)
		}
		all = append(all, CorpusHash{name, len(lines[name]), hex.EncodeToString(h.Sum(nil))})
	}
	return all, nil
}

// ErrArtefact means that an artefact is not what its manifest says, or that repeating it
// gave other numbers.
var ErrArtefact = errors.New("study: the artefact does not agree with its manifest")

// CheckArtefact compares the files of an artefact with its manifest, and, if corpus is not
// empty, the mail in that folder with the mail it was made from. If these agree, it runs the
// named parts again, with the seed and the rounds of the manifest, and compares their
// numbers, but no times. An error that says what differs wraps [ErrArtefact].
func CheckArtefact(ctx context.Context, folder, corpus string, again []string) (*Manifest, error) {
	b, err := os.ReadFile(filepath.Join(folder, ManifestName))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	m := new(Manifest)
	in := json.NewDecoder(bytes.NewReader(b))
	in.DisallowUnknownFields()
	if err := in.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrArtefact, ManifestName, err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("%w: format %d, want %d", ErrArtefact, m.Format, manifestFormat)
	}
	have, err := hashFiles(folder)
	if err != nil {
		return nil, err
	}
	wrong := differences(m.Files, have)
	if corpus != "" {
		corpora, err := hashCorpora(ctx, corpus)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(corpora, m.Corpora) {
			wrong = append(wrong, fmt.Sprintf("the mail is another: %+v, want %+v", corpora, m.Corpora))
		}
		lists, err := arrays.HashLists(corpus)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(lists, m.Lists) {
			wrong = append(wrong, fmt.Sprintf("the lists are others: %+v, want %+v", lists, m.Lists))
		}
	}
	if len(again) > 0 && len(wrong) == 0 {
		found, err := m.repeat(ctx, folder, corpus, again)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, found...)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrArtefact, strings.Join(wrong, "; "))
	}
	return m, nil
}

// differences names the files that are not as they should be.
func differences(want, have []arrays.FileHash) (wrong []string) {
	found := make(map[string]arrays.FileHash)
	for _, f := range have {
		found[f.Name] = f
	}
	for _, f := range want {
		switch is, ok := found[f.Name]; {
		case !ok:
			wrong = append(wrong, f.Name+" is missing")
		case is != f:
			wrong = append(wrong, f.Name+" is another file")
		}
		delete(found, f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		wrong = append(wrong, name+" is not in the manifest")
	}
	return wrong
}

// repeat runs parts again in a folder of their own, and names the results that differ.
func (m *Manifest) repeat(ctx context.Context, folder, corpus string, again []string) (wrong []string, err error) {
	out, err := os.MkdirTemp("", "study-again-")
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	defer os.RemoveAll(out)
	if err := Run(ctx, experiment.Config{Out: out, Rounds: m.Rounds, Seed: m.Seed, Draw: m.Draw, Family: m.Family,
		Only: again, Corpus: corpus}); err != nil {
		return nil, err
	}
	results, err := filepath.Glob(filepath.Join(out, "results", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	for _, path := range results {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "speed") {
			continue
		}
		is, err := resultOf(path)
		if err != nil {
			return nil, err
		}
		was, err := resultOf(filepath.Join(folder, "results", name))
		if errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, "the artefact has no results/"+name)
			continue
		}
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(is, was) {
			wrong = append(wrong, "results/"+name+" comes out with other numbers")
		}
	}
	return wrong, nil
}

// resultOf returns the numbers of a result, without the time that they took.
func resultOf(path string) (json.RawMessage, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	var s experiment.Stored
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrArtefact, filepath.Base(path), err)
	}
	return s.Result, nil
}

// hashFiles returns every regular file below folder but the manifest. Anything else there
// is an error.
func hashFiles(folder string) ([]arrays.FileHash, error) {
	files := []arrays.FileHash{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil || name == ManifestName {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", name)
		}
		sum, n, err := arrays.HashFile(path)
		files = append(files, arrays.FileHash{Name: filepath.ToSlash(name), Bytes: n, SHA256: sum})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	slices.SortFunc(files, func(a, b arrays.FileHash) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}
