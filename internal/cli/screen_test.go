package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzScreen checks for any text, written in any two pieces, that a screen shows no character that
// controls a terminal or changes the direction of text, that it leaves other text as it is, and that
// what it shows depends on the text alone.
func FuzzScreen(f *testing.F) {
	for _, seed := range []string{"plain\ttext\n", "\x1b[31mred\a", "\u009b31m", "a\u202eb\u2066c\u2069", "\xff\xc3",
		"é€😀", "a\u2028b\u2029c\r\nd\x7f", "\xf0\x9f\x98"} {
		f.Add(seed, len(seed)/2)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var whole, parts bytes.Buffer
		s := NewScreen(&whole)
		s.Write([]byte(text))
		s.Flush()
		cut = min(max(cut, 0), len(text))
		s = NewScreen(&parts)
		s.Write([]byte(text[:cut]))
		s.Write([]byte(text[cut:]))
		s.Flush()
		if whole.String() != parts.String() {
			t.Fatalf("%q at once, %q in two pieces", whole.String(), parts.String())
		}
		if !utf8.Valid(whole.Bytes()) {
			t.Errorf("%q is not UTF-8", whole.String())
		}
		for _, r := range whole.String() {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("%U is shown of %q", r, text)
			}
		}
		clean := utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && r != '\t' && hidden(r)
		})
		if clean != (whole.String() == text) {
			t.Errorf("%q is shown as %q", text, whole.String())
		}
		if line := Visible(text); strings.ContainsAny(line, "\n\t") {
			t.Errorf("%q has more than one line", line)
		}
	})
}

// TestScreenJSON checks that JSON has the same meaning on a screen.
func TestScreenJSON(t *testing.T) {
	in := []string{"\x1b[0m", "\u009b", "\u202e\u2066", "a\nb\tc\x7f", "\xff"}
	var out bytes.Buffer
	s := NewScreen(&out)
	if err := json.NewEncoder(s).Encode(in); err != nil {
		t.Fatal(err)
	}
	var back, plain []string
	direct, _ := json.Marshal(in)
	if err := json.Unmarshal(direct, &plain); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || !slices.Equal(back, plain) {
		t.Errorf("%s: %q, %v; want %q", out.Bytes(), back, err, plain)
	}
}

// TestPaint checks that a program's own colours reach the terminal.
func TestPaint(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out)
	Paint(s, "\x1b[32m", "ok")
	Paint(s, "", "ok")
	if want := "\x1b[32mok\x1b[0mok"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
