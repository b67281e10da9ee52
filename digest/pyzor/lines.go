package pyzor

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// minLine is the number of characters of a normalised line that counts.
const minLine = 8

// maxWord is the number of characters from which on a word does not count.
const maxWord = 10

// A liner takes the characters of a mail one by one, cuts them into lines,
// removes from each, in this order, words of ten or more characters, addresses,
// URLs and white space, and passes on the lines that are long enough after that,
// if they are wanted. It keeps no more than the line it passes on.
//
// Source: docs/specs/pyzor.md#lines and #normalisation.
type liner struct {
	wanted stretch
	// text takes a piece of a line that is wanted, end its end.
	text func(piece []byte)
	end  func()

	marks *marks // for who counts all lines, to note where they begin; nil for who reads those that are wanted
	part  int    // of the mail
	at    *int   // where in the part what is passed on now stands; nil or below 0 if that is not known

	named []rune // characters that the text names, see appendNamed

	lines  int // that counted
	word   [maxWord]rune
	length int    // of the word, maxWord if it is longer
	chars  int    // of the line so far, normalised
	held   []byte // of the line, not yet passed on
}

// maxHeld is about how many bytes of a line are held, to be passed on together. A word more
// takes heldSpare at most.
const (
	maxHeld   = 512
	heldSpare = 64
)

// done reports whether no more lines are wanted, for who does not count them.
func (l *liner) done() bool { return l.marks == nil && l.lines >= l.wanted.behind }

// wants reports whether the present line is wanted, if it counts.
func (l *liner) wants() bool { return l.wanted.first <= l.lines && l.lines < l.wanted.behind }

// skips reports whether nothing of the present line matters any more but its end.
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
		n, class := plainEnd(text, at, len(text))
		for n < len(text) && classes[text[n]]&(classSpace|classWide) == 0 {
			class |= classes[text[n]]
			n++
		}
		if n < len(text) && text[n] >= utf8.RuneSelf {
			n, class = wordEnd(text, n, len(text), classSpace, class)
		}
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

// plainEnd returns where in text, from at on, what belongs to a word at sight ends, before stop, and the class of odd characters
// if there may be one before that.
func plainEnd(text []byte, at, stop int) (end int, class uint8) {
	// Eight at a time, up to a blank or one below, beyond ASCII, or "&".
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(text)-at >= 8 && at < stop {
		eight := binary.LittleEndian.Uint64(text[at:])
		reference, address, colon := eight^'&'*ones, eight^'@'*ones, eight^':'*ones
		ends := ((eight-(' '+1)*ones)&^eight | (reference-ones)&^reference | eight) & high
		odd := ((address-ones)&^address | (colon-ones)&^colon) & high
		if odd&(ends-1)&^ends != 0 {
			class = classOdd
		}
		if ends != 0 {
			at += bits.TrailingZeros64(ends) / 8
			break
		}
		at += 8
	}
	return min(at, stop), class
}

// wordEnd returns where in text, from at on, the next character is that is white space or of one of the classes ends, stop
// if there is none before, and the classes of the characters up to there together with those of class.
func wordEnd(text []byte, at, stop int, ends, class uint8) (int, uint8) {
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

// nextOf returns where a character of a class, an end of lines or a reference, is next in text from at on, its length
// if there is none.
func nextOf(text []byte, at int, class uint8) int {
	// Eight at a time, up to one below a blank, beyond ASCII, or "&".
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for at < len(text) {
		if len(text)-at >= 8 {
			eight := binary.LittleEndian.Uint64(text[at:])
			reference := eight ^ '&'*ones
			marked := ((eight-' '*ones)&^eight | (reference-ones)&^reference | eight) & high
			if marked == 0 {
				at += 8
				continue
			}
			at += bits.TrailingZeros64(marked) / 8
		}
		c := text[at]
		if classes[c]&class != 0 {
			return at
		}
		if c == 0xc2 || c == 0xe2 { // with which the other ends of lines begin
			if r, _ := charAt(text[at:]); classOf(r)&class != 0 {
				return at
			}
		}
		at++
	}
	return at
}

// note notes that the present line begins at or behind a line end, so many bytes behind where
// what is passed on begins.
func (l *liner) note(behind int) {
	if l.marks != nil && l.lines >= l.marks.due && l.at != nil && *l.at >= 0 {
		l.marks.add(mark{line: int32(l.lines), part: int32(l.part), at: int32(*l.at + behind)})
	}
}

// wholeWord takes a word of text, from at up to end, that stands between white space, or the ends of a run, which white
// space follows. class has the classes of its characters. It does what putWord and endWord do, at once if the word is plain.
func wholeWord(l *liner, text []byte, at, end int, class uint8) {
	switch {
	case class&classOdd != 0:
		putWord(l, text[at:end])
		l.endWord()
	case end-at >= maxWord:
	case l.counts(end - at):
		const most = 16 // at least maxWord
		if n := len(l.held); len(text)-at >= most && cap(l.held)-n >= most {
			// As much, whatever the length, is two steps.
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

// counts counts characters of the line, and reports whether they are wanted.
func (l *liner) counts(chars int) bool {
	l.chars += chars
	return l.wants()
}

// passAll passes on what is held, if it is known that the line counts.
func (l *liner) passAll() {
	if len(l.held) > 0 && l.chars >= minLine {
		l.text(l.held)
		l.held = l.held[:0]
	}
}

// putWord takes characters of a word: none of them is white space.
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
