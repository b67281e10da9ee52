// Package normal brings text into Unicode's compatibility normal forms like
// golang.org/x/text/unicode/norm, but faster where characters stand for several others. One
// such character, a few bytes, may stand for eighteen, and norm looks up and reorders each of
// them every time. This package remembers what a character stands for.
package normal

import (
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	pageSize = 1 << 8
	maxPages = (utf8.MaxRune + 1) / pageSize
)

// A Form is a normal form.
type Form struct {
	form  norm.Form
	pages [maxPages]atomic.Pointer[page]
}

// A page holds 256 characters.
type page struct {
	text [pageSize]string // the normal form, "" for the character itself
	apt  [pageSize]bool   // to change together with what stands before it
}

// same is the page of characters that are normal and stand apart.
var same page

// NewForm returns form, which is NFKC or NFKD.
func NewForm(form norm.Form) *Form { return &Form{form: form} }

func (f *Form) page(r rune) *page {
	at := &f.pages[r/pageSize]
	if p := at.Load(); p != nil {
		return p
	}
	p := new(page)
	for i := range p.text {
		s := string(r/pageSize*pageSize + rune(i))
		if normal := f.form.String(s); normal != s {
			p.text[i] = normal
		}
		// The forms differ in what joins, and are cut at the same places: where neither joins.
		p.apt[i] = !norm.NFKC.PropertiesString(norm.NFKD.String(s)).BoundaryBefore()
	}
	if *p == same {
		p = &same
	}
	at.Store(p)
	return p
}

// Append appends the normal form of text to dst, whatever is there.
func (f *Form) Append(dst, text []byte) []byte {
	text, rest := cut(text)
	return append(f.complete(dst, text), rest...)
}

// cut cuts off an unfinished character of four bytes at the end, which the library takes as
// it is.
func cut(text []byte) (head, rest []byte) {
	for i := max(0, len(text)-3); i < len(text); i++ {
		if text[i]&0xF8 == 0xF0 {
			return text[:i], text[i:]
		}
	}
	return text, nil
}

// complete is [Form.Append] of text that does not end in the middle of a character of four
// bytes.
func (f *Form) complete(dst, text []byte) []byte {
	for len(text) > 0 {
		ascii := 0
		for ascii < len(text) && text[ascii] < utf8.RuneSelf {
			ascii++
		}
		if ascii == len(text) {
			return append(dst, text...)
		}
		if ascii > 1 { // the last one may join what follows
			dst = append(dst, text[:ascii-1]...)
			text = text[ascii-1:]
		}
		n := f.segment(text)
		if r, size := utf8.DecodeRune(text); size < n {
			dst = f.joined(dst, r, text[size:n])
		} else if normal := f.page(r).text[r%pageSize]; normal != "" {
			dst = append(dst, normal...)
		} else {
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}

// joined appends the normal form of a character and what joins it. Of what the character
// stands for, only the last joins.
func (f *Form) joined(dst []byte, r rune, marks []byte) []byte {
	head := f.page(r).text[r%pageSize]
	if head == "" {
		head = string(r)
	}
	last := len(head)
	for last > 0 {
		r, size := utf8.DecodeLastRuneInString(head[:last])
		if last -= size; !f.page(r).apt[r%pageSize] {
			break
		}
	}
	dst = append(dst, head[:last]...)
	var room [64]byte
	tail := append(append(room[:0], head[last:]...), marks...)
	if f.form.IsNormal(tail) {
		return append(dst, tail...)
	}
	return append(dst, f.form.Bytes(tail)...)
}

// segment returns how many bytes at the start of text have a normal form of their own: up
// to a character that does not join what stands before it.
func (f *Form) segment(text []byte) int {
	r, n := utf8.DecodeRune(text)
	if r == utf8.RuneError && n == 1 {
		return n // not a character, so nothing joins it
	}
	for n < len(text) {
		if text[n] < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size == 1 || !f.page(r).apt[r%pageSize] {
			break
		}
		n += size
	}
	return n
}
