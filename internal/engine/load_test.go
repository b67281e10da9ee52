package engine

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine/codec"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// FuzzMeta opens an engine on a checkpoint with arbitrary metadata, as a forged backup may have:
// Open returns an error, or the engine is closed again.
func FuzzMeta(f *testing.F) {
	st, err := store.Open(filepath.Join(f.TempDir(), "store"), store.Options{})
	if err != nil {
		f.Fatal(err)
	}
	e, err := Open(f.Context(), small(Options{Store: st}))
	if err != nil {
		f.Fatal(err)
	}
	if err := e.checkpoint(f.Context(), e.queue.between); err != nil {
		f.Fatal(err)
	}
	text := string(st.Manifest().Meta)
	var m codec.Meta
	if err := json.Unmarshal([]byte(text), &m); err != nil || len(m.Tally) == 0 {
		f.Fatalf("%v: %s", err, text)
	}
	for _, old := range []string{"", `"version":2`, `"start":`, `"lines":`, `"Lines":`, `"capacity":`, m.Accounts,
		m.Tally[0].CountsFile} {
		for _, by := range []string{"", "0", "-1", "18446744073709551615", "null", `"version":1`, `"../x"`} {
			f.Add([]byte(strings.Replace(text, old, by, 1)))
		}
	}
	for _, field := range []string{`,"origins":[{}]}`, `,"doubts":[{"pages":-1}]}`, `,"wounds":"wounds"}`,
		`,"tally":null}`} {
		f.Add([]byte(strings.TrimSuffix(text, "}") + field))
	}
	if err := e.Close(context.Background()); err != nil {
		f.Fatal(err)
	}
	if err := st.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{Durability: store.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if err := st.Checkpoint(t.Context(), 1, data, nil); err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), small(Options{Store: st}))
		if err != nil {
			return
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
