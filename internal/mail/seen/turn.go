package seen

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// A turn is a piece of the present line whose letters are shown in the other direction than those around it. A sender
// who turns words round writes them backwards, so that people read them as usual.
type turn struct {
	begin, end int  // in the text
	open       bool // the element has not ended
}

// maxTurns is the maximum number of turns of a line that are open within each other. Inner ones are not turned.
const maxTurns = 8

// beginTurn begins a turn if letters are shown in another direction than with a look. It returns how many turns the
// line has with it, 0 for none.
func (v *visible) beginTurn(around look) (n int) {
	if v.turned == around.turned {
		return 0
	}
	open := 0
	for _, t := range v.turns {
		if t.open {
			open++
		}
	}
	if open == maxTurns {
		return 0
	}
	v.turns = append(v.turns, turn{begin: len(v.dst), open: true})
	return len(v.turns)
}

// endTurn ends the innermost turn that is open, if one was begun.
func (v *visible) endTurn(begun int) {
	if begun == 0 {
		return
	}
	for i, t := range slices.Backward(v.turns) {
		if t.open {
			v.turns[i].end, v.turns[i].open = len(v.dst), false
			return
		}
	}
}

// clipTurns cuts turns at a place, behind which nothing of them is shown.
func (v *visible) clipTurns(at int) {
	for i := range v.turns {
		t := &v.turns[i]
		t.begin, t.end = min(t.begin, at), min(t.end, at)
	}
}

// turnLine turns the pieces of the present line, which has ended. Open ones go on in the next line.
//
// Source: Unicode Standard Annex 9, rule L2.
func (v *visible) turnLine() {
	if len(v.turns) == 0 {
		return
	}
	open := v.turns[:0]
	n := len(v.dst)
	if n > 0 && v.dst[n-1] == ' ' {
		n-- // which is not shown
	}
	for _, t := range slices.Backward(v.turns) { // inner ones first
		if t.open {
			t.end = n
		}
		v.reverse(t.begin, min(t.end, n))
	}
	for _, t := range v.turns {
		if t.open {
			open = append(open, t)
		}
	}
	v.turns = open
}

// reverse turns a piece of the text, and the anchors in it.
func (v *visible) reverse(begin, end int) {
	if begin >= end {
		return
	}
	atStart := begin == 0 || v.dst[begin-1] == '\n' // of a line
	if v.quotes > 0 && atStart && bytes.HasPrefix(v.dst[begin:end], []byte("> ")) {
		begin += len("> ")
	}
	if begin == end || v.pace.Over(end-begin) {
		return
	}
	piece := v.dst[begin:end]
	slices.Reverse(piece)
	for at := 0; at < len(piece); { // each letter has its bytes in order
		n := at
		for n < len(piece)-1 && n-at < utf8.UTFMax-1 && !utf8.RuneStart(piece[n]) {
			n++
		}
		slices.Reverse(piece[at : n+1])
		if mirror := mirrors[piece[at]]; mirror != 0 {
			piece[at] = mirror
		}
		at = n + 1
	}
	if v.page == nil || v.anchor.begin > begin {
		return
	}
	all := v.page.Anchors
	first := len(all)
	for first > 0 && int(all[first-1][0]) >= begin && int(all[first-1][1]) <= end {
		first--
	}
	slices.Reverse(all[first:])
	for i, a := range all[first:] {
		all[first+i] = [2]int32{int32(begin+end) - a[1], int32(begin+end) - a[0]}
	}
}

// mirrors are the brackets that have another shape from right to left.
var mirrors = [256]byte{'(': ')', ')': '(', '[': ']', ']': '[', '{': '}', '}': '{', '<': '>', '>': '<'}
