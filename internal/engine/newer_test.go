package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// content returns the content of all files of a folder, by path.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNewerJournal checks that a journal with an entry of a newer version is not called damaged, starts
// nothing, and stays as it is.
func TestNewerJournal(t *testing.T) {
	for name, entry := range map[string][]byte{
		"another format": {'v', 250, 1, 2, 3},
		"another kind":   {'!', 5, 1, 2, 3},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		e, st := openDurable(t, dir, Options{}, nil)
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1)}, Count: 3})
		if err := errors.Join(e.Close(t.Context()), st.Close()); err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Append(entry); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if st, err = store.Open(dir, store.Options{}); err != nil { // it removes what the checkpoint covers
			t.Fatal(err)
		}
		before := content(t, dir)
		_, err = Open(t.Context(), small(Options{Store: st}))
		var damage *store.DamageError
		if !errors.Is(err, store.ErrNewer) || errors.As(err, &damage) ||
			!strings.Contains(err.Error(), "written by a newer version") {
			t.Errorf("%s: %v", name, err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		for path, was := range before {
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, []byte(was)) {
				t.Errorf("%s: %s has changed: %v", name, path, err)
			}
		}
	}
}
