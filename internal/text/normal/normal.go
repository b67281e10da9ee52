// Package normal brings text into Unicode's compatibility normal forms like
// golang.org/x/text/unicode/norm, but faster where characters stand for several others. One
// such character, a few bytes, may stand for eighteen, and norm looks up and reorders each of
// them every time. This package remembers what a character stands for.
package normal

import (
	"math"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

const (
	pageSize = 1 << 8
	maxPages = (utf8.MaxRune + 1) / pageSize
)

// A Form is a normal form.
type Form struct {
	form  norm.Form
	parts *Form // NFKD
	pages [maxPages]atomic.Pointer[page]
}

// A page holds 256 characters.
type page struct {
	text  [pageSize]string // the normal form, "" for the character itself
	class [pageSize]uint8  // the canonical combining class
	apt   [pageSize]bool   // to change together with what stands before it
}

// same is the page of characters that are normal and stand apart.
var same page

// NewForm returns form, which is NFKC or NFKD.
func NewForm(form norm.Form) *Form {
	f := &Form{form: form}
	if f.parts = f; form != norm.NFKD {
		f.parts = NewForm(norm.NFKD)
	}
	return f
}

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
		p.class[i] = f.form.PropertiesString(s).CCC()
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
	for len(text) > 0 {
		var n int
		dst, n = f.AppendSome(dst, text, math.MaxInt)
		text = text[n:]
	}
	return dst
}

// AppendSome appends the normal form of so much of the beginning of text, which is not empty,
// that it has most bytes or a little more, or of all of it. It returns how many bytes of text
// that is: those that follow do not join them.
func (f *Form) AppendSome(dst, text []byte, most int) (normal []byte, n int) {
	whole, rest := cut(text)
	if len(whole) == 0 {
		return append(dst, rest...), len(rest)
	}
	return f.complete(dst, whole, most)
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

// complete is [Form.AppendSome] of text that does not end in the middle of a character of
// four bytes.
func (f *Form) complete(dst, text []byte, most int) ([]byte, int) {
	at := 0
	for begin := len(dst); at < len(text) && len(dst)-begin < most; {
		ascii := at
		for ascii < len(text) && text[ascii] < utf8.RuneSelf {
			ascii++
		}
		if ascii == len(text) {
			return append(dst, text[at:]...), ascii
		}
		if ascii > at+1 { // the last one may join what follows
			dst = append(dst, text[at:ascii-1]...)
			at = ascii - 1
		}
		n := f.segment(text[at:])
		if r, size := scan.Rune(text[at:]); size < n {
			dst = f.joined(dst, r, text[at+size:at+n])
		} else if normal := f.page(r).text[r%pageSize]; normal != "" {
			dst = append(dst, normal...)
		} else {
			dst = append(dst, text[at:at+n]...)
		}
		at += n
	}
	return dst, at
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
	if dst, ok := f.ordered(dst, head[last:], marks); ok {
		return dst
	}
	return append(dst, f.form.Bytes(append([]byte(head[last:]), marks...))...)
}

// A part is a character and its combining class.
type part struct {
	rune  rune
	class uint8
}

// ordered appends the normal form of characters that join, by Unicode's canonical ordering
// and canonical composition. It leaves to the library what is composed by
// arithmetic (Hangul) and what is so long that the library cuts it.
func (f *Form) ordered(dst []byte, head string, marks []byte) ([]byte, bool) {
	var room [30]part
	all := room[:0]
	for _, r := range head {
		if all = f.insert(all, r); all == nil {
			return dst, false
		}
	}
	for len(marks) > 0 {
		r, size := utf8.DecodeRune(marks)
		marks = marks[size:]
		if all = f.insert(all, r); all == nil {
			return dst, false
		}
	}
	if f.form == norm.NFKC {
		all = composed(all)
	}
	for _, p := range all {
		dst = utf8.AppendRune(dst, p.rune)
	}
	return dst, true
}

// insert adds what a character decomposes to, each part behind those of no higher class. It
// returns nil if there is no room for it, or ordered leaves it to the library.
func (f *Form) insert(all []part, r rune) []part {
	whole := f.parts.page(r).text[r%pageSize]
	if whole == "" {
		whole = string(r)
	}
	for _, r := range whole {
		if hangul(r) || len(all) == cap(all) {
			return nil
		}
		all = append(all, part{r, f.parts.page(r).class[r%pageSize]})
		for i := len(all) - 1; i > 0 && all[i].class > 0 && all[i-1].class > all[i].class; i-- {
			all[i], all[i-1] = all[i-1], all[i]
		}
	}
	return all
}

// composed joins each character with the last of class 0 before it, if they have one in
// common and nothing between keeps them apart.
func composed(all []part) []part {
	pairs := pairs()
	starter := -1
	n := 0
	for _, p := range all {
		if starter >= 0 {
			// Of what stands between, the last has the highest class.
			if between := n - 1 - starter; between == 0 || all[n-1].class < p.class {
				if whole, ok := pairs[[2]rune{all[starter].rune, p.rune}]; ok {
					all[starter].rune = whole
					continue
				}
			}
		}
		if all[n] = p; p.class == 0 {
			starter = n
		}
		n++
	}
	return all[:n]
}

func hangul(r rune) bool { return 0x1100 <= r && r < 0x1200 || 0xac00 <= r && r < 0xd7b0 }

// pairs returns what two characters compose to.
var pairs = sync.OnceValue(func() map[[2]rune]rune {
	all := make(map[[2]rune]rune)
	for _, span := range compositions {
		for r := span[0]; r < span[1]; r++ {
			s := string(r)
			parts := norm.NFD.String(s)
			if parts != s && norm.NFC.String(s) == s {
				last, size := utf8.DecodeLastRuneInString(parts)
				first, _ := utf8.DecodeRuneInString(norm.NFC.String(parts[:len(parts)-size]))
				all[[2]rune{first, last}] = r
			}
		}
	}
	return all
})

// compositions are where characters stand that others compose to.
var compositions = [...][2]rune{{0xa0, 0x3400}, {0x10000, 0x20000}}

// segment returns how many bytes at the start of text have a normal form of their own: up
// to a character that does not join what stands before it.
func (f *Form) segment(text []byte) int {
	r, n := scan.Rune(text)
	if r == utf8.RuneError && n == 1 {
		return n // not a character, so nothing joins it
	}
	for n < len(text) {
		if text[n] < utf8.RuneSelf {
			break
		}
		r, size := scan.Rune(text[n:])
		if r == utf8.RuneError && size == 1 || !f.page(r).apt[r%pageSize] {
			break
		}
		n += size
	}
	return n
}
