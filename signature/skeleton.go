package signature

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/normal"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of a skeleton.
const (
	maxWords     = 4096  // words of one list of a skeleton; as many more are shown beside
	maxWordASCII = 24    // letters of a Latin word; longer ones are tokens made by machines
	maxWord      = 72    // letters of a word in another script (Hangul counts its jamo)
	maxChunk     = 1024  // bytes without white space that are looked at together
	minArmoured  = 20    // bytes of a line within what OpenPGP made that is left out
	maxParagraph = 16384 // words of one paragraph; what follows in it is not looked at
	footerLines  = 12    // lines that a signature block or a list footer may have
)

// A skeleton is what all copies of one mailing have in common: its words,
// folded, without what differs from recipient to recipient (addresses, links,
// numbers, identifiers, the recipient's name) and without what unrelated
// messages share (greeting, signature block, disclaimer, list footer).
type skeleton struct {
	words  wordList // of the text itself
	quoted wordList // of what it quotes or forwards
	rest   wordList // of footers and the like, and of what else it shows
	footer bool     // something was taken for a signature, a disclaimer or a footer
	inside bool     // all words are those of what is in attachments

	enough  bool // the cached result of distinctive
	counted int  // number of words at the last check
}

// truncate takes all words out.
func (s *skeleton) truncate() {
	*s = skeleton{words: s.words, quoted: s.quoted, rest: s.rest}
	s.words.truncate(0)
	s.quoted.truncate(0)
	s.rest.truncate(0)
}

// distinctive reports whether the words are enough to distinguish the message from others.
func (s *skeleton) distinctive() bool {
	if n := s.words.len() + s.quoted.len(); !s.enough && n > s.counted {
		s.enough, s.counted = enough(exactMinWords, exactMinLetters, &s.words, &s.quoted), n
	}
	return s.enough
}

// take adds the words of t, up to maxWords. t must not be used afterwards.
func (s *skeleton) take(t *skeleton) {
	s.footer = s.footer || t.footer
	s.words.take(&t.words)
	s.quoted.take(&t.quoted)
	s.rest.take(&t.rest)
}

// beside adds the words of t as content shown next to the text.
func (s *skeleton) beside(t *skeleton) {
	s.rest.join(&t.words)
	s.rest.join(&t.rest)
	s.quoted.join(&t.quoted)
}

// empty reports whether there are no words at all.
func (s *skeleton) empty() bool { return s.words.len()+s.quoted.len() == 0 }

// full reports whether s has no room for further words.
func (s *skeleton) full() bool {
	return s.quoted.len() >= maxWords || s.words.len() >= maxWords && s.rest.len() >= maxWords
}

// size returns the memory that the words take, in bytes.
func (s *skeleton) size() int { return s.words.size() + s.quoted.size() + s.rest.size() }

// A folder builds a skeleton from lines of visible text.
type folder struct {
	skeleton
	recipient *wordSet // folded words that name the recipient
	pace      *pace.Pace

	armoured    bool     // within what OpenPGP encrypted or signed: lines without blanks are no words
	below       bool     // below the line at which a footer begins
	quotedRest  bool     // below a reply's or forward's header: the rest is quoted
	paragraph   wordList // words of the present paragraph
	inQuote     bool     // the paragraph is quoted
	word        []byte   // letters of the present word
	singles     []byte   // single letters in a row: they may spell a word
	singleCount int
	lineStart   int    // words of the paragraph before the present line; negative once it was greeted
	decomposed  []byte // what of the present line is decomposed and not yet folded
}

// renew resets f, and keeps its memory.
func (f *folder) renew() {
	*f = folder{paragraph: f.paragraph, word: f.word[:0], singles: f.singles[:0], decomposed: f.decomposed[:0]}
	f.paragraph.truncate(0)
}

// add folds the visible text of one part. Embedded parts count as quoted.
func (f *folder) add(text []byte, embedded bool) {
	if len(text) > mail.MaxVisible {
		text = text[:mail.MaxVisible]
	}
	f.quotedRest = embedded
	footerAt := -1
	if !embedded {
		footerAt = findFooter(text)
	}
	// Most words of a text are its own.
	f.words.grow(len(text))
	f.paragraph.grow(len(text) / 4)
	for at := 0; at < len(text) && !f.full(); {
		if at == footerAt {
			f.endParagraph()
			f.footer, f.below = true, true
		}
		line, rest := nextLine(text[at:])
		if f.pace.Over(len(line) + 1) {
			return
		}
		f.line(line, rest)
		at = len(text) - len(rest)
	}
	f.endParagraph()
}

// nextLine cuts at LF, CRLF or a lone CR.
func nextLine(b []byte) (line, rest []byte) {
	end, next := scan.FirstLine(b)
	return b[:end], b[next:]
}

