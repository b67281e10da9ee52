package lists

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// TestEntryBounds checks that an entry of the maximum length is accepted, and one that is a byte
// longer is not.
func TestEntryBounds(t *testing.T) {
	label := strings.Repeat("l", 63)
	longest := strings.Join([]string{label, label, label, strings.Repeat("m", 61)}, ".")
	for _, tt := range []struct {
		name, in string
		kind     Kind // 0: no entry
		want     string
	}{
		{"longest label", label + ".example", Domain, label + ".example"}, {"longer label", label + "l.example", 0, ""},
		{"longest domain", longest, Domain, longest}, {"longer domain", longest + "m", 0, ""},
		{"longest local part", strings.Repeat("l", 64) + "@example.com", Address, strings.Repeat("l", 64) + "@example.com"},
		{"longest entry", "example.com/" + strings.Repeat("p", 2036), URL, "//example.com/" + strings.Repeat("p", 2036)},
		{"longer entry", "example.com/" + strings.Repeat("p", 2037), 0, ""},
		{"all letters", "az09-_.example", Domain, "az09-_.example"}, {"`", "`.example", 0, ""}, {"{", "{.example", 0, ""},
		{"slash", "0:.example", 0, ""},
		{"ends in a number", "example.123", 0, ""}, {"ends in nearly a number", "example.1a3", Domain, "example.1a3"},
		{"empty label at the end", "example..", 0, ""}, {"two stars", "**.example", 0, ""}, {"star alone", "*example.com",
			Domain, "example.com"},
		{"blanks around", " \texample.com\r", Domain, "example.com"}, {"DEL", "exam\x7fple.com", 0, ""},
		{"not UTF-8", "\xff.example", 0, ""},
		{"scheme of nothing", "//example.com/a", URL, "//example.com/a"}, {"another scheme", "ftp://example.com/a", URL,
			"//example.com/a"},
		{"user", "http://user@example.com@host.example/", URL, "//host.example/"},
		{"question first", "http://example.com?a/b", URL, "//example.com/?a/b"},
		{"port of an address", "http://192.0.2.7:80/", URL, "//192.0.2.7/"}, {"zone", "http://[fe80::1%25eth0]/", 0, ""},
		{"brackets", "http://[192.0.2]/", 0, ""},
		{"whole Internet", "0.0.0.0/0", Network, "0.0.0.0/0"},
		{"mapped network", "::ffff:192.0.2.0/120", Network, "192.0.2.0/24"},
		{"half mapped", "::ffff:0.0.0.0/95", Network, "::fffe:0:0/95"},
		{"all that is mapped", "::ffff:1.2.3.4/96", Network, "0.0.0.0/0"},
		{"number that is no network", "1.2.3.4/33", 0, ""}, {"zone of an address", "fe80::1%eth0", 0, ""},
		{"network of too many bits", "2001:db8::/129", 0, ""},
		{"folder of an address", "192.0.2.7/", URL, "//192.0.2.7/"},
		{"file of an address", "192.0.2.7/33x", URL, "//192.0.2.7/33x"},
		{"last @", "a@b@example.com", Address, "a@b@example.com"}, {"address of an address", "a@192.0.2.1", 0, ""},
	} {
		e, err := ParseEntry(tt.in)
		if e.Kind != tt.kind || e.Text != tt.want || (err == nil) != (tt.kind != 0) {
			t.Errorf("%s: %v %.60q, %v, want %v %.60q", tt.name, e.Kind, e.Text, err, tt.kind, tt.want)
		}
	}
	for k, want := range map[Kind]string{Address: "address", Domain: "domain", URL: "url", Network: "network",
		Digest: "digest", 0: "invalid", 6: "invalid"} {
		if k.String() != want {
			t.Errorf("kind %d is called %q, want %q", k, k, want)
		}
	}
	if e := NetworkEntry(netip.MustParsePrefix("192.0.2.77/24")); e != (Entry{Network, "192.0.2.0/24"}) {
		t.Errorf("%+v", e)
	}
	if e := AddrEntry(netip.MustParseAddr("::ffff:192.0.2.7")); e != (Entry{Network, "192.0.2.7/32"}) {
		t.Errorf("%+v", e)
	}
}

