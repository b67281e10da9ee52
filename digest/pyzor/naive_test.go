package pyzor

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// naiveLines returns the lines that Signatures counts, normalised: of each, words of
// ten and more characters, addresses, URLs and white space are removed.
func naiveLines(text []rune) (lines []string) {
	for len(text) > 0 {
		end := slices.IndexFunc(text, isLineEnd)
		if end < 0 {
			end = len(text)
		}
		var normal []rune
		for line := text[:end]; len(line) > 0; {
			n := slices.IndexFunc(line, isSpace)
			if n < 0 {
				n = len(line)
			}
			if word := line[:n]; n < 10 && !isAddress(word) {
				normal = append(normal, word[:urlStart(word)]...)
			}
			line = line[min(n+1, len(line)):]
		}
		if len(normal) >= 8 {
			lines = append(lines, string(normal))
		}
		text = text[min(end+1, len(text)):]
	}
	return lines
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to
// break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 4000 {
		text := bytes.ToValidUTF8(mailtest.Text(r), []byte("\u0085"))
		for _, whole := range []int{0, 1 << 20} { // as it comes, and only what is wanted
			var got []string
			var line []byte
			l := &liner{wanted: stretch{0, 1 << 20}, text: func(b []byte) { line = append(line, b...) },
				end: func() { got, line = append(got, string(line)), nil }}
			if whole == 0 {
				l.puts(text)
			} else {
				for _, r := range string(text) {
					l.put(r)
				}
			}
			l.endLine()
			if want := naiveLines([]rune(string(text))); !slices.Equal(got, want) || l.lines != len(want) {
				t.Fatalf("lines of %q: %q, want %q", text, got, want)
			}
		}
	}
}

// TestLinesFromMarks holds the lines that are read from marks on to those among all lines.
func TestLinesFromMarks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	charsets := []string{"utf-8", "utf_8_sig", "us-ascii", "iso-8859-1", "koi8-r", "gb18030", "euc-jp",
		"iso-2022-jp", "hz", "utf-7", "utf-16", "utf-16be", "utf-32", "cp037"}
	extra := []string{"\n", "\x1b$B$3$3\x1b(B", "\x1b$B$3\n", "~{VPND~}", "~{VP\n", "+AOQ-", "+AOQ\n", "\ufeff",
		"&NewLine;", "&ampx\vy;", "<p>", "<b x=y>", "<br>\n", "<script>", "</script>", "<!-- \n -->", "<", "<1>",
		"a longer line of words", "\u0085"}
	several := 0
	for range 600 {
		mail := []byte("Content-Type: multipart/mixed; boundary=b\n\n")
		for range 1 + r.IntN(3) {
			charset := charsets[r.IntN(len(charsets))]
			kind := []string{"text/plain", "text/html", "text/html", "application/x"}[r.IntN(4)]
			var text []byte
			for range 1 + r.IntN(12)*r.IntN(12) {
				text = append(text, mailtest.Text(r)...)
				text = append(text, extra[r.IntN(len(extra))]...)
			}
			if charset == "utf-16be" {
				var wide []byte
				for _, c := range text {
					wide = append(wide, 0, c)
				}
				text = wide
			}
			mail = fmt.Appendf(mail, "--b\nContent-Type: %s; charset=%s\n\n%s\n", kind, charset, text)
		}
		var want []string
		var line []byte
		reader := newReader(mail, nil, new(space))
		all := &liner{marks: new(marks), wanted: stretch{0, 1 << 30},
			text: func(b []byte) { line = append(line, b...) }, end: func() { want, line = append(want, string(line)), nil }}
		all.marks.due = 1 << 30
		reader.lines(all, mark{})
		if n := len(want); n > 4 {
			several++
			want = slices.Concat(want[n/5:n/5+3], want[n*3/5:min(n*3/5+3, n)])
		}
		got, ok, err := Lines(t.Context(), mail)
		if err != nil || ok == reader.bad || ok && !slices.Equal(got, want) {
			t.Fatalf("%q: lines %q, %v, %v; want %q, %v", mail, got, ok, err, want, !reader.bad)
		}
	}
	if several < 200 {
		t.Errorf("%d mails of more than four lines", several)
	}
}

// TestPlainTag checks that wherever the fast scan finds the end of a tag, the general scans find the same end.
func TestPlainTag(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 8))
	pieces := []string{" ", " a", "a", "-", "=", "=\"", "='", "\"", "'", "x", "/", ">", "=\"b\"", " href='c d'",
		"\n", "\v", "\xa0", "\x00", "<"}
	plain := 0
	for range 60_000 {
		in := []byte("<p")
		for range r.IntN(9) {
			in = append(in, pieces[r.IntN(len(pieces))]...)
		}
		h := &stripper{in: in}
		nameEnd := h.tagName(1)
		end, ok := h.plainTag(nameEnd)
		if !ok {
			continue
		}
		plain++
		k := h.spaceAndSlash(nameEnd)
		for next, found := h.attribute(k, false); found; next, found = h.attribute(k, false) {
			k = next
		}
		if whole := h.wholeTag(0); whole != end || k != end-1 || in[k] != '>' {
			t.Fatalf("%q ends at %d, its attributes at %d; want %d", in, end, k, whole)
		}
	}
	if plain < 6_000 {
		t.Errorf("%d plain tags", plain)
	}
}

