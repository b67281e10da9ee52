package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// collect reads path to its end and describes messages and errors, one a line.
func collect(t *testing.T, path string, opts Options) string {
	t.Helper()
	var lines []string
	for m, err := range Read(t.Context(), path, opts) {
		if err != nil {
			if m != nil {
				t.Fatalf("message beside the error %v", err)
			}
			lines = append(lines, "! "+err.Error())
			continue
		}
		at := "-"
		if !m.Time.IsZero() {
			at = m.Time.Format(time.RFC3339)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %q", m.Name(), m.Label, at, m.Raw))
	}
	if path == "-" {
		return strings.Join(lines, "\n")
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), filepath.Clean(path), "$")
}

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const box = "From ann@example.com Thu Feb  1 10:00:00 2024\nSubject: 1\n\none\n>From here\n>>From there\n" +
	"From inside\n\n" +
	"From bob@example.com Thu Feb  1 11:00:00 2024 +0100\nSubject: 2\n\ntwo\n"

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		path  string
		want  string
	}{
		{"mbox", map[string]string{"box": box}, "box",
			`$ ham 2024-02-01T10:00:00Z "Subject: 1\n\none\nFrom here\n>From there\nFrom inside\n"` + "\n" +
				`$:99 ham 2024-02-01T10:00:00Z "Subject: 2\n\ntwo\n"`},
		{"mbox with CRLF", map[string]string{"box": strings.ReplaceAll(box, "\n", "\r\n")}, "box",
			`$ ham 2024-02-01T10:00:00Z "Subject: 1\r\n\r\none\r\nFrom here\r\n>From there\r\nFrom inside\r\n"` + "\n" +
				`$:107 ham 2024-02-01T10:00:00Z "Subject: 2\r\n\r\ntwo\r\n"`},
		{"single message is no mbox", map[string]string{"a.eml": box}, "a.eml", `$ ham - ` + fmt.Sprintf("%q", box)},
		{"message of unknown name",
			map[string]string{"a": "Received: by x; Thu, 1 Feb 2024 09:00:00 +0000\nDate: Thu, 1 Feb 2024 08:00:00 +0000\n\nx"},
			"a",
			`$ ham 2024-02-01T09:00:00Z "Received: by x; Thu, 1 Feb 2024 09:00:00 +0000\n` +
				`Date: Thu, 1 Feb 2024 08:00:00 +0000\n\nx"`},
		{"date only",
			map[string]string{
				"a": "Received: by x; never\nDate: Thu,\n 1 Feb 2024 08:00:00 +0000\n\nReceived: y; Thu, 1 Feb 2024 " +
					"09:00:00 +0000\n"}, "a",
			`$ ham 2024-02-01T08:00:00Z "Received: by x; never\nDate: Thu,\n 1 Feb 2024 08:00:00 +0000\n\n` +
				`Received: y; Thu, 1 Feb 2024 09:00:00 +0000\n"`},
		{"folder", map[string]string{"b.EML": "B: b\n", "a.eml": "A: a\n", "c.txt": "no", "d.eml/x": ""}, "",
			"$/a.eml ham - \"A: a\\n\"\n$/b.EML ham - \"B: b\\n\""},
		{"Maildir", map[string]string{"cur/1706778000.M2.host:2,S": "A: 2\n", "new/1706774400.M1.host": "A: 1\n",
			"cur/odd": "A: 0\n", "tmp/x": "no"}, "",
			"$/cur/odd ham - \"A: 0\\n\"\n$/new/1706774400.M1.host ham 2024-02-01T08:00:00Z \"A: 1\\n\"\n" +
				"$/cur/1706778000.M2.host:2,S ham 2024-02-01T09:00:00Z \"A: 2\\n\""},
		{"index", map[string]string{"index.tsv": "file\tlabel\ttime\tmore\nb\tspam\t2024-02-01T10:00:00+01:00\tx\na\t\t\n\n",
			"a": "A: a\n", "b": "From b\n"}, "",
			"$/b spam 2024-02-01T10:00:00+01:00 \"From b\\n\"\n$/a ham - \"A: a\\n\""},
		{"bad index", map[string]string{"index.tsv": "label\tfile\r\nspam\t../x\r\njunk\ta\r\nspam\tnone\r\nspam\ta\r\n",
			"a": "A: a\n"}, "",
			"! mailbox: $/index.tsv: line 2: file \"../x\" is not in the folder\n" +
				"! mailbox: $/index.tsv: line 3: label \"junk\", want ham or spam\n" +
				"! mailbox: open $/none: no such file or directory\n$/a spam - \"A: a\\n\""},
		{"bad time", map[string]string{"index.tsv": "file\ttime\na\tyesterday\n", "a": "A: a\n"}, "",
			"! mailbox: $/index.tsv: line 2: time \"yesterday\" is not RFC 3339"},
		{"index without files", map[string]string{"index.tsv": "name\n"}, "",
			"! mailbox: $/index.tsv: line 1: no column called file"},
		{"empty index", map[string]string{"index.tsv": ""}, "", "! mailbox: $/index.tsv: line 1: no column names"},
		{"long row", map[string]string{"index.tsv": "file\n" + strings.Repeat("x", maxRow)}, "",
			"! mailbox: $/index.tsv: line 2: bufio.Scanner: token too long"},
		{"index that lists a folder", map[string]string{"index.tsv": "file\nd\n", "d/x": ""}, "",
			"! mailbox: $/d: a folder, want a message"},
		{"absent", nil, "nothing", "! mailbox: stat $: no such file or directory"},
		{"no mail", map[string]string{"x.txt": "x"}, "",
			"! mailbox: $: no mail here: want index.tsv, cur, new or *.eml files"},
		{"empty file", map[string]string{"a.eml": ""}, "a.eml", "! mailbox: $: empty file, want a message"},
		{"long message", map[string]string{"a.eml": strings.Repeat("x", 301)}, "a.eml",
			"! mailbox: $: message longer than 300 bytes"},
		{"long message in mbox", map[string]string{"box": "From a\nA: 1\n" + strings.Repeat("x", 301) +
			"\n\nFrom b Thu Feb  1 11:00:00 2024\nB: 2\n"},
			"box",
			"! mailbox: $: offset 0: message longer than 300 bytes\n$:315 ham 2024-02-01T11:00:00Z \"B: 2\\n\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := collect(t, filepath.Join(tree(t, tt.files), tt.path), Options{Label: Ham, MaxBytes: 300})
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestColumns checks that a row of an index is passed on by the names of its columns.
func TestColumns(t *testing.T) {
	dir := tree(t, map[string]string{"index.tsv": "file\tkind\tlast\na\tx y\tz\nb\tw\n", "a": "A: a\n", "b": "B: b\n",
		"c.eml": "C: c\n"})
	var got []map[string]string
	for _, path := range []string{dir, filepath.Join(dir, "c.eml")} {
		for m, err := range Read(t.Context(), path, Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Columns)
		}
	}
	want := []map[string]string{{"file": "a", "kind": "x y", "last": "z"}, {"file": "b", "kind": "w"}, nil}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
}

func TestReadStdin(t *testing.T) {
	if got := collect(t, "-", Options{Stdin: strings.NewReader(box)}); strings.Count(got, "Subject") != 2 {
		t.Errorf("mbox on standard input: got %s", got)
	}
	if got, want := collect(t, "-", Options{Stdin: strings.NewReader("A: b\n\nc")}), `-  - "A: b\n\nc"`; got != want {
		t.Errorf("message on standard input: got %s, want %s", got, want)
	}
	broken := io.MultiReader(strings.NewReader(box), iotest.ErrReader(errors.New("cable cut")))
	if got, want := collect(t, "-", Options{Stdin: broken}),
		"! mailbox: -: offset 167: cable cut"; !strings.HasSuffix(got, want) {
		t.Errorf("broken input: got %s, want it to end with %s", got, want)
	}
}

func TestReadStops(t *testing.T) {
	dir := tree(t, map[string]string{"box": box})
	n := 0
	for range Read(t.Context(), filepath.Join(dir, "box"), Options{}) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d messages after a break, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	n = 0
	for _, err := range Read(ctx, filepath.Join(dir, "box"), Options{}) {
		n++
		last = err
		cancel()
	}
	if n != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("after cancel: %d items, last error %v; want 2 and the context's error", n, last)
	}
}