func (f *folder) line(line, rest []byte) {
	line = bytes.TrimSpace(line)
	quoted := f.quotedRest
	for len(line) > 0 && line[0] == '>' {
		quoted = true
		line = bytes.TrimLeft(line[1:], " \t")
	}
	if len(line) == 0 || quoted != f.inQuote {
		f.endParagraph()
		f.inQuote = quoted
	}
	if len(line) == 0 {
		return
	}
	if !quoted && beginsQuote(line, rest) {
		f.endParagraph()
		f.quotedRest = true
		return
	}
	if !quoted && (isAttribution(line, rest) || isArmour(line)) {
		f.armoured = f.armoured || bytes.HasPrefix(line, []byte("-----BEGIN PGP "))
		return
	}
	// A line that people can read has blanks, or is short.
	if f.armoured && len(line) >= minArmoured && bytes.IndexByte(line, ' ') < 0 {
		return
	}
	if scan.ASCIIPrefix(line) == len(line) {
		f.fold(line)
	} else {
		f.decompose(displayed(line))
	}
}

// fold adds the words of one line, which is decomposed, to the paragraph,
// without the name that follows a greeting.
func (f *folder) fold(line []byte) {
	f.lineStart = f.paragraph.len()
	f.foldFrom(line, 0, true)
	f.flushSingles()
}

var nfkd = normal.NewForm(norm.NFKD)

// decompose decomposes a line and adds its words to the paragraph, by pieces.
func (f *folder) decompose(line []byte) {
	f.lineStart = f.paragraph.len()
	f.decomposed = f.decomposed[:0]
	for at := 0; len(line) > 0 && f.paragraph.len() < maxParagraph; {
		n := cutNormal(norm.NFKD, line)
		if f.pace.Over(n) {
			break
		}
		piece := line[:n]
		line = line[n:]
		at = f.decomposePiece(piece, at, len(line) == 0)
	}
	f.flushSingles()
}

// decomposePiece decomposes a piece of a line behind what is decomposed of it, and adds words
// to the paragraph from at on. It returns where it stopped, see foldFrom.
func (f *folder) decomposePiece(piece []byte, at int, last bool) int {
	for len(piece) > 0 && f.paragraph.len() < maxParagraph {
		var n int
		f.decomposed, n = nfkd.AppendSome(f.decomposed, piece, 2*maxChunk)
		piece = piece[n:]
		if at = f.foldFrom(f.decomposed, at, last && len(piece) == 0); at > 1 {
			// The byte before is looked at once more.
			f.decomposed = append(f.decomposed[:0], f.decomposed[at-1:]...)
			at = 1
		}
	}
	return at
}

// foldFrom adds the words of line[at:] to the paragraph and returns where it stopped: at the
// end if the line is whole, else so far before it that what follows makes no difference.
func (f *folder) foldFrom(line []byte, at int, whole bool) int {
	end := len(line)
	if !whole {
		end -= maxChunk
	}
	for at < end && f.paragraph.len() < maxParagraph {
		if line[at] == ' ' || line[at] == '\t' {
			at++
			continue
		}
		size, links := chunkOf(line[at:min(at+maxChunk, len(line))])
		f.chunk(line[at:at+size], links)
		at += size
		n := f.paragraph.len() - f.lineStart
		if n > 0 && n <= 6 && (at >= len(line) || endsGreeting(line[at-1])) && greetings.has(f.paragraph.at(f.lineStart)) {
			f.flushSingles()
			f.paragraph.truncate(f.lineStart)
			f.lineStart = -maxWords // only once a line
		}
	}
	return at
}

// chunkOf returns the size of the text before the first blank, and whether it may have links or addresses.
func chunkOf(b []byte) (n int, links bool) {
	// At the end a point means nothing for a host, and a colon nothing at all.
	before, last := uint8(0), uint8(0)
	for _, c := range b {
		sign := linkSigns[c]
		if sign == blankSign {
			break
		}
		before |= last
		last = sign
		n++
	}
	return n, before&(pointSign|colonSign) != 0 || last == pointSign && before&atSign != 0
}

// Kinds of bytes for chunkOf.
const (
	blankSign = 1 << iota
	pointSign
	colonSign
	atSign
)

var linkSigns = [256]uint8{' ': blankSign, '\t': blankSign, '.': pointSign, ':': colonSign, '@': atSign}

// Flags of plainBytes. The low five bits hold the letter to which a byte folds.
const (
	plainVowel = 1 << (5 + iota)
	plainStop  // ends every word
)

var plainBytes = func() (table [256]byte) {
	for c, to := range asciiFold {
		if to != 0 {
			table[c] = to & 0x1f
			if isVowel(rune(c), rune(to)) {
				table[c] |= plainVowel
			}
		}
	}
	for c := range rune(utf8.RuneSelf) {
		if asciiFold[c] == 0 && leet(c) == 0 && c != '\'' && c != '`' && !isControl(c) {
			table[c] |= plainStop
		}
	}
	return table
}()

func endsGreeting(c byte) bool { return c == ',' || c == '!' || c == ':' || c == ';' }

// chunk adds the words of text without white space, which may have links or addresses in it.
func (f *folder) chunk(chunk []byte, links bool) {
	if links {
		chunk = cutLinks(chunk)
	}
	for at := 0; at < len(chunk); {
		n := f.scanWord(chunk[at:])
		at += n
	}
}

