package pyzor

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"sync"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// Empty is the digest of a message without a line left. Very many unrelated messages share it, so
// it must never be learnt.
const Empty = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

// Signatures returns the digest that the Pyzor client of Debian 12 (pyzor 1.0.0 on
// Python 3.11) sends for a mail, or no signature if the digest is [Empty],
// if that client breaks on the mail and sends none, or if the characters of a page
// take more memory than the mail and 4 MiB. It fails only when ctx ends,
// with an error that wraps that of ctx. Source: docs/specs/pyzor.md#digest.
func Signatures(ctx context.Context, raw []byte) ([]bulkhead.Signature, error) {
	return SignaturesKnowing(ctx, raw, nil)
}

// SignaturesKnowing is [Signatures], without decoding again what is known already: unquoted, if
// not nil, returns the decoded form of the first size bytes of a quoted-printable body, or size
// 0. Every equals sign in these bytes must begin an escape or a soft line end.
func SignaturesKnowing(ctx context.Context, raw []byte, unquoted func(body []byte) (text []byte,
	size int)) ([]bulkhead.Signature, error) {
	sum, ok, err := sumOf(ctx, raw, unquoted)
	if err != nil || !ok || hex.EncodeToString(sum[:]) == Empty {
		return nil, err
	}
	return []bulkhead.Signature{bulkhead.MustSignature(bulkhead.PyzorDigest, sum[:])}, nil
}

// Sum returns the digest itself, the empty one included. It reports false
// where the client stops with an error of its own: marked sections of an unknown
// kind in HTML, and parameters that its MIME library cannot put in order. Its
// errors are those of [Signatures].
func Sum(ctx context.Context, raw []byte) (sum [sha1.Size]byte, ok bool, err error) {
	return sumOf(ctx, raw, nil)
}

func sumOf(ctx context.Context, raw []byte, unquoted unquoter) (sum [sha1.Size]byte, ok bool, err error) {
	h := sha1.New()
	ok, err = digestOf(ctx, raw, unquoted, func(piece []byte) { h.Write(piece) }, func() {})
	if err != nil || !ok {
		return sum, false, err
	}
	return [sha1.Size]byte(h.Sum(nil)), true, nil
}

// Lines returns the lines that are hashed, in order, as "pyzor predigest"
// prints them: docs/specs/pyzor.md#lines to #selection. Its errors are those of [Signatures].
func Lines(ctx context.Context, raw []byte) (lines []string, ok bool, err error) {
	var line []byte
	ok, err = digestOf(ctx, raw, nil, func(piece []byte) { line = append(line, piece...) }, func() {
		lines = append(lines, string(line))
		line = line[:0]
	})
	if err != nil || !ok {
		return nil, false, err
	}
	return lines, true, nil
}

// An unquoter is what [SignaturesKnowing] is given.
type unquoter func(body []byte) (text []byte, size int)

// A mail of few lines is hashed whole.
const fewLines = 4

// maxKept bounds the first few lines, which are kept until it is known whether there are more,
// in bytes.
const maxKept = 256 << 10

// A space is reusable working space.
type space struct {
	own   []byte // for a body that is decoded
	chars []byte // of a page
	named []rune // see appendNamed
	kept  []byte // the first lines
	held  []byte // of a line
	known references
}

// spaces pools working space. It holds no state.
var spaces = sync.Pool{New: func() any { return new(space) }}

// maxSpare is the maximum size, in bytes, of the memory of a space that is reused.
const maxSpare = 512 << 10

// back returns s to the pool.
func (s *space) back() {
	if cap(s.own)+cap(s.chars)+cap(s.kept) <= maxSpare {
		spaces.Put(s)
	}
}

// digestOf calls text with the pieces of each line that is hashed, and end at
// its end. Which lines these are is known when all have been counted, for which the beginning
// of most is enough.
func digestOf(ctx context.Context, raw []byte, unquoted unquoter, text func(piece []byte), end func()) (ok bool,
	err error) {
	p := pace.New(ctx)
	own := spaces.Get().(*space)
	defer own.back()
	r := newReader(raw, p, own)
	r.unquoted = unquoted
	own.kept = own.kept[:0]
	if own.held == nil {
		own.held = make([]byte, 0, maxHeld+heldSpare)
	}
	var ends []int
	all := &liner{
		marks:  &marks{n: 1, step: 1, due: 1},
		wanted: stretch{0, fewLines},
		held:   own.held,
		text: func(piece []byte) {
			if len(own.kept) <= maxKept {
				own.kept = append(own.kept, piece...)
			}
		},
		end: func() { ends = append(ends, len(own.kept)) },
	}
	r.lines(all, mark{})
	switch {
	case r.bad || p.Err() != nil:
	case all.lines <= fewLines && len(own.kept) <= maxKept:
		at := 0
		for _, n := range ends {
			text(own.kept[at:n])
			end()
			at = n
		}
	default:
		for _, s := range wantedLines(all.lines) {
			from := all.marks.before(s.first)
			r.lines(&liner{text: text, end: end, wanted: s, lines: int(from.line), held: own.held}, from)
		}
	}
	if err := pace.Ended(p); err != nil {
		return false, err
	}
	return !r.bad, nil
}

