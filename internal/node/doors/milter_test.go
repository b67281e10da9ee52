package doors

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

// TestTakeOverLists gives a list to a node that began without any: the milter must ask it.
func TestTakeOverLists(t *testing.T) {
	set, err := lists.OpenSet(lists.SetOptions{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &Set{counted: make(map[string]*countedHouse), opts: Options{
		Config: config.Default, Lists: set, Log: slog.New(slog.DiscardHandler),
		Clearinghouse: func(string) bulkhead.Counter { return failing{} },
	}}
	m, _, err := s.newMilter()
	if err != nil {
		t.Fatal(err)
	}
	text, list := filepath.Join(t.TempDir(), "names.txt"), filepath.Join(t.TempDir(), "bad.list")
	if err := os.WriteFile(text, []byte("evil.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lists.Build(t.Context(), list, []string{text}, lists.Options{}); err != nil {
		t.Fatal(err)
	}
	files, err := set.Prepare([]lists.File{{Name: "bad", Path: list}})
	if err != nil {
		t.Fatal(err)
	}
	files.Commit()
	if m.Lists == nil || len(m.Lists.Find("ann@evil.example")) != 1 {
		t.Error("the milter does not ask the new list")
	}
}
