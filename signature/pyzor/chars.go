package pyzor

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
)

// A char is a character in one of the widths in which texts are kept.
type char interface{ byte | uint16 | rune }

// charText are characters, each in as many bytes as the widest of them needs.
// The zero value is empty.
type charText struct {
	width  int // of a character, in bytes: 1, 2 or 4; 0 before the first
	narrow []byte
	wide   []uint16
	full   []rune
}

// reset removes the characters, and keeps the memory of the last width.
func (t *charText) reset() {
	*t = charText{narrow: t.narrow[:0], wide: t.wide[:0], full: t.full[:0]}
}

// reserve makes room for n characters of which r is the widest.
func (t *charText) reserve(n int, r rune) {
	t.widen(r)
	switch t.width {
	case 1:
		t.narrow = slices.Grow(t.narrow, n)
	case 2:
		t.wide = slices.Grow(t.wide, n)
	default:
		t.full = slices.Grow(t.full, n)
	}
}

// widen changes to a width that r fits into.
func (t *charText) widen(r rune) {
	need := 4
	if r < 0x100 {
		need = 1
	} else if r < 0x10000 {
		need = 2
	}
	if need <= t.width {
		return
	}
	switch {
	case t.width == 0:
	case need == 2:
		t.wide = appendChars(t.wide, t.narrow, cap(t.narrow))
	case t.width == 1:
		t.full = appendChars(t.full, t.narrow, cap(t.narrow))
	default:
		t.full = appendChars(t.full, t.wide, cap(t.wide))
	}
	t.width = need
	// Of the other widths only little memory is kept.
	if need != 1 {
		t.narrow = fewChars(t.narrow)
	}
	if need != 2 {
		t.wide = fewChars(t.wide)
	}
	if need != 4 {
		t.full = fewChars(t.full)
	}
}

// fewChars returns the memory of characters if it is for few of them.
func fewChars[T char](chars []T) []T {
	if cap(chars) > pace.Step {
		return nil
	}
	return chars[:0]
}

// appendChars appends characters, and makes room for as many as room.
func appendChars[To, From char](to []To, from []From, room int) []To {
	to = slices.Grow(to, max(room, len(from)))
	for _, c := range from {
		to = append(to, To(c))
	}
	return to
}

func (t *charText) put(r rune) {
	if t.width == 1 && r < 0x100 {
		t.narrow = append(t.narrow, byte(r))
		return
	}
	t.widen(r)
	switch t.width {
	case 1:
		t.narrow = append(t.narrow, byte(r))
	case 2:
		t.wide = append(t.wide, uint16(r))
	default:
		t.full = append(t.full, r)
	}
}

// puts appends characters of ASCII.
func (t *charText) puts(text []byte) {
	t.widen(0)
	switch t.width {
	case 1:
		t.narrow = append(t.narrow, text...)
	case 2:
		t.wide = appendChars(t.wide, text, 0)
	default:
		t.full = appendChars(t.full, text, 0)
	}
}

// strip passes the text of HTML on to l, from a mark in it on, see stripper. It reports false
// where the client's parser breaks.
func (t *charText) strip(l *liner, p *pace.Pace, from mark) bool {
	switch t.width {
	case 2:
		return stripHTML(t.wide, l, p, from)
	case 4:
		return stripHTML(t.full, l, p, from)
	}
	return stripHTML(t.narrow, l, p, from)
}
