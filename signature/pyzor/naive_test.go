package pyzor

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/signature/internal/mailtest"
)

// naiveLines returns the lines that Signatures counts, normalised: of each, words of
// ten and more characters, addresses, URLs and white space are removed.
func naiveLines(text []rune) (lines []string) {
	for len(text) > 0 {
		end := slices.IndexFunc(text, isLineEnd[rune])
		if end < 0 {
			end = len(text)
		}
		var normal []rune
		for line := text[:end]; len(line) > 0; {
			n := slices.IndexFunc(line, isSpace[rune])
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
		text := mailtest.Text(r)
		for _, whole := range []int{0, 1 << 20} { // as it comes, and only what is wanted
			var got []string
			var line []byte
			l := &liner{text: func(b []byte) { line = append(line, b...) }, end: func() { got, line = append(got, string(line)), nil }}
			if whole == 0 {
				l.puts(text)
			} else {
				for _, r := range string(text) {
					l.put(r)
				}
			}
			l.endLine()
			runes := []rune(string(text))
			if whole == 0 {
				runes = runes[:0]
				for _, c := range text {
					runes = append(runes, rune(c))
				}
			}
			if want := naiveLines(runes); !slices.Equal(got, want) || l.lines != len(want) {
				t.Fatalf("lines of %q: %q, want %q", text, got, want)
			}
		}
	}
}