// TestMboxRoundTrip writes random messages as an mbox and reads them again.
func TestMboxRoundTrip(t *testing.T) {
	line := rapid.OneOf(rapid.StringMatching(`[a-z ]{0,12}`), rapid.StringMatching(`>{0,3}From [a-z]{0,5}`),
		rapid.Just(""))
	escape := regexp.MustCompile(`(?m)^(>*From )`)
	rapid.Check(t, func(t *rapid.T) {
		var want []string
		var file bytes.Buffer
		for range rapid.IntRange(1, 5).Draw(t, "messages") {
			text := "Subject: x\n\n" + strings.Join(rapid.SliceOfN(line, 0, 8).Draw(t, "lines"), "\n") + "\n"
			want = append(want, text)
			file.WriteString("From a@example.com Thu Feb  1 10:00:00 2024\n" + escape.ReplaceAllString(text, ">$1") + "\n")
		}
		file.Truncate(file.Len() - rapid.IntRange(0, 1).Draw(t, "last empty line left out"))
		size := file.Len()
		var got []string
		whole := bytes.Clone(file.Bytes())
		b := newMbox(iotest.OneByteReader(&file), 1<<20)
		for {
			raw, from, offset, err := b.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(whole[offset:], from) || !startsFrom(from) {
				t.Fatalf("offset %d of %d does not point at the From line %q", offset, size, from)
			}
			got = append(got, string(raw))
		}
		if len(want) > 0 && len(got) == len(want) && got[len(got)-1]+"\n" == want[len(want)-1] {
			got[len(got)-1] += "\n" // the file ended in the middle of two line ends
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// TestCorpus reads a labelled collection whole.
func TestCorpus(t *testing.T) {
	dir := sharedtest.Unpack(t, "phishing-2004-2005")
	n := 0
	var before time.Time
	for m, err := range Read(t.Context(), dir, Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Label != Spam || m.Time.Before(before) || len(m.Raw) == 0 {
			t.Fatalf("%s: label %q, time %v after %v, %d bytes", m.Name(), m.Label, m.Time, before, len(m.Raw))
		}
		before = m.Time
		n++
	}
	if n != 852 {
		t.Errorf("%d messages, want 852", n)
	}
}

// FuzzMbox checks that any bytes are split without loss: the messages and their From lines
// make up the input, except for escapes and empty lines.
func FuzzMbox(f *testing.F) {
	f.Add([]byte(box))
	f.Add([]byte(strings.ReplaceAll(box, "\n", "\r\n")))
	f.Add([]byte("From \n\nFrom \n\n\nFrom x"))
	f.Add([]byte("\xef\xbb\xbf\r\nFrom a\n\nFrom b Thu Feb  1 11:00:00 2024\n\n"))
	f.Add([]byte("From a\n>From b\n\n>>From c\n\nFromage\n\nFrom d"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newMbox(bytes.NewReader(data), 1<<10)
		total, last := 0, int64(-1)
		for {
			raw, from, offset, err := b.next()
			if errors.Is(err, io.EOF) {
				break
			}
			var long *tooLongError
			if err != nil && !errors.As(err, &long) {
				t.Fatal(err)
			}
			if offset <= last || int(offset) >= len(data) {
				t.Fatalf("offset %d after %d, of %d bytes", offset, last, len(data))
			}
			if len(raw) > 1<<10 {
				t.Fatalf("message of %d bytes, limit %d", len(raw), 1<<10)
			}
			if err == nil && !bytes.HasPrefix(data[offset:], from) {
				t.Fatalf("no From line at offset %d", offset)
			}
			last = offset
			total += len(raw)
		}
		if total > len(data) {
			t.Fatalf("%d bytes of messages from %d", total, len(data))
		}
	})
}
