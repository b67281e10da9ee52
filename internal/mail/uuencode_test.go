package mail

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestEncodedInText checks that a file within a text is read as an attachment. A text in it is no part of the text
// around it.
func TestEncodedInText(t *testing.T) {
	code := func(name, content string) string {
		return "begin 644 " + name + "\r\n" + uuencoded([]byte(content), '`', false) + "`\r\nend\r\n"
	}
	long := strings.Repeat("See http://a.example/x now. ", 9)
	const shout = "begin 644 a\nMAKE MONEY FAST WITH THIS AMAZING OFFER TODAY\n"
	shouted, _ := decodeUUE([]byte(shout), nil)
	for _, tt := range []struct{ text, want, files string }{
		{"one\r\n\r\n" + code("a.txt", long) + "two\r\n", "one\r\n\r\ntwo\r\n", `["text/plain a.txt ` + long + `"]`},
		{code("a.html", "<p>word</p>") + code("b c.bin", "\x00\x01"), code("b c.bin", "\x00\x01"),
			`["text/html a.html <p>word</p>" "application/octet-stream b c.bin \x00\x01"]`},
		{"begin 600 a\n" + strings.ReplaceAll(uuencoded([]byte("x"), ' ', true), "\r", ""), "", `["text/plain a x"]`},
		{"one\nbegin 644 a\nwe met again\nend\n", "one\nbegin 644 a\nwe met again\nend\n", `[]`},
		{shout, shout, fmt.Sprintf("[%q]", "application/octet-stream a "+string(shouted))},
		{"begin the day 1\nbegin 644\nbegin 999 a\n", "begin the day 1\nbegin 644\nbegin 999 a\n", `[]`},
		{"begin 644 a\nno\nbegin 644 b\n#86)C\n`\nend\nz", "begin 644 a\nno\nz", `["text/plain b abc"]`},
	} {
		m := mailtest.Must(Read(t.Context(), []byte("Subject: x\n\n"+tt.text)))
		if text := mailtest.Must(m.Visible(t.Context(), 0)); string(text) != tt.want {
			t.Errorf("%q: text %q, want %q", tt.text, text, tt.want)
		}
		files := []string{}
		all := mailtest.Must(m.WithInside(t.Context()))
		for _, in := range all[1:] {
			for _, p := range in.Parts {
				files = append(files, fmt.Sprintf("%s %s %s%s", p.Type, p.Name, p.Text, p.Data))
			}
		}
		if fmt.Sprintf("%q", files) != tt.files {
			t.Errorf("%q: files %q, want %s", tt.text, files, tt.files)
		}
	}
	m := mailtest.Must(Read(t.Context(), []byte("Subject: x\n\n"+code("a.txt", long))))
	links := 0
	err := m.EachLink(t.Context(), func(_ link.Link, use LinkUse) bool {
		links++
		return use == FollowedLink
	})
	if err != nil || links != 9 {
		t.Errorf("%d links, %v", links, err)
	}
}

// FuzzCode checks that a text without its files consists of lines of the text, and how large the files are.
func FuzzCode(f *testing.F) {
	for _, s := range []string{"a\nbegin 644 b\n#86)C\n`\nend\nc", "begin 644 a\nbegin 644 b\nend\n",
		"begin 0644 x\r\nM\r\n",
		"begin 644 \n", "begin 644 a\n" + strings.Repeat("M"+strings.Repeat("`", 60)+"\n", 3),
		"begin 644 a\n" + strings.Repeat("&\n", 99)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before, size := bytes.Clone(text), 0
		rest := withoutCode(text, nil, func(_ string, data []byte) bool {
			size += len(data)
			return true
		})
		if len(rest) > len(text) || size > 3*len(text) || !bytes.Equal(text, before) {
			t.Fatalf("%d bytes and %d of files of %d", len(rest), size, len(text))
		}
		for line := range bytes.Lines(rest) {
			if !bytes.Contains(text, line) {
				t.Fatalf("%q is no line of %q", line, text)
			}
		}
	})
}
