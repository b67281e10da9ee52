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
	percentP = [6]float64{12.697333199579043, 29.519721770148998, 40.880072625837435, 63.80603906538068, 74.58894923155158, 93.5640391425596}
	percentQ = [2]float64{48.20129910469131, 99.3694709983668}
	percentR = [2]float64{6.936760106619211, 83.68207679890247}
)

// engine4 is engine 4: the hash of two stretches of the text, or of all of it if
// they are short. It reports whether what was hashed is empty.
func engine4(text []byte) (sig bulkhead.Signature, empty bool) {
	lines := bytes.Split(text, []byte{'\n'})
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	n := float64(len(lines))
	at := func(i int) int { return int(math.Floor(float64(percentP[i]*n) / 100)) }
	one := section(lines, at(1), at(2), percentQ)
	two := section(lines, at(3), at(4), percentR)
	input := text
	if len(one)+len(two) > 128 {
		if len(one) > 0 && len(two) > 0 && allBlank(one) && allBlank(two) {
			one, two = nil, nil
		}
		input = append(one, two...)
	}
	sum := sha1.Sum(input)
	return bulkhead.MustSignature(bulkhead.RazorE4, sum[:]), len(input) == 0
}

// isVoid says whether line k counts as missing.
func isVoid(lines [][]byte, k int) bool {
	return k >= len(lines) || len(lines[k]) == 0 || string(lines[k]) == "0"
}

// section picks one stretch from the lines first to last:
// docs/specs/razor2.md#sections. The walk is the client's, literally: a column of
// zero is set again on the next line.
func section(lines [][]byte, first, last int, q [2]float64) []byte {
	total := 0
	for k := first; k <= last; k++ {
		if !isVoid(lines, k) {
			total += len(lines[k])
		}
	}
	from := int(math.Floor(float64(q[0]*float64(total)) / 100))
	to := int(math.Floor(float64(q[1]*float64(total)) / 100))
	var sum, startCol, startLine, endCol, endLine int
	for k := first; k <= last && endCol == 0; k++ {
		if isVoid(lines, k) {
			continue
		}
		sum += len(lines[k])
		if sum > from && startCol == 0 {
			startCol, startLine = len(lines[k])-(sum-from), k
		}
		if sum > to {
			endCol, endLine = len(lines[k])-(sum-to), k
		}
	}
	startCol, endCol = max(startCol, 0), max(endCol, 0)
	var section []byte
	if startLine == endLine {
		if isVoid(lines, startLine) || startCol >= len(lines[startLine]) {
			return nil
		}
		return append(section, lines[startLine][startCol:min(endCol+1, len(lines[startLine]))]...)
	}
	section = append(section, lines[startLine][startCol:]...)
	for k := startLine + 1; k < endLine; k++ {
		section = append(section, lines[k]...)
	}
	return append(section, lines[endLine][:endCol]...)
}
