package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Screen is the output of a program as a terminal or a log shows it. Mail, peers and accounts choose
// much of what programs print. So control characters except line feed and tab, characters that change
// the direction of text or end a line, and bytes that are not UTF-8 are written in a visible form,
// \u001b for example. JSON means the same in that form. Its methods may not be called concurrently.
type Screen struct {
	w    io.Writer
	part []byte // of a character whose last bytes are still to be written
	err  error  // of the first write that failed; nothing is written after it
}

// NewScreen returns a Screen that writes to w.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w} }

// Write implements [io.Writer]. After a failed write it returns the same error again.
func (s *Screen) Write(text []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	all := append(s.part, text...)
	whole := len(all)
	for n := 1; n < utf8.UTFMax && n <= len(all); n++ {
		if c := all[len(all)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(all[len(all)-n:]) {
				whole -= n
			}
			break
		}
	}
	s.part = append([]byte(nil), all[whole:]...)
	if _, s.err = io.WriteString(s.w, visible(string(all[:whole]), "\n\t")); s.err != nil {
		return 0, s.err
	}
	return len(text), nil
}

// Flush writes what Write has kept of a character that was cut off. It returns the error of the first
// write that failed, also of an earlier one.
func (s *Screen) Flush() error {
	if s.err == nil && len(s.part) > 0 {
		_, s.err = io.WriteString(s.w, visible(string(s.part), ""))
		s.part = nil
	}
	return s.err
}

// Failed reports whether an earlier write to a [Screen] failed.
func Failed(w io.Writer) bool {
	s, ok := w.(*Screen)
	return ok && s.err != nil
}

// Unwrap returns the writer below a [Screen], for output that is no text and for control characters of
// the program itself, and any other writer as it is.
func Unwrap(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.w
	}
	return w
}

// Paint writes a word of the program in the colour of an escape sequence, or without one if paint is "".
func Paint(w io.Writer, paint, word string) error {
	if paint != "" {
		word = paint + word + "\x1b[0m"
	}
	_, err := io.WriteString(Unwrap(w), word)
	return err
}

// Visible returns text as a [Screen] shows it, on one line and without tabs.
func Visible(text string) string { return visible(text, "") }

// visible replaces what a [Screen] does not show, except the characters of keep.
func visible(text, keep string) string {
	var b strings.Builder
	begin := 0 // of what is not yet in b
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		broken := r == utf8.RuneError && size == 1
		if broken || hidden(r) && !strings.ContainsRune(keep, r) {
			b.WriteString(text[begin:at])
			if broken {
				fmt.Fprintf(&b, `\x%02x`, text[at])
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
			begin = at + size
		}
		at += size
	}
	if begin == 0 {
		return text
	}
	return b.String() + text[begin:]
}

// hidden reports whether a character controls a terminal, ends a line, or changes the direction of
// the text around it.
func hidden(r rune) bool {
	switch {
	case unicode.IsControl(r), r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f,
		r == 0x061c:
		return true
	}
	return false
}
