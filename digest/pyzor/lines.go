package pyzor

import (
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// minLine is the minimum length, in characters, of a normalised line that contributes to the digest.
const minLine = 8

// maxWord is the length, in characters, from which words are dropped.
const maxWord = 10

// A liner cuts the characters of a mail into lines and normalises them. From each line it removes,
// in this order, words of ten or more characters, addresses, URLs and white space. It passes on the
// wanted lines that are long enough after that. It holds no more than one line.
//
// Source: docs/specs/pyzor.md#lines and #normalisation.
type liner struct {
	wanted stretch
	// text receives a piece of a wanted line, end is called at its end.
	text func(piece []byte)
	end  func()

	marks *marks // receives the starts of lines while all lines are counted; nil while wanted lines are read
	part  int    // index of the part of the mail
	at    *int   // index in the part of the text passed in; nil or negative if unknown

	named []rune // characters with names in the text, see appendNamed

	lines  int // number of lines long enough so far
	word   [maxWord]rune
	length int    // of the word, at most maxWord
	chars  int    // length of the normalised line so far
	held   []byte // end of the line, not yet passed on
}

// maxHeld is the size in bytes from which held text is passed on. One more word needs at most
// heldSpare.
const (
	maxHeld   = 512
	heldSpare = 64
)

// done reports whether l neither wants nor counts further lines.
func (l *liner) done() bool { return l.marks == nil && l.lines >= l.wanted.behind }

// wants reports whether the present line is wanted, provided that it is long enough.
func (l *liner) wants() bool { return l.wanted.first <= l.lines && l.lines < l.wanted.behind }

// skips reports whether only the end of the present line still matters.
func (l *liner) skips() bool { return l.chars >= minLine && !l.wants() }

// put takes one character.
func (l *liner) put(r rune) {
	if !isSpace(r) && !isLineEnd(r) {
		if l.length < maxWord {
			l.word[l.length] = r
			l.length++
		}
		return
	}
	if l.length > 0 {
		l.endWord()
	}
	if isLineEnd(r) {
		l.endLine()
		l.note(0)
	}
}

// puts takes a run of characters.
func (l *liner) puts(text []byte) {
	for at := 0; at < len(text); {
		if l.skips() {
			if at = nextOf(text, at, classEnd); at == len(text) {
				return
			}
		}
		// Most characters are those of words.
		n, class := wordEnd(text, at, len(text), classSpace)
		switch {
		case n == len(text):
			putWord(l, text[at:])
			return
		case l.length == 0:
			wholeWord(l, text, at, n, class)
		default:
			putWord(l, text[at:n])
		}
		c, size := rune(text[n]), 1
		if c >= utf8.RuneSelf {
			c, size = charAt(text[n:])
		}
		if isLineEnd(c) {
			if l.endLine(); l.done() {
				return
			}
			l.note(n)
		} else if l.length > 0 {
			l.endWord()
		}
		at = n + size
	}
}

// wordEnd returns the index of the first character of text[at:stop] that is white space or has one of the classes ends,
// or stop, and the classes of the characters before it.
func wordEnd(text []byte, at, stop int, ends uint8) (end int, class uint8) {
	for at < stop {
		if c := classes[text[at]]; c&classWide == 0 {
			if c&ends != 0 {
				break
			}
			class |= c
			at++
			continue
		}
		r, size := charAt(text[at:])
		if isSpace(r) {
			break
		}
		class |= classOdd
		at += size
	}
	return at, class
}

// nextOf returns the index of the first character at or after at that belongs to class, line ends or references,
// or len(text).
func nextOf(text []byte, at int, class uint8) int {
	for at = mayEnd.Index(text, at); at < len(text); at = mayEnd.Index(text, at+1) {
		c := text[at]
		if classes[c]&class != 0 {
			break
		}
		if c >= utf8.RuneSelf { // the first byte of a line end beyond ASCII
			if r, _ := charAt(text[at:]); classOf(r)&class != 0 {
				break
			}
		}
	}
	return at
}

// mayEnd holds references and the bytes with which line ends begin.
var mayEnd = scan.NewByteSet("\n\v\f\r\x1c\x1d\x1e\xc2\xe2&")

// note records the start of the present line, at or behind a line end, that is behind bytes into the
// text passed in.
func (l *liner) note(behind int) {
	if l.marks != nil && l.lines >= l.marks.due && l.at != nil && *l.at >= 0 {
		l.marks.add(mark{line: int32(l.lines), part: int32(l.part), at: int32(*l.at + behind)})
	}
}

// wholeWord takes text[at:end], a word between white space or at an end of a run that white space
// follows. class has the classes of its characters. It does the work of putWord and endWord, in one
// step if the word is plain.
func wholeWord(l *liner, text []byte, at, end int, class uint8) {
	switch {
	case class&classOdd != 0:
		putWord(l, text[at:end])
		l.endWord()
	case end-at >= maxWord:
	case l.counts(end - at):
		const most = 16 // at least maxWord
		if n := len(l.held); len(text)-at >= most && cap(l.held)-n >= most {
			// A copy of constant size needs two instructions.
			copy(l.held[n:n+most], text[at:at+most])
			l.held = l.held[:n+end-at]
		} else {
			l.held = append(l.held, text[at:end]...)
		}
		if len(l.held) >= maxHeld {
			l.passAll()
		}
	}
}

// counts adds characters to the length of the line, and reports whether the line is wanted.
func (l *liner) counts(chars int) bool {
	l.chars += chars
	return l.wants()
}

// passAll passes on the held text once the line is long enough.
func (l *liner) passAll() {
	if len(l.held) > 0 && l.chars >= minLine {
		l.text(l.held)
		l.held = l.held[:0]
	}
}

// putWord takes characters of a word, without white space.
func putWord(l *liner, text []byte) {
	for len(text) > 0 && l.length < maxWord {
		r, size := charAt(text)
		l.word[l.length] = r
		l.length++
		text = text[size:]
	}
}

func (l *liner) endWord() {
	word := l.word[:l.length]
	l.length = 0
	if len(word) == maxWord || isAddress(word) {
		return
	}
	word = word[:urlStart(word)]
	if !l.counts(len(word)) {
		return
	}
	for _, r := range word {
		if r >= firstName {
			r = l.named[r-firstName]
		}
		// Halves of surrogate pairs, which a few charsets let through, count as
		// characters and vanish here.
		if r < 0xd800 || r > 0xdfff {
			l.held = utf8.AppendRune(l.held, r)
		}
	}
	if len(l.held) >= maxHeld {
		l.passAll()
	}
}

// endLine ends a line; every text ends one.
func (l *liner) endLine() {
	if l.length > 0 {
		l.endWord()
	}
	if l.chars >= minLine {
		if l.wants() {
			l.passAll()
			l.end()
		}
		l.lines++
	}
	l.chars, l.held = 0, l.held[:0]
}
