package arrays

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

func TestRealLists(t *testing.T) {
	folder := t.TempDir()
	mails := map[string]string{
		"spam 1.eml": "From: Offers <Deal@shop.example>\nSubject: x\n\nSee http://shop.example/a?b=3D1 and " +
			"https://two.exam=\nple/c.\n",
		"ham 2.eml": "From: friend@home.example, deal@SHOP.example\nSubject: y\n\n" +
			"https://home.example/photos, http://shop.example/a?b=1\n",
	}
	index := "file\tlabel\ttime\n"
	for _, name := range []string{"spam 1.eml", "ham 2.eml"} {
		label, _, _ := strings.Cut(name, " ")
		index += name + "\t" + label + "\t2024-02-29T12:00:00Z\n"
		write(t, filepath.Join(folder, "mail", name), mails[name])
	}
	write(t, filepath.Join(folder, "mail", "index.tsv"), index)
	write(t, filepath.Join(folder, "mail", "notes.txt"), strings.Repeat("not a list\n", 2000))
	write(t, filepath.Join(folder, "names", "licence.txt"), "short\n")
	var list strings.Builder
	for i := range 2000 {
		list.WriteString("d" + strconv.Itoa(i/2) + ".example\n") // each twice
	}
	write(t, filepath.Join(folder, "names", "list.txt"), list.String())

	spam, ham := newElements(), newElements()
	spam.read([]byte(mails["spam 1.eml"]))
	ham.read([]byte(mails["ham 2.eml"]))
	for _, tt := range []struct {
		spam, ham map[string]bool
		members   []string
		others    []string
	}{
		{spam.senders, ham.senders, []string{"deal@shop.example"}, []string{"friend@home.example"}},
		{spam.links, ham.links, []string{"http://shop.example/a?b=1", "https://two.example/c."},
			[]string{"https://home.example/photos,"}},
		{spam.hosts, ham.hosts, []string{"shop.example", "two.example"}, []string{"home.example"}},
	} {
		l := apart("x", tt.spam, tt.ham)
		if !slices.Equal(l.members, tt.members) || !slices.Equal(l.others, tt.others) {
			t.Errorf("members %q, others %q, want %q and %q", l.members, l.others, tt.members, tt.others)
		}
	}
	lists, err := realLists(t.Context(), &experiment.Config{Corpus: folder, Rounds: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The mail is too little, the notes lie beside mail, the licence is short.
	if len(lists) != 1 || lists[0].name != "names/list.txt" || len(lists[0].members) != 500 ||
		len(lists[0].others) != 500 {
		t.Fatalf("%d lists: %.200v", len(lists), lists)
	}
	both := slices.Sorted(slices.Values(append(slices.Clone(lists[0].members), lists[0].others...)))
	if len(slices.Compact(both)) != 1000 {
		t.Error("a name is in both halves")
	}
	hashes, err := HashLists(folder)
	if err != nil || len(hashes) != 1 || hashes[0].Name != "names/list.txt" {
		t.Errorf("%v, %v", hashes, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// FuzzElements: whatever a message holds, its links have hosts.
func FuzzElements(f *testing.F) {
	f.Add([]byte("From: a@b.example\n\nhttp://c.example/=\nd\n"))
	f.Add([]byte("http://\nhttps://-\n"))
	f.Add([]byte("From: \x00, <>\r\n\r\n=3D=\r\nhttp://é.example"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e := newElements()
		e.read(raw)
		if len(e.links) > 0 && len(e.hosts) == 0 {
			t.Errorf("links %v without a host", e.links)
		}
		for link := range e.links {
			if !strings.HasPrefix(link, "http") || strings.ContainsAny(link, " \n<>\"") {
				t.Errorf("link %q", link)
			}
		}
	})
}

func TestListIndexRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"file outside": "h\n../../etc/passwd\tham\t2024-02-29T12:00:00Z\n",
		"no time":      "h\na.eml\tham\tyesterday\n",
	} {
		path := filepath.Join(t.TempDir(), "index.tsv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if files, err := listIndex(path); err == nil {
			t.Errorf("%s: %v, want an error", name, files)
		}
	}
}