// TestElements checks which elements stand for an entry, and how many for a deep name or path.
func TestElements(t *testing.T) {
	_, l := build(t, Options{}, "x.example", "192.0.2.0/24", "192.0.2.7", "0.0.0.0/0", "2001:db8::/32")
	_, exact := build(t, Options{Exact: true}, "x.example")
	for _, tt := range []struct {
		l    *List
		in   string
		want string
	}{
		{l, "a.b.c.example", "a.b.c.example b.c.example c.example"},
		{l, "c.example", "c.example"}, {l, "example", "example"},
		{l, "1a.2a.3a.4a.5a.6a.7a.8a.9a.example",
			"1a.2a.3a.4a.5a.6a.7a.8a.9a.example 2a.3a.4a.5a.6a.7a.8a.9a.example 3a.4a.5a.6a.7a.8a.9a.example " +
				"4a.5a.6a.7a.8a.9a.example 5a.6a.7a.8a.9a.example 6a.7a.8a.9a.example 7a.8a.9a.example 8a.9a.example 9a.example"},
		{l, "zz.0a.1a.2a.3a.4a.5a.6a.7a.8a.9a.example",
			"zz.0a.1a.2a.3a.4a.5a.6a.7a.8a.9a.example 2a.3a.4a.5a.6a.7a.8a.9a.example 3a.4a.5a.6a.7a.8a.9a.example " +
				"4a.5a.6a.7a.8a.9a.example 5a.6a.7a.8a.9a.example 6a.7a.8a.9a.example 7a.8a.9a.example 8a.9a.example 9a.example"},
		{l, "a@b.c.example", "a@b.c.example b.c.example c.example"},
		{l, "http://b.c.example/1/2?q",
			"//b.c.example/1/2?q //b.c.example/1/2 //b.c.example/ //b.c.example/1/ b.c.example c.example"},
		{l, "http://c.example/", "//c.example/ c.example"},
		{l, "http://c.example/?q", "//c.example/?q //c.example/ c.example"},
		{l, "http://c.example/a/", "//c.example/a/ //c.example/ c.example"},
		{l, "http://c.example/1/2/3/4/5/6/7/8",
			"//c.example/1/2/3/4/5/6/7/8 //c.example/ //c.example/1/ //c.example/1/2/ //c.example/1/2/3/ " +
				"//c.example/1/2/3/4/ //c.example/1/2/3/4/5/ c.example"},
		{l, "http://192.0.2.9/", "//192.0.2.9/ 192.0.2.9/32 192.0.2.0/24 0.0.0.0/0"},
		{l, "http://[2001:db8::1]/x", "//[2001:db8::1]/x //[2001:db8::1]/ 2001:db8::/32"},
		{l, "192.0.2.9", "192.0.2.9/32 192.0.2.0/24 0.0.0.0/0"}, {l, "192.0.2.0/24", "192.0.2.0/24 0.0.0.0/0"},
		{l, "192.0.2.0/25", "192.0.2.0/24 0.0.0.0/0"},
		{exact, "a.c.example", "a.c.example"}, {exact, "x@a.c.example", "x@a.c.example a.c.example"},
		{exact, "192.0.2.9", ""},
	} {
		var got []string
		tt.l.elements(entry(t, tt.in), func(e string) bool { got = append(got, e); return true })
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s, want %s", tt.in, strings.Join(got, " "), tt.want)
		}
		// yield must not be called again after it has returned false.
		for stop := 1; stop < len(got); stop++ {
			n := 0
			tt.l.elements(entry(t, tt.in), func(string) bool { n++; return n < stop })
			if n != stop {
				t.Errorf("%s: %d elements after %d were enough", tt.in, n, stop)
			}
		}
	}
	m, ok := l.Find(entry(t, "a.b.x.example"))
	if want := 3 * l.ErrorRate(); !ok || want == 0 || m.Element != "x.example" || math.Abs(m.Error-want) > 1e-3*want {
		t.Errorf("%+v, want an error of %g, that of three questions", m, want)
	}
}