// A stretch is lines of a mail, by their numbers among those that count, from first on and
// before behind.
type stretch struct{ first, behind int }

// wantedLines returns which lines of a mail are hashed: all if they are few, else
// three at a fifth and three at three fifths of it. Source:
// docs/specs/pyzor.md#selection.
func wantedLines(lines int) []stretch {
	if lines <= fewLines {
		return []stretch{{0, lines}}
	}
	fifth, three := lines/5, 60*lines/100
	return []stretch{{fifth, fifth + 3}, {three, min(three+3, lines)}}
}

// A mark is where a line of a mail begins, so that it can be read again from there.
type mark struct {
	line int32 // its number
	part int32 // which of the leaves it is in
	// Where in the part, what has its transfer encoding undone; in a page where in its
	// characters, which the text between tags goes on from up to end, with references or
	// without.
	at, end    int32
	references bool
}

// marks are the marks of one mail: its beginning, and a bounded number of lines at about equal
// distances.
type marks struct {
	all  [64]mark
	n    int
	step int // lines between two of them
	due  int // the number of the next line that gets one
}

func (m *marks) add(one mark) {
	if m.n == len(m.all) {
		m.n /= 2
		for i := range m.n {
			m.all[i] = m.all[2*i]
		}
		m.step *= 2
	}
	m.all[m.n] = one
	m.n++
	m.due = int(one.line) + m.step
}

// before returns the last mark that is not behind a line.
func (m *marks) before(line int) mark {
	n := m.n - 1
	for int(m.all[n].line) > line {
		n--
	}
	return m.all[n]
}

// Classes of characters, as Pyzor treats them.
const (
	classSpace = 1 << iota
	classEnd   // of a line
	classReference
	classOdd  // in a word of which not all counts, or not as it is
	classWide // a byte of another character than one of ASCII
)

// classes holds the class of each ASCII character, and of each byte of other characters.
var classes = func() (table [256]uint8) {
	for c := range table {
		switch {
		case c >= utf8.RuneSelf:
			table[c] = classWide
		case c == '@' || c == ':':
			table[c] = classOdd
		}
	}
	table['&'] = classReference
	for _, c := range []byte(" \t\x1f") {
		table[c] = classSpace
	}
	for _, c := range []byte("\n\v\f\r\x1c\x1d\x1e") {
		table[c] = classSpace | classEnd
	}
	return table
}()

// classOf returns the class of a character.
func classOf(r rune) uint8 {
	if r < utf8.RuneSelf {
		return classes[uint8(r)]
	}
	return wideClass(r)
}

func wideClass(r rune) uint8 {
	switch {
	case r == 0x85, r == 0x2028, r == 0x2029:
		return classSpace | classEnd
	case isWideSpace(r):
		return classSpace
	}
	return classOdd
}

// isLineEnd reports whether r ends a line: docs/specs/pyzor.md#lines.
func isLineEnd(r rune) bool { return classOf(r)&classEnd != 0 }

// isSpace reports whether r is white space: docs/specs/pyzor.md#normalisation.
func isSpace(r rune) bool { return classOf(r)&classSpace != 0 }

func isWideSpace(r rune) bool {
	switch {
	case r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f,
		r == 0x3000:
		return true
	}
	return false
}

// isAddress reports whether a word has an "@" that is neither its first nor its last character.
func isAddress(word []rune) bool {
	for i := 1; i < len(word)-1; i++ {
		if word[i] == '@' {
			return true
		}
	}
	return false
}

// urlStart returns where the letters of "letters:something" start in a word, or
// the length of the word.
func urlStart(word []rune) int {
	for i := 1; i < len(word)-1; i++ {
		if word[i] != ':' || !isLetter(word[i-1]) {
			continue
		}
		for i > 0 && isLetter(word[i-1]) {
			i--
		}
		return i
	}
	return len(word)
}

// isLetter reports whether r folds to a letter from a to z. Four characters outside of ASCII do, too,
// such as the Kelvin sign.
func isLetter(r rune) bool {
	return r|0x20 >= 'a' && r|0x20 <= 'z' || r == 0x130 || r == 0x131 || r == 0x17f || r == 0x212a
}
