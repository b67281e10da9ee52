package pyzor

import "unicode/utf8"

// minLine is the number of characters of a normalised line that counts.
const minLine = 8

// maxWord is the number of characters from which on a word does not count.
const maxWord = 10

// A liner takes the characters of a mail one by one, cuts them into lines,
// removes from each, in this order, words of ten or more characters, addresses,
// URLs and white space, and passes on the lines that are long enough after that.
// It keeps no more than the line it passes on.
//
// Source: docs/specs/pyzor.md#lines and #normalisation.
type liner struct {
	// wants says whether a line, by its number among those that count, is passed
	// on; nil passes all on.
	wants func(line int) bool
	// text takes a piece of such a line, end its end.
	text func(piece []byte)
	end  func()

	lines  int // that counted
	word   [maxWord]rune
	length int    // of the word, maxWord if it is longer
	chars  int    // of the line so far, normalised
	held   []byte // of the line, not yet passed on
}

// maxHeld is about how many bytes of a line are held, to be passed on together.
const maxHeld = 512

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
	}
}

// puts takes a run of characters.
func (l *liner) puts(text []byte) {
	for len(text) > 0 {
		// Most characters are those of words.
		n := 0
		for n < len(text) && text[n] > ' ' && text[n] < 0x7f {
			n++
		}
		switch {
		case n == len(text):
			putWord(l, text)
			return
		case l.length == 0 && isSpace(text[n]):
			wholeWord(l, text[:n])
		default:
			putWord(l, text[:n])
		}
		l.put(rune(text[n]))
		text = text[n+1:]
	}
}

// wholeWord takes a word that stands between white space, or the ends of a run, which white
// space follows. It does what putWord and endWord do, at once if the word is plain.
func wholeWord[T char](l *liner, word []T) {
	if len(word) >= maxWord {
		return
	}
	for _, c := range word {
		if c == '@' || c == ':' || c >= utf8.RuneSelf || c < 0 {
			putWord(l, word)
			l.endWord()
			return
		}
	}
	if l.counts(len(word)) {
		for _, c := range word {
			l.held = append(l.held, byte(c))
		}
		l.pass()
	}
}

// counts counts characters of the line, and reports whether they are wanted.
func (l *liner) counts(chars int) bool {
	known := l.chars >= minLine
	l.chars += chars
	return l.text != nil && (!known || l.wants == nil || l.wants(l.lines))
}

// pass passes on what is held, if it is much.
func (l *liner) pass() {
	if len(l.held) >= maxHeld {
		l.passAll()
	}
}

// passAll passes on what is held, if it is known that the line counts.
func (l *liner) passAll() {
	if len(l.held) > 0 && l.chars >= minLine && (l.wants == nil || l.wants(l.lines)) {
		l.text(l.held)
		l.held = l.held[:0]
	}
}

// putWord takes characters of a word: none of them is white space.
func putWord[T char](l *liner, text []T) {
	for _, c := range text[:min(len(text), maxWord-l.length)] {
		l.word[l.length] = rune(c)
		l.length++
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
		// Halves of surrogate pairs, which a few charsets let through, count as
		// characters and vanish here.
		if r < 0xd800 || r > 0xdfff {
			l.held = utf8.AppendRune(l.held, r)
		}
	}
	l.pass()
}

// endLine ends a line; every text ends one.
func (l *liner) endLine() {
	if l.length > 0 {
		l.endWord()
	}
	if l.chars >= minLine {
		l.passAll()
		if l.end != nil && (l.wants == nil || l.wants(l.lines)) {
			l.end()
		}
		l.lines++
	}
	l.chars, l.held = 0, l.held[:0]
}