// TestTextFiles checks comments, blank lines, line ends, byte order marks and long lines.
func TestTextFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"lines", "a.example\nb.example\n", "1 a.example, 2 b.example"}, {"no end", "a.example", "1 a.example"},
		{"nothing", "", ""},
		{"comments", "# x\na.example # x\nb.example\t# x\nc.example#x\n #\n\n", "2 a.example, 3 b.example, 4 c.example#x"},
		{"CRLF", "a.example\r\n\r\nb.example\r\n", "1 a.example, 3 b.example"},
		{"byte order mark", "\ufeffa.example\n\ufeffb.example\n", "1 a.example, 2 \ufeffb.example"},
		{"longest line", strings.Repeat("x", 65535) + "\na", "1 " + strings.Repeat("x", 65535) + ", 2 a"},
		{"longer line", strings.Repeat("x", 65536) + "\na", "lists: line 1 is longer than 65536 bytes"},
	} {
		var got []string
		err := eachLine(strings.NewReader(tt.text),
			func(n int, line string) error { got = append(got, fmt.Sprint(n, " ", line)); return nil })
		text := strings.Join(got, ", ")
		if err != nil {
			text = err.Error()
		}
		if text != tt.want {
			t.Errorf("%s: %.80q, want %.80q", tt.name, text, tt.want)
		}
	}
	stop := errors.New("enough")
	if err := eachLine(strings.NewReader("a\nb\n"), func(int, string) error { return stop }); err != stop {
		t.Errorf("stopped with %v", err)
	}
}

// TestMeta checks that a list records its sources and build time.
func TestMeta(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "made.up.list")
	first, second := write(t, "first.txt", "a.example", "b@example.com", "a.example"),
		write(t, "second.txt", "192.0.2.0/24", "2001:db8::/32", "http://c.example/", "192.0.2.0/25")
	r, err := Build(t.Context(), path, []string{first, second},
		Options{Now: func() time.Time { return day.Add(time.Millisecond) }, Reason: "because"})
	if err != nil || r.Lines != 7 || r.New != 6 || r.Bad != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	later := day.Add(time.Hour)
	if _, err := Add(t.Context(), path, 1<<30, []string{write(t, "third.txt", "d.example")}, true,
		Options{Now: func() time.Time { return later }}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	m := l.Meta()
	if m.Format != 1 || m.Name != "made.up" || m.Tone != Black || m.Reason != "because" || !m.Built.Equal(day) ||
		!m.Updated.Equal(later) || m.Error != DefaultError || m.Capacity != 7 || !m.Subdomains || m.Hash != "" {
		t.Errorf("%+v", m)
	}
	if fmt.Sprint(m.Kinds) != "map[address:1 domain:3 network:3 url:1]" || fmt.Sprint(m.V4, m.V6) != "[25 24] [32]" {
		t.Errorf("kinds %v, lengths %v, %v", m.Kinds, m.V4, m.V6)
	}
	var sources []string
	for _, s := range m.Sources {
		sources = append(sources, fmt.Sprint(s.Name, " ", s.Entries, " ", s.Read.Unix()-day.Unix()))
	}
	if fmt.Sprint(sources) != "[first.txt 3 0 second.txt 4 0 third.txt 1 3600]" {
		t.Errorf("sources %v", sources)
	}
	if m, ok := l.Find(entry(t, "d.example")); !ok || !m.Built.Equal(later) || m.Reason != "because" ||
		m.List != "made.up" {
		t.Errorf("%+v", m)
	}
	if l.Count() != 7 || l.Bytes() != l.filter.Shape().Bytes() || l.Bytes() == 0 {
		t.Errorf("%d entries, %d bytes", l.Count(), l.Bytes())
	}
	for name, change := range map[string]func(*Meta){
		"format": func(m *Meta) { m.Format = 2 }, "tone": func(m *Meta) { m.Tone = "red" },
		"hash":        func(m *Meta) { m.Hash = "crc" },
		"long name":   func(m *Meta) { m.Name = strings.Repeat("n", 256) },
		"long reason": func(m *Meta) { m.Reason = strings.Repeat("r", 256) },
		"control":     func(m *Meta) { m.Reason = "a\nb" }, "DEL": func(m *Meta) { m.Name = "\x7f" },
		"IPv4": func(m *Meta) { m.V4 = []int{33} }, "IPv6": func(m *Meta) { m.V6 = []int{129} },
		"negative": func(m *Meta) { m.V4 = []int{-1} }, "order": func(m *Meta) { m.V4 = []int{24, 25} },
		"twice": func(m *Meta) { m.V6 = []int{64, 64} },
	} {
		bad := m
		if change(&bad); bad.validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	m.Name, m.Reason, m.V4, m.V6, m.Hash = strings.Repeat("n", 255), strings.Repeat(" ", 255), []int{32, 1, 0},
		[]int{128, 0}, MD5
	if err := m.validate(); err != nil {
		t.Errorf("at all bounds: %v", err)
	}
}

// TestBadLines checks that the first ten bad lines are named, and the others counted.
func TestBadLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.list")
	for n, want := range map[int]string{1: "line 1", 10: "line 10", 11: "and 1 more", 14: "and 4 more"} {
		_, err := Build(t.Context(), path, []string{write(t, "bad.txt", slices.Repeat([]string{"a b"}, n)...)}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "more") != (n > 10) ||
			strings.Contains(err.Error(), "line 11") {
			t.Errorf("%d bad lines: %v, want %q", n, err, want)
		}
	}
}

