package razor

import (
	"bytes"
	"crypto/sha1"
	"math"

	"github.com/bulkhead-mail/bulkhead"
)

// The percentages that seed 7542 gives: docs/specs/razor2.md#random-numbers. drand
// computes them in the test. Elements 0 and 5 of P are never used.
var (
	percentP = [6]float64{12.697333199579043, 29.519721770148998, 40.880072625837435, 63.80603906538068,
		74.58894923155158, 93.5640391425596}
	percentQ = [2]float64{48.20129910469131, 99.3694709983668}
	percentR = [2]float64{6.936760106619211, 83.68207679890247}
)

// engine4 is engine 4: the hash of two stretches of the text, or of all of it if
// they are short. It reports whether what was hashed is empty.
func engine4(text []byte) (sig bulkhead.Signature, empty bool) {
	const short = 128
	if len(text) <= short/2 { // a line is in both at most
		sum := sha1.Sum(text)
		return bulkhead.MustSignature(bulkhead.RazorE4, sum[:]), len(text) == 0
	}
	lines := linesOf(text)
	n := float64(lines.len())
	at := func(i int) int { return int(math.Floor(float64(percentP[i]*n) / 100)) }
	both := lines.appendSection(make([]byte, 0, len(text)/4), at(1), at(2), percentQ)
	first := len(both)
	both = lines.appendSection(both, at(3), at(4), percentR)
	input := text
	if len(both) > short {
		input = both
		if one, two := both[:first], both[first:]; len(one) > 0 && len(two) > 0 && allBlank(one) && allBlank(two) {
			input = nil
		}
	}
	sum := sha1.Sum(input)
	return bulkhead.MustSignature(bulkhead.RazorE4, sum[:]), len(input) == 0
}

// lines iterates over the lines of a text, without the empty lines at its end.
type lines struct {
	text   []byte
	starts []int32 // of each, and of one more behind the last
}

func linesOf(text []byte) lines {
	text = bytes.TrimRight(text, "\n")
	starts := make([]int32, 1, bytes.Count(text, []byte{'\n'})+2)
	for at := 0; at < len(text); {
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			at += n + 1
		} else {
			at = len(text) + 1
		}
		starts = append(starts, int32(at))
	}
	return lines{text, starts}
}

func (l *lines) len() int { return len(l.starts) - 1 }

// at returns line k, without its end.
func (l *lines) at(k int) []byte { return l.text[l.starts[k] : l.starts[k+1]-1] }

// size returns how long line k is, 0 if it counts as missing.
func (l *lines) size(k int) int {
	if k >= l.len() {
		return 0
	}
	n := int(l.starts[k+1]-l.starts[k]) - 1
	if n == 1 && l.text[l.starts[k]] == '0' {
		return 0
	}
	return n
}

// appendSection appends one stretch from the lines first to last:
// docs/specs/razor2.md#sections. The walk is the client's, literally: a column of
// zero is set again on the next line.
func (l *lines) appendSection(dst []byte, first, last int, q [2]float64) []byte {
	total := 0
	for k := first; k <= last; k++ {
		total += l.size(k)
	}
	from := int(math.Floor(float64(q[0]*float64(total)) / 100))
	to := int(math.Floor(float64(q[1]*float64(total)) / 100))
	var sum, startCol, startLine, endCol, endLine int
	for k := first; k <= last && endCol == 0; k++ {
		size := l.size(k)
		if size == 0 {
			continue
		}
		sum += size
		if sum > from && startCol == 0 {
			startCol, startLine = size-(sum-from), k
		}
		if sum > to {
			endCol, endLine = size-(sum-to), k
		}
	}
	startCol, endCol = max(startCol, 0), max(endCol, 0)
	if startLine == endLine {
		if size := l.size(startLine); startCol < size {
			return append(dst, l.at(startLine)[startCol:min(endCol+1, size)]...)
		}
		return dst
	}
	for k := startLine; k <= endLine; k++ {
		line := l.at(k)
		if k == endLine {
			line = line[:endCol]
		} else if k == startLine {
			line = line[startCol:]
		}
		dst = append(dst, line...)
	}
	return dst
}
