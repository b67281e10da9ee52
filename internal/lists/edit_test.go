package lists

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestEdit compares edits of a list with a plain set of entries, after each edit from its files. A dry
// run has the same result and changes nothing.
func TestEdit(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "bad.txt")
	if err := os.WriteFile(text, []byte("start.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := 0
	rapid.Check(t, func(t *rapid.T) {
		made++
		path := filepath.Join(dir, fmt.Sprint(made, ".list"))
		if _, err := Build(context.Background(), path, []string{text}, Options{Capacity: 1000}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+AllowSuffix, []byte("# ours\nwe.example # since 2026\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{"start.example": true}
		names := func(label string) (all []string) {
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 0, 6, rapid.ID).Draw(t, label) {
				all = append(all, fmt.Sprintf("n%d.example", i))
			}
			return all
		}
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			ed := Edit{Add: names("add"), Source: "test", Dry: true}
			ed.Remove = slices.DeleteFunc(names("remove"), func(name string) bool { return slices.Contains(ed.Add, name) })
			dry, err := ed.Apply(context.Background(), path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, path, want)
			ed.Dry = false
			got, err := ed.Apply(context.Background(), path, 1<<20)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(dry) {
				t.Fatalf("%+v, %v, and in the dry run %+v", got, err, dry)
			}
			news, gone := 0, 0
			for _, name := range ed.Add {
				if !want[name] {
					news++
				}
				want[name] = true
			}
			for _, name := range ed.Remove {
				if want[name] {
					gone++
				}
				delete(want, name)
			}
			if len(got.Added)+len(got.Restored) != news || len(got.Removed) != gone ||
				got.Known != len(ed.Add)-news || got.Absent != len(ed.Remove)-gone {
				t.Fatalf("%+v of %+v: %+v", ed, want, got)
			}
			compare(t, path, want)
		}
		allow, err := os.ReadFile(path + AllowSuffix)
		if err != nil || !strings.HasPrefix(string(allow), "# ours\nwe.example # since 2026\n") {
			t.Fatalf("the allow list is %q, %v", allow, err)
		}
	})
}

// compare compares a list file with a set of entries.
func compare(t *rapid.T, path string, want map[string]bool) {
	l, err := Open(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		e, err := ParseEntry(fmt.Sprintf("n%d.example", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, found := l.Find(e); found != want[e.Text] {
			t.Fatalf("%s is found: %v, want %v", e.Text, found, slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestEditRefused checks that a mistake, too many entries and a fuse list change nothing.
func TestEditRefused(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "bad.txt")
	if err := os.WriteFile(text, []byte("a.example\nb.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for structure, eds := range map[Structure]map[string]Edit{
		TwoPart: {"line 2": {Add: []string{"c.example", "not an entry"}}, "limit 10000": {Add: make([]string, MaxEdit+1)},
			"error rate": {Add: many(5000)}},
		Fuse: {ErrStatic.Error(): {Add: []string{"c.example"}}},
	} {
		path := filepath.Join(dir, string(structure)+".list")
		if _, err := Build(context.Background(), path, []string{text}, Options{Structure: structure}); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for want, ed := range eds {
			if got, err := ed.Apply(context.Background(), path, 1<<20); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v, %v, want %q", structure, got, err, want)
			}
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s: a refused edit changed the list, %v", structure, err)
		}
	}
}

func many(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("m%d.example", i))
	}
	return all
}