// TestProgress checks that Progress is called after a hundred thousand lines.
func TestProgress(t *testing.T) {
	var lines []string
	for i := range 100_001 {
		lines = append(lines, fmt.Sprintf("%x.example", i))
	}
	var progress []uint64
	r, err := Build(t.Context(), filepath.Join(t.TempDir(), "x.list"), []string{write(t, "src", lines...)},
		Options{Error: 0.1, Progress: func(n uint64) { progress = append(progress, n) }})
	if err != nil || r.Lines != 100_001 || fmt.Sprint(progress) != "[100000]" {
		t.Errorf("%d lines, %v, progress %v", r.Lines, err, progress)
	}
}

// TestMergeRefuses checks that lists with different meanings are not merged, and that the union
// allows every entry that one of them allows.
func TestMergeRefuses(t *testing.T) {
	path, l := build(t, Options{}, "a.example")
	out := filepath.Join(t.TempDir(), "out.list")
	for want, o := range map[string]Options{"hash": {Hash: MD5, Like: l}, "subdomains": {Exact: true, Like: l},
		"white list": {Tone: White, Like: l}, "build one list like the other": {}} {
		other, _ := build(t, o, "b.example")
		if _, err := Merge(out, 1<<30, []string{path, other}, nil); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), other) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused merge writes: %v", err)
	}
	other, _ := build(t, Options{Like: l}, "b.example", "2001:db8::/48", "192.0.2.0/24")
	for at, text := range map[string]string{path: "x.a.example", other: "x.b.example", out: "x.a.example"} {
		if err := Allow(at, []string{text}); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := Merge(out, 1<<30, []string{path, other}, now)
	if err != nil {
		t.Fatal(err)
	}
	m := merged.Meta()
	if !m.Updated.Equal(day) || fmt.Sprint(m.Kinds, m.V4, m.V6, len(m.Sources)) != "map[domain:2 network:2] [24] [48] 2" {
		t.Errorf("%+v", m)
	}
	text, err := os.ReadFile(out + AllowSuffix)
	if err != nil || string(text) != "x.a.example\nx.b.example\n" {
		t.Errorf("allowed: %q, %v", text, err)
	}
	if err := os.WriteFile(other+AllowSuffix, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, inputs := range [][]string{{path, other}, {other, path}, {path, out + "none"}, {out + "none", path}} {
		if _, err := Merge(out, 1<<30, inputs, nil); err == nil {
			t.Errorf("%v: merged", inputs)
		}
	}
}

// TestAllowFile checks that entries are appended, whatever the file ends in, and that its
// permissions are unchanged.
func TestAllowFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.list")
	if err := os.WriteFile(path+AllowSuffix, []byte("# mine\na.example"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Allow(path, []string{"B.example", "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if err := Allow(path, []string{"c.example"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + AllowSuffix)
	if want := "# mine\na.example\nb.example\n192.0.2.1/32\nc.example\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	info, err := os.Stat(path + AllowSuffix)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	made, _ := build(t, Options{}, "a.example")
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("a new list has the mode %v, %v", info.Mode(), err)
	}
	if err := os.Mkdir(path+"2"+AllowSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Allow(path+"2", []string{"a.example"}); err == nil {
		t.Error("an allow list that is a folder is written")
	}
}

// TestLock checks that a change waits for a concurrent one, and starts from its result.
func TestLock(t *testing.T) {
	path, _ := build(t, Options{}, "a.example")
	var wg sync.WaitGroup
	for i := range 8 {
		added := write(t, "more", fmt.Sprintf("n%d.example", i))
		wg.Go(func() {
			if _, err := Add(context.WithoutCancel(t.Context()), path, 1<<30, []string{added}, true, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l, err := Open(path, 1<<30)
	if err != nil || l.Count() != 9 || len(l.Meta().Sources) != 9 {
		t.Errorf("%d entries of %d sources, %v, want 9", l.Count(), len(l.Meta().Sources), err)
	}
}

// TestAddTooMuch fills a list up to its error rate, and slightly beyond.
func TestAddTooMuch(t *testing.T) {
	path, _ := build(t, Options{Error: 0.01, Capacity: 100}, "a.example")
	lines := func(n int, tag string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s%d.example", tag, i))
		}
		return all
	}
	if _, err := Add(t.Context(), path, 1<<30, []string{write(t, "m", lines(90, "m")...)}, false, Options{}); err != nil {
		t.Fatal(err)
	}
	_, err := Add(t.Context(), path, 1<<30, []string{write(t, "n", lines(200, "n")...)}, false, Options{})
	if err == nil || !strings.Contains(err.Error(), "raise the error rate to") || !strings.Contains(err.Error(),
		"limit 0.01") {
		t.Errorf("%v", err)
	}
	if _, err := Add(t.Context(), path, 1<<30, []string{write(t, "bad", "a b")}, true, Options{}); err == nil {
		t.Error("a bad line is taken")
	}
	if _, err := Add(t.Context(), path, 10, nil, true, Options{}); err == nil {
		t.Error("a list beyond the limit is read")
	}
	if _, err := Add(t.Context(), path, 1<<30, nil, true, Options{Hash: "crc"}); err == nil {
		t.Error("an unknown hash is taken")
	}
}

// TestDiffErrors checks that a file that cannot be read is an error, not a difference.
func TestDiffErrors(t *testing.T) {
	good, bad := write(t, "good", "a.example"), write(t, "bad", "a.example", "a b")
	_, l := build(t, Options{Hash: SHA1}, "a.example")
	for _, pair := range [][2]string{{bad, good}, {good, bad}, {good + "x", good}, {good, good + "x"}} {
		if d, err := DiffText(t.Context(), pair[0], pair[1], nil, nil); err == nil || d != (Difference{}) {
			t.Errorf("%v: %+v, %v", pair, d, err)
		}
	}
	if _, err := l.DiffNewer(t.Context(), bad, nil); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a bad line: %v", err)
	}
	var added []string
	d, err := l.DiffNewer(t.Context(), write(t, "newer", "a.example", digest(SHA1, "a.example"), "b.example",
		"b.example", digest(SHA1, "c.example")), func(e Entry) { added = append(added, e.Text) })
	if err != nil || d.Old != 1 || d.New != 4 || d.Added != 2 || fmt.Sprint(added) != "[b.example "+digest(SHA1,
		"c.example")+"]" {
		t.Errorf("%+v, %v, added %v", d, err, added)
	}
	var lines []string
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("%d.a.example", i))
	}
	if d, err := DiffText(t.Context(), good, write(t, "long", lines...), nil, nil); err != nil ||
		d != (Difference{Old: 1, New: 10_000, Added: 10_000, Removed: 1, Exact: true}) {
		t.Errorf("ten thousand lines: %+v, %v", d, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DiffText(ended, write(t, "long", lines...), good, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestRun checks that a running set loads files that change, until its context ends.
func TestRun(t *testing.T) {
	path, _ := build(t, Options{Reason: "spam", Tone: Grey}, "a.example")
	var log logtest.Log
	s, err := OpenSet(SetOptions{Files: []File{{"l", path}}, Watch: time.Millisecond,
		Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	if err := Allow(path, []string{"a.example"}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the list is reloaded", func() bool { return s.Reloads.Load() > 0 })
	cancel()
	<-ended
	h := s.Handles()[0]
	if h.HasDomain("a.example") || h.List().Allowed() != 1 || h.Name() != "l" || h.Hash() != "" ||
		!h.Updated().Equal(day) {
		t.Errorf("%d allowed, name %s, updated %v", h.List().Allowed(), h.Name(), h.Updated())
	}
	if !strings.HasPrefix(h.Describe(), "spam (list l of 2026-03-04") || !strings.Contains(log.String(), "list read") {
		t.Errorf("%q, log %q", h.Describe(), log.String())
	}
	// A set that never checks its files still ends with its context.
	s, err = OpenSet(SetOptions{Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.Run(ctx)
	ctx, cancel = context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { s.Run(ctx); close(left) }()
	for range 100 {
		runtime.Gosched()
	}
	select {
	case <-left:
		t.Error("it has ended before it was told to")
	default:
	}
	cancel()
	<-left
}

// TestFailOpen checks that a set that fails open starts without the lists that cannot be read. It
// finds nothing in these and everything in the others, and loads the missing lists when they become
// readable.
func TestFailOpen(t *testing.T) {
	good, _ := build(t, Options{}, "good.example")
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 0x10
	for _, tt := range []struct {
		name   string
		damage func(path string) error
		mend   func(path string) error
	}{
		{"missing", os.Remove, nil},
		{"empty", func(path string) error { return os.WriteFile(path, nil, 0o600) }, nil},
		{"cut", func(path string) error { return os.Truncate(path, int64(len(whole)-1)) }, nil},
		{"a flipped bit", func(path string) error { return os.WriteFile(path, flipped, 0o600) }, nil},
		{"a folder", func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, os.Remove},
		{"an allow list that is none",
			func(path string) error { return os.WriteFile(path+AllowSuffix, []byte("http://[\n"), 0o600) },
			func(path string) error { return os.Remove(path + AllowSuffix) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bad, _ := build(t, Options{Hash: SHA1}, "bad.example")
			before, err := os.ReadFile(bad)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.damage(bad); err != nil {
				t.Fatal(err)
			}
			var log logtest.Log
			o := SetOptions{Files: []File{{"good", good}, {"bad", bad}}, Watch: -1,
				Log: log.Logger()}
			if _, err := OpenSet(o); err == nil {
				t.Error("a set that does not fail open has opened")
			}
			o.FailOpen = true
			s, err := OpenSet(o)
			if err != nil {
				t.Fatal(err)
			}
			h := s.Handle("bad")
			if h.Known() || h.Fault() == nil || h.List() != nil || s.Faults.Load() != 1 || !strings.Contains(log.String(),
				"level=ERROR") || !strings.Contains(log.String(), "list=bad") {
				t.Errorf("known %v, fault %v, %d faults, log %s", h.Known(), h.Fault(), s.Faults.Load(), log.String())
			}
			if h.HasDomain("bad.example") || h.HasAddr(netip.MustParseAddr("192.0.2.1")) || h.HasAddress("a@bad.example") ||
				h.HasDigest(digest(SHA1, "bad.example")) || h.Hash() != NoHash || !h.Updated().IsZero() ||
				!strings.Contains(h.Describe(), "not known") {
				t.Errorf("it answers: %s", h.Describe())
			}
			if m := s.Find(entry(t, "bad.example")); len(m) != 0 {
				t.Errorf("found in it: %+v", m)
			}
			if m := s.Find(entry(t, "good.example")); len(m) != 1 || !s.Handle("good").Known() {
				t.Errorf("found in the other: %+v", m)
			}
			// A configuration change that keeps the unreadable list does not fail because of it; a
			// change that adds another unreadable list does.
			if err := s.SetFiles([]File{{"bad", bad}}); err != nil {
				t.Error(err)
			}
			if err := s.SetFiles([]File{{"bad", bad}, {"other", bad}}); err == nil {
				t.Error("a new list that cannot be read is taken")
			}
			if tt.mend != nil {
				if err := tt.mend(bad); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(bad+".new", before, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(bad+".new", bad); err != nil {
				t.Fatal(err)
			}
			if err := s.Reload(); err != nil {
				t.Error(err)
			}
			if !h.Known() || h.Fault() != nil || !h.HasDomain("bad.example") || !h.HasDigest(digest(SHA1, "bad.example")) {
				t.Errorf("when its file is back: known %v, fault %v", h.Known(), h.Fault())
			}
		})
	}
	// Errors that are not the fault of a file remain errors.
	if _, err := OpenSet(SetOptions{Files: []File{{"a", good}, {"a", good}}, FailOpen: true}); err == nil {
		t.Error("a name is given twice")
	}
}

// TestManySources checks that the latest sources are recorded if the file has no room for all.
func TestManySources(t *testing.T) {
	path, _ := build(t, Options{}, "a.example")
	var sources []string
	dir := t.TempDir()
	for i := range 400 {
		name := filepath.Join(dir, fmt.Sprintf("%03d%s", i, strings.Repeat("n", 200)))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, name)
	}
	if _, err := Add(t.Context(), path, 1<<30, sources, true, Options{}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	named := l.Meta().Sources
	if n := len(named); n < 100 || n >= 400 || named[n-1].Name != filepath.Base(sources[399]) ||
		named[0].Name != filepath.Base(sources[400-n]) {
		t.Errorf("%d sources are named", len(named))
	}
}

// TestSetFiles checks that lists that stay keep their handles, that a mistake changes nothing, and
// that the maximum number of lists works.
func TestSetFiles(t *testing.T) {
	a, _ := build(t, Options{}, "a.example")
	b, _ := build(t, Options{Hash: MD5}, "b.example")
	s, err := OpenSet(SetOptions{Files: []File{{"a", a}}})
	if err != nil {
		t.Fatal(err)
	}
	was := s.Handle("a")
	c, err := s.Prepare([]File{{"b", b}, {"a", a}})
	if err != nil || c.Handle("b") == nil || c.Handle("a") != was || c.Handle("c") != nil || s.Handle("b") != nil {
		t.Fatalf("prepared: %v", err)
	}
	c.Commit()
	if all := s.Handles(); len(all) != 2 || all[0].Name() != "b" || all[1] != was || s.Handle("b").Hash() != MD5 ||
		!s.Handle("b").HasDigest(digest(MD5, "b.example")) || s.Handle("b").HasDigest(digest(MD5, "c.example")) {
		t.Error("the lists are not those that were set")
	}
	if err := s.SetFiles([]File{{"a", b}}); err != nil || s.Handle("a") == was {
		t.Errorf("another file of the same name: %v", err)
	}
	var many []File
	for i := range maxLists {
		many = append(many, File{fmt.Sprint(i), a})
	}
	if err := s.SetFiles(many); err != nil || len(s.Handles()) != maxLists {
		t.Errorf("%d lists: %v", maxLists, err)
	}
	if m := s.Find(entry(t, "x.a.example")); len(m) != maxLists || m[7].List != "7" {
		t.Errorf("%d matches", len(m))
	}
	if err := s.SetFiles(append(many, File{"x", a})); err == nil || len(s.Handles()) != maxLists {
		t.Errorf("a list more: %v", err)
	}
	if _, err := OpenSet(SetOptions{Files: []File{{"a", a}}, MaxBytes: 10}); err == nil {
		t.Error("a list beyond the limit is read")
	}
}

// TestBuildKeeps checks that Build and Merge leave a file alone that is not a list, and a list where the new text
// has no entry.
func TestBuildKeeps(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("bad.txt"), "bad.example\n")
	put(t, at("none.txt"), "# nothing\n")
	put(t, at("page.txt"), "<html>\n")
	put(t, at("new.list"), "")
	good := Options{Capacity: 10}
	for _, name := range []string{"good.list", "new.list"} {
		if _, err := Build(t.Context(), at(name), []string{at("bad.txt")}, good); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, path string
		build      func(path string) error
		want       string
	}{
		{"text in place of the list", "bad.txt", func(path string) error {
			_, err := Build(t.Context(), path, []string{at("none.txt")}, good)
			return err
		}, "is not a list"},
		{"merged into a text", "bad.txt", func(path string) error {
			_, err := Merge(path, 1<<20, []string{at("good.list"), at("good.list")}, nil)
			return err
		}, "is not a list"},
		{"a folder", ".", func(path string) error {
			_, err := Build(t.Context(), path, []string{at("bad.txt")}, good)
			return err
		}, "is a directory"},
		{"no entry", "good.list", func(path string) error {
			_, err := Build(t.Context(), path, []string{at("none.txt")}, Options{})
			return err
		}, "no entry"},
		{"no line is an entry", "good.list", func(path string) error {
			_, err := Build(t.Context(), path, []string{at("page.txt")}, Options{SkipBad: true})
			return err
		}, "none of 1 lines"},
		{"no entry of a fuse list", "good.list", func(path string) error {
			_, err := Build(t.Context(), path, []string{at("none.txt")}, Options{Structure: Fuse})
			return err
		}, "no entry"},
	} {
		before, _ := os.ReadFile(at(tt.path))
		if err := tt.build(at(tt.path)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if after, _ := os.ReadFile(at(tt.path)); string(after) != string(before) {
			t.Errorf("%s: the file has changed", tt.name)
		}
	}
	like, err := Open(at("good.list"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{good, {Like: like}} {
		if _, err := Build(t.Context(), at("empty.list"), []string{at("none.txt")}, o); err != nil {
			t.Errorf("an empty list with room: %v", err)
		}
	}
}
