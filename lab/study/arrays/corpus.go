package arrays

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A corpusResult is real mail in time order, as the signatures that a server would see.
type corpusResult struct {
	Folder   string `json:"folder"`
	Messages int    `json:"messages"`
	// Streams holds, for each scheme, the signatures of all messages in order,
	// numbered from 0 by first appearance.
	Streams map[string][]int32 `json:"streams"`
}

// corpusSchemes are the schemes studied: the canonical text, DCC's fuzzy checksum of the
// body, and the bands of near copies, of which a message has several.
func corpusSchemes() []bulkhead.Scheme {
	return []bulkhead.Scheme{bulkhead.Exact, bulkhead.DCCFuz1, bulkhead.Near}
}

func (r *corpusResult) schemes() (names []string) {
	for _, s := range corpusSchemes() {
		if len(r.Streams[s.String()]) > 0 {
			names = append(names, s.String())
		}
	}
	return names
}

// counts returns how often each signature of a scheme was reported.
func (r *corpusResult) counts(scheme string) []uint32 {
	var counts []uint32
	for _, id := range r.Streams[scheme] {
		for int(id) >= len(counts) {
			counts = append(counts, 0)
		}
		counts[id]++
	}
	return counts
}

// A mailFile is one message of a corpus.
type mailFile struct {
	Path string
	spam bool
	time time.Time
}

// ListCorpus reads the index of every corpus in folder, and returns all
// messages in time order.
func ListCorpus(folder string) ([]mailFile, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*", "index.tsv"))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("study: no */index.tsv in %s: it must hold unpacked corpora", folder)
	}
	var all []mailFile
	for _, name := range names {
		part, err := listIndex(name)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	slices.SortStableFunc(all, func(a, b mailFile) int { return a.time.Compare(b.time) })
	return all, nil
}

// listIndex reads one index.tsv: a line of headings, then file, label, time and
// more, separated by tabs.
func listIndex(name string) (files []mailFile, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(lines.Text(), "\t")
		if n == 1 || len(fields) < 3 {
			continue
		}
		if !filepath.IsLocal(fields[0]) {
			return nil, fmt.Errorf("study: %s: line %d: file %q lies outside the folder", name, n, fields[0])
		}
		at, err := time.Parse(time.RFC3339, fields[2])
		if err != nil {
			return nil, fmt.Errorf("study: %s: line %d: %w", name, n, err)
		}
		files = append(files, mailFile{filepath.Join(filepath.Dir(name), fields[0]), fields[1] == "spam", at})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("study: %s: %w", name, err)
	}
	return files, nil
}

// readCorpus computes the signatures of at most n messages of the corpora,
// evenly chosen.
func readCorpus(ctx context.Context, folder string, n int) (*corpusResult, error) {
	files, err := ListCorpus(folder)
	if err != nil {
		return nil, err
	}
	files = evenly(files, n)
	sigs := make([][]bulkhead.Signature, len(files))
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(files) && errs[w] == nil; i += len(errs) {
				if errs[w] = ctx.Err(); errs[w] == nil {
					sigs[i], errs[w] = signaturesOf(ctx, files[i].Path)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return numberSignatures(folder, sigs), nil
}

// evenly returns at most n of the files, evenly chosen.
func evenly(files []mailFile, n int) []mailFile {
	if len(files) <= n {
		return files
	}
	part := make([]mailFile, n)
	for i := range part {
		part[i] = files[i*len(files)/n]
	}
	return part
}

func signaturesOf(ctx context.Context, path string) ([]bulkhead.Signature, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	var skip []bulkhead.Scheme
	for _, s := range bulkhead.Schemes() {
		if !slices.Contains(corpusSchemes(), s) {
			skip = append(skip, s)
		}
	}
	sigs, err := signature.Compute(ctx, raw, signature.Options{Skip: skip})
	if err != nil {
		return nil, fmt.Errorf("study: %s: %w", path, err)
	}
	return sigs, nil
}

func numberSignatures(folder string, sigs [][]bulkhead.Signature) *corpusResult {
	r := &corpusResult{Folder: folder, Messages: len(sigs), Streams: map[string][]int32{}}
	ids := map[bulkhead.Signature]int32{}
	next := map[bulkhead.Scheme]int32{}
	for _, list := range sigs {
		for _, sig := range list {
			id, ok := ids[sig]
			if !ok {
				id = next[sig.Scheme()]
				next[sig.Scheme()]++
				ids[sig] = id
			}
			name := sig.Scheme().String()
			r.Streams[name] = append(r.Streams[name], id)
		}
	}
	return r
}

// CorpusSource returns a function that gives the corpus, read once in a run and
// kept in a file between runs.
func CorpusSource(c *experiment.Config) func(context.Context) (*corpusResult, error) {
	var mu sync.Mutex
	var have *corpusResult
	return func(ctx context.Context) (*corpusResult, error) {
		mu.Lock()
		defer mu.Unlock()
		if have != nil {
			return have, nil
		}
		n := 100 * c.Rounds
		stored := &corpusResult{}
		u := &experiment.Unit{Name: "corpus-" + strconv.Itoa(n), Result: stored,
			Have: func() bool { return stored.Folder == c.Corpus }}
		if ok, err := c.Load(u); err != nil {
			return nil, err
		} else if ok {
			have = stored
			return have, nil
		}
		r, err := readCorpus(ctx, c.Corpus, n)
		if err != nil {
			return nil, err
		}
		u.Result, have = r, r
		return have, c.Save(u)
	}
}

// A FileHash is one file of an artefact.
type FileHash struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// HashFile returns the SHA-256 checksum of a file, in hexadecimal digits, and its size in bytes.
func HashFile(path string) (sum string, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}