// TestDecodeFast holds the ways to decode many bytes at a time to those that take one after the other.
func TestDecodeFast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"=", "==", "=3D", "=c3=A4", "=\n", "=\r\n", "=\rx\n", "=\r", "=4", "=4x", "word",
		"a longer run of letters, which is copied at once, until there is an end to it, and then some more", "QUJD",
		"QUJDRA==", "Q", "=", "\n", "\xff", " "}
	for range 20_000 {
		var in []byte
		for range r.IntN(12) {
			in = append(in, pieces[r.IntN(len(pieces))]...)
		}
		room := make([]byte, r.IntN(200))
		if got, want := decodeQuotedPrintable(room, in, nil), naiveQuotedPrintable(in); string(got) != string(want) {
			t.Fatalf("%q is %q, want %q", in, got, want)
		}
		if got, want := decodeBase64(room, in, nil), naiveBase64(in); string(got) != string(want) {
			t.Fatalf("base64 %q is %q, want %q", in, got, want)
		}
		at := r.IntN(len(in) + 1)
		if got, want := nextOf(in, at, classEnd|classReference),
			at+bytes.IndexFunc(append(in[at:len(in):len(in)], '\n'), func(c rune) bool {
				return c == '&' ||
					isLineEnd(c)
			}); got != want {
			t.Fatalf("%q from %d on: %d, want %d", in, at, got, want)
		}
	}
}

func naiveQuotedPrintable(in []byte) (out []byte) {
	for len(in) > 0 {
		c := in[0]
		if in = in[1:]; c != '=' {
			out = append(out, c)
			continue
		}
		switch {
		case len(in) == 0:
		case in[0] == '\n', in[0] == '\r':
			for len(in) > 0 && in[0] != '\n' {
				in = in[1:]
			}
			in = in[min(1, len(in)):]
		case in[0] == '=':
			out, in = append(out, '='), in[1:]
		default:
			if v, err := hex.DecodeString(string(in[:min(2, len(in))])); err == nil && len(v) == 1 {
				out, in = append(out, v[0]), in[2:]
			} else {
				out = append(out, '=')
			}
		}
	}
	return out
}

func naiveBase64(in []byte) (out []byte) {
	bits, digits, pads := 0, 0, 0
	for _, c := range append(slices.Clone(in), "=="...) {
		v := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c)
		switch {
		case c == '=':
			if digits%4 >= 2 {
				if pads++; digits%4+pads >= 4 {
					return out
				}
			}
		case v >= 0:
			bits, digits, pads = bits<<6|v, digits+1, 0
			if digits%4 != 1 {
				out = append(out, byte(bits>>(6-2*((digits-1)%4))))
			}
		}
	}
	if digits%4 == 0 {
		return out
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(in, []byte("\n"), nil), []byte("\r"), nil)
}

// TestChars: every character, halves of pairs too, is read as it was appended, and back to its beginning.
func TestChars(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		text := appendChar([]byte("x"), r)
		got, size := charAt(text[1:])
		if got != r || size != len(text)-1 || sizeAt(text, 1) != size || charBefore(text, len(text)) != 1 {
			t.Fatalf("%U is %x, which is %U of %d bytes", r, text, got, size)
		}
		if space := spaceAt(text, 1); space != 0 != isSpace(r) || space != 0 && space != size {
			t.Fatalf("%U is %d bytes of white space", r, space)
		}
	}
}

// TestKnownReferences: references that are kept mean what they do anew.
func TestKnownReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	names := []string{"nbsp", "amp", "lt", "LT", "nGt", "eacute", "zwnj", "fjlig", "acE", "not", "notit", "bogus",
		"a", "1", "abcdefgh", "CounterClockwiseContourIntegral", "é", ""}
	ends := []string{"", ";", " ", "<", "&", "#", "x", "é", "\t", "="}
	var known references
	for range 50_000 {
		rest := []byte(names[r.IntN(len(names))] + ends[r.IntN(len(ends))] + ends[r.IntN(len(ends))])
		got, n := known.of(rest)
		if want, size := reference(rest); string(got) != string(want) || n != size {
			t.Fatalf("&%s is %q, of %d bytes, want %q of %d", rest, string(got), n, string(want), size)
		}
	}
}

// TestNamedChars: a large page of which the characters get shorter names has the lines that it has in UTF-8.
func TestNamedChars(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	pieces := []string{"\uff71\uff72\uff73", "\uff71", "\uff9f\uff9f ", "\uff74\uff75\uff76\uff77 \uff78\uff79",
		"<br>", "<p a='\uff71'>", "word", " ", "\uff71\n\uff72", "&lt;\uff71", "&#x5d0;", ":\uff71", "a@\uff71",
		"\uff66:x", "&\uff71;", "</\uff71>", "<\uff71>"}
	for range 3 {
		var single, whole []byte
		for len(single) < 700<<10 {
			piece := pieces[r.IntN(len(pieces))]
			if r.IntN(3) > 0 {
				piece = pieces[r.IntN(4)]
			}
			whole = append(whole, piece...)
			for _, c := range piece {
				if c >= 0xff61 {
					c -= 0xff61 - 0xa1
				}
				single = append(single, byte(c))
			}
		}
		got, ok, err := Lines(t.Context(), append([]byte("Content-Type: text/html; charset=shift_jis\n\n"), single...))
		want, wantOK, _ := Lines(t.Context(), append([]byte("Content-Type: text/html; charset=utf-8\n\n"), whole...))
		if !ok || !wantOK || err != nil || len(got) != 6 || !slices.Equal(got, want) {
			t.Fatalf("%d lines, %v, %v: %.200q, want %d: %.200q", len(got), ok, err, got, len(want), want)
		}
	}
}