// scanWord reads one word, or one rune that belongs to none, at the start of b
// and returns how many bytes that took.
func (f *folder) scanWord(b []byte) int {
	word := f.word[:0]
	at, letters, digits, vowels, ascii := 0, 0, 0, 0, true
	for at < len(b) {
		c := plainBytes[b[at]]
		if c&0x1f != 0 {
			letters++
			vowels += int(c/plainVowel) & 1
			word = append(word, c&0x1f|0x60)
			at++
			continue
		}
		if c&plainStop != 0 {
			break
		}
		r, n, to := rune(b[at]), 1, rune(0)
		if r >= utf8.RuneSelf {
			if r >= 0xc2 && r < 0xe0 && at+1 < len(b) && b[at+1]&0xc0 == 0x80 {
				r, n = r&0x1f<<6|rune(b[at+1]&0x3f), 2 // most letters that are not ASCII
			} else {
				r, n = scan.Rune(b[at:])
			}
			to = folded.At(r)
		}
		if to != 0 {
			if to&unspacedLetter != 0 {
				if at == 0 {
					f.word = utf8.AppendRune(word, to&^unspacedLetter)
					f.emit(f.word)
					return n
				}
				break
			}
			letters++
			switch {
			case to < utf8.RuneSelf:
				if isVowel(r, to) {
					vowels++
				}
				word = append(word, byte(to))
			case to < 0x800:
				ascii = false
				vowels++
				word = append(word, byte(0xc0|to>>6), byte(0x80|to&0x3f))
			default:
				ascii = false
				vowels++
				word = utf8.AppendRune(word, to)
			}
		} else if to := leet(r); to != 0 && leetHere(b, at, n, r, len(word)) {
			digits++
			if isVowel(to, to) {
				vowels++
			}
			word = utf8.AppendRune(word, to)
		} else if !joins(b, at, n, r) {
			break
		}
		at += n
	}
	f.word = word
	if at == 0 {
		_, n := scan.Rune(b)
		return n
	}
	f.finish(letters, digits, vowels, ascii)
	return at
}

// leetHere reports whether the digit or symbol r at b[at:] may stand for a letter: digits
// anywhere (finish decides on the whole word), symbols only where a letter or digit follows, @
// and $ also at the end of a word. before is the number of bytes of the word that precede r.
func leetHere(b []byte, at, n int, r rune, before int) bool {
	if '0' <= r && r <= '9' {
		return true
	}
	next := at+n < len(b) && isWordByte(b[at+n])
	switch r {
	case '@', '$':
		return next || before >= 2
	}
	return next && at > 0 && isWordByte(b[at-1])
}

// joins reports whether r, which is no letter, leaves the word whole: an
// invisible rune, or an apostrophe between letters.
func joins(b []byte, at, n int, r rune) bool {
	if invisible(r) || isControl(r) {
		return true
	}
	if r == '\'' || r == '’' || r == '`' {
		return at > 0 && at+n < len(b) && isLetterByte(b[at+n])
	}
	return false
}

// finish decides whether the word just read is one.
func (f *folder) finish(letters, digits, vowels int, ascii bool) {
	n := letters + digits
	switch {
	case n == 0:
	case letters < digits || digits > 3, // a number or an identifier
		ascii && n > maxWordASCII, n > maxWord, // a machine's token
		ascii && n > 5 && vowels == 0: // a machine's token as well
		f.flushSingles()
	case n == 1 && ascii:
		if f.singleCount < maxWordASCII {
			f.singles = append(f.singles, f.word...)
		}
		f.singleCount++
	default:
		f.emit(f.word)
	}
}

// emit adds a word to the paragraph, unless it names the recipient.
func (f *folder) emit(word []byte) {
	f.flushSingles()
	if !f.recipient.has(word) {
		f.paragraph.add(word)
	}
}

// minSingles is how many single letters in a row make a word.
const minSingles = 3

// flushSingles makes a word of three or more single letters in a row
// ("v i a g r a", "v.i.a.g.r.a"); fewer are left out.
func (f *folder) flushSingles() {
	if f.singleCount >= minSingles && f.singleCount <= maxWordASCII && !f.recipient.has(f.singles) {
		f.paragraph.add(f.singles)
	}
	f.singles, f.singleCount = f.singles[:0], 0
}

func (f *folder) endParagraph() {
	switch words := &f.paragraph; {
	case words.len() == 0:
	case f.below:
		f.rest.join(words)
	case isTemplate(words):
		f.footer = true
		f.rest.join(words)
	case f.inQuote:
		f.quoted.join(words)
	default:
		if f.words.len()+words.len() > maxWords {
			f.rest.join(words)
		}
		f.words.join(words)
	}
	f.paragraph.truncate(0)
}

func isVowel(r, folded rune) bool {
	switch folded {
	case 'a', 'e', 'o', 'u', 'y':
		return true
	case 'i':
		return r != 'l' && r != 'L'
	}
	return folded >= 0x80
}

func isLetterByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

func isWordByte(c byte) bool { return isLetterByte(c) || '0' <= c && c <= '9' }
