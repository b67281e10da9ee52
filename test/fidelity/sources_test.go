//go:build interop

package fidelity

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// A sample is a mail to compare, in a file for the clients that want one.
type sample struct {
	source string // set of the corpus, or "made"
	name   string
	path   string
}

func (s *sample) raw(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// full reports whether everything is to be compared, and not a sample.
func full() bool { return os.Getenv("BULKHEAD_FULL") == "1" }

// setting returns a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// wanted reports whether a mail is of the half that is to be compared.
func wanted(t *testing.T, name string) bool {
	t.Helper()
	half := setting(t, "BULKHEAD_HALF", 0)
	h := fnv.New32a()
	h.Write([]byte(name))
	return half == 0 || uint64(h.Sum32()>>8&1)+1 == half
}

// sets are the sets of the corpus.
var sets = []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-2004-2005", "phishing-pot-2023-2024",
	"lists-2019-2020"}

// real returns mails of the corpus: every mail, or one in this number.
func real(t *testing.T, every int) []sample {
	t.Helper()
	if full() {
		every = 1
	}
	if os.Getenv("BULKHEAD_CORPUS") == "" && !hasCorpus(t) {
		return nil
	}
	var all []sample
	for _, set := range sets {
		files, err := filepath.Glob(filepath.Join(sharedtest.Unpack(t, set), "*.eml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no mails of %s: %v", set, err)
		}
		for i := 0; i < len(files); i += every {
			if name := set + "/" + filepath.Base(files[i]); wanted(t, name) {
				all = append(all, sample{set, name, files[i]})
			}
		}
	}
	return all
}

// hasCorpus reports whether the private corpus is here.
func hasCorpus(t *testing.T) bool {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(dir, "..", "..", "..", "shared", "corpus", sets[0]+".tar.zst"))
	return err == nil
}

// made returns mails made of a seed, a share of them if not everything is compared.
func made(t *testing.T, share int) []sample {
	t.Helper()
	seed, n := setting(t, "BULKHEAD_SEED", 7), setting(t, "BULKHEAD_MADE", 4000)
	if !full() {
		n /= uint64(share)
	}
	dir := t.TempDir()
	var all []sample
	for i := range n {
		s := sample{"made", strings.Join([]string{"made", strconv.FormatUint(seed, 10), strconv.FormatUint(i, 10)}, "-"), ""}
		if !wanted(t, s.name) {
			continue
		}
		s.path = filepath.Join(dir, s.name+".eml")
		if err := os.WriteFile(s.path, Mail(seed, i), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}
