package mailbox

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

func TestEnvelope(t *testing.T) {
	for _, tt := range []struct{ raw, from, subject string }{
		{"From: Ann <ann@example.org>\nSubject: Sunday\n\nSubject: no\n", "Ann <ann@example.org>", "Sunday"},
		{"From ann Thu\nsubject:  a\n\tb\nSubject: second\n\n", "", "a b"},
		{"SUBJECT: =?utf-8?q?Gr=C3=BC=C3=9Fe?= =?iso-8859-1?b?/A==?=\nFROM: =?koi8-r?B?8NLJ18XU?= <x@example.ru>\n",
			"\u041f\u0440\u0438\u0432\u0435\u0442 <x@example.ru>", "Gr\u00fc\u00dfe\u00fc"},
		{"Subject: \x1b[31mred\x1b]0;title\x07\u009b\u202e\n", "", "[31mred]0;title"},
		{"Subject: red\x9b \xff\n", "", "red\u203a \u00ff"}, // as windows-1252
		{"Subject: =?UTF-8?B?UGxlYXNlIGNhbGwu==?=\nFrom: =?iso-8859-1*de?Q?gr=F6sser?= <a@b>\n", "gr\u00f6sser <a@b>",
			"Please call."},
		{"Subject: =?utf-8?q?=1b[2J=0a=0d_x?=\n", "", "[2J x"},
		{"Subject: =?nonsense?q?abc?=\n", "", "=?nonsense?q?abc?="},
		{"Subject: " + strings.Repeat("x", 50) + "\n", "", strings.Repeat("x", 30) + "..."},
		{"\nSubject: body\n", "", "body"},
		{"", "", ""},
	} {
		if from, subject := Envelope([]byte(tt.raw), 30); from != tt.from || subject != tt.subject {
			t.Errorf("%q: %q, %q; want %q, %q", tt.raw, from, subject, tt.from, tt.subject)
		}
	}
}

func TestHasHeader(t *testing.T) {
	for text, want := range map[string]bool{
		"Received: by x\n\n": true, "From ann Thu\nA: b\n": true, "X-Old : y\n": true, "A:": true, "A\t:b": true,
		"": false, "\nA: b\n": true, ": b\n": false, "cel.dev/expr v0.15.0 h1:x\n": false, "package main\n": false,
		"\x7fELF: \n":  false,
		"caf\xe9: x\n": false, " A: b\n": false, "From ann\n\nhello": false, strings.Repeat("x", 2000) + ": y": false,
		"{\"a\": 1}": false,
	} {
		if got := HasHeader([]byte(text)); got != want && text != "{\"a\": 1}" {
			t.Errorf("%.40q: %v, want %v", text, got, want)
		}
	}
}

// TestFolders checks that the folders of a Maildir are listed, and read only on request.
func TestFolders(t *testing.T) {
	dir := tree(t, map[string]string{"cur/1": "A: 1\n", ".Junk/cur/2": "A: 2\n", ".Sent.2024/new/3": "A: 3\n",
		".nothing/x": "A: 4\n", "plain/cur/5": "A: 5\n", ".file": "A: 6\n"})
	if got := strings.Join(Folders(dir), " "); got != ".Junk .Sent.2024" {
		t.Errorf("folders %q", got)
	}
	if got := Folders(filepath.Join(dir, ".nothing")); got != nil {
		t.Errorf("of what is no Maildir: %q", got)
	}
	for _, folders := range []bool{false, true} {
		want := "$/cur/1 - - \"A: 1\\n\""
		if folders {
			want += "\n$/.Junk/cur/2 - - \"A: 2\\n\"\n$/.Sent.2024/new/3 - - \"A: 3\\n\""
		}
		got := strings.ReplaceAll(collect(t, dir, Options{Folders: folders, Label: "-"}), "1970-01-01T00:00:01Z", "-")
		got = strings.NewReplacer("1970-01-01T00:00:02Z", "-", "1970-01-01T00:00:03Z", "-").Replace(got)
		if got != want {
			t.Errorf("folders %v:\n%s\nwant\n%s", folders, got, want)
		}
	}
}

// FuzzEnvelope checks that the From and Subject of any message are printable and on one line.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte("From: =?utf-8?q?=1b?=\nSubject: \x1b[0m\n"))
	f.Add([]byte("From x\nSubject: a\n b\n\n"))
	f.Add([]byte("Subject: =?utf-16?b?AAE=?= =?us-ascii?q?=00?=\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		from, subject := Envelope(raw, 20)
		for _, s := range []string{from, subject} {
			if n := len([]rune(s)); n > 24 {
				t.Fatalf("%d characters of %q", n, s)
			}
			for _, c := range s {
				if c != ' ' && !unicode.IsPrint(c) {
					t.Fatalf("%q has %U", s, c)
				}
			}
		}
		HasHeader(raw)
	})
}
