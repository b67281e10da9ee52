package learn

import (
	"context"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of what is read of a message.
const (
	maxWords   = 1500     // words of the visible text and the subject, repeated ones included
	maxWord    = 40       // bytes of a word
	minWord    = 2        // bytes of a word
	maxDigits  = 6        // digits in a word; a longer number names one message
	maxText    = 64 << 10 // bytes of visible text of one part
	maxParts   = 32       // parts whose content is read
	maxIdioms  = 400      // idioms of style, repeated ones included
	maxIdiom   = 64       // bytes of an idiom
	maxMarkup  = 32 << 10 // bytes of HTML of one part that are read for its style
	maxTypes   = 12       // parts in the form of the MIME tree
	maxFeature = maxIdiom + 2
)

// The prefixes of the kinds of features.
const (
	wordKind     = "w:"
	cssKind      = "c:"
	classKind    = "k:"
	idKind       = "i:"
	attrKind     = "a:"
	mimeKind     = "m:"
	relationKind = "r:"
)

// Features returns the features of a message, none twice: words that its reader sees, idioms of its
// style, media types, and relations between its parts. Each begins with the prefix of its kind, such
// as "w:" for a word. Recipients, dates, identifiers, addresses and long numbers are left out. The
// work is bounded, whatever the length of the message. Features fails only when ctx ends, with an
// error that wraps the error of ctx.
func Features(ctx context.Context, m *mail.Message) ([]string, error) {
	return gather(ctx, m, newChooser(filter.Secret{}, math.MaxInt/2))
}

// Counting returns the features of a message that count under a secret: at most [MaxTokens] of [Features],
// in the order of their tokens. It is cheaper than Features, because no other feature is kept. Its
// errors are the errors of Features.
func Counting(ctx context.Context, m *mail.Message, secret filter.Secret) ([]string, error) {
	return gather(ctx, m, newChooser(secret, MaxTokens))
}

func gather(ctx context.Context, m *mail.Message, to *chooser) ([]string, error) {
	defer choosers.Put(to)
	c := newCollector(to)
	c.words(m.Subject)
	for i := range m.Parts[:min(len(m.Parts), maxParts)] {
		p := &m.Parts[i]
		if !p.IsText() || p.Attachment {
			c.pictures += ofType(p.Type, "image/")
			continue
		}
		page, err := m.Page(ctx, i)
		if err != nil {
			return nil, err
		}
		text := page.Text[:min(len(page.Text), maxText)]
		c.words(scan.String(text))
		c.links += len(page.Links)
		if p.HTML {
			c.style(p.Text[:min(len(p.Text), maxMarkup)])
		}
	}
	c.mime(m)
	c.relations(m)
	return to.features(), nil
}

func ofType(name, prefix string) int {
	if strings.HasPrefix(name, prefix) {
		return 1
	}
	return 0
}

// A collector gathers the features of one message.
type collector struct {
	to   *chooser
	buf  []byte
	word word

	seen, idioms           int // words and idioms so far, repeated ones included
	links, pictures, tags  int
	anchors, otherwiseLead int // anchors that show a host, and those that lead to another domain
}

func newCollector(to *chooser) *collector {
	c := &collector{to: to}
	c.word.n = copy(c.word.text[:], wordKind)
	return c
}

// add adds a feature of a kind. name may share memory that changes later.
func (c *collector) add(kind string, name []byte) {
	c.buf = append(append(c.buf[:0], kind...), name...)
	c.to.add(c.buf)
}

// words adds the words of a text. Links and addresses are not words.
func (c *collector) words(text string) {
	for text != "" && c.seen < maxWords {
		if kindOf[text[0]] == blank {
			text = text[1:]
			continue
		}
		if n := c.single(text); n > 0 {
			text = text[n:]
			continue
		}
		n, ascii := 0, true
		for n < len(text) {
			b := text[n]
			if b < utf8.RuneSelf {
				if kindOf[b] == blank {
					break
				}
				n++
				continue
			}
			r, size := utf8.DecodeRuneInString(text[n:])
			if unicode.IsSpace(r) {
				break
			}
			ascii = false
			n += size
		}
		piece := text[:n]
		switch {
		case n == 0:
			_, n = utf8.DecodeRuneInString(text)
		case address(piece):
		case ascii:
			c.plain(piece)
		default:
			c.piece(piece)
		}
		text = text[n:]
	}
}

// address reports whether a text without blanks is a link or an address.
func address(piece string) bool {
	return strings.IndexByte(piece, '@') >= 0 || strings.Contains(piece, "://") ||
		len(piece) > 4 && strings.EqualFold(piece[:4], "www.")
}

// single adds the ASCII word at the start of a text, if no more than one other character stands between the word and
// the next blank, as after most words. It returns the number of bytes up to the blank, or 0 if it adds nothing.
func (c *collector) single(text string) int {
	n := c.word.ascii(text)
	rest := text[n:]
	switch {
	case rest == "" || kindOf[rest[0]] == blank:
	case len(rest) > 1 && rest[0] < utf8.RuneSelf && rest[0] != '@' && kindOf[rest[1]] == blank:
		n++
	default:
		c.word.none()
		return 0
	}
	c.end()
	return n
}

// The kinds of ASCII characters.
const (
	other = iota
	blank
	letter
	digit
	inside // of a word, but no part of it
)

// kindOf has the kind of each ASCII character, and lower its lower case. Other bytes stay as they are.
var kindOf, lower = func() (kinds, lower [256]byte) {
	for i := range kinds {
		r := rune(i)
		lower[i] = byte(i)
		switch {
		case i >= utf8.RuneSelf:
		case unicode.IsSpace(r):
			kinds[i] = blank
		case unicode.IsLetter(r):
			kinds[i] = letter
			lower[i] = byte(unicode.ToLower(r))
		case unicode.IsDigit(r):
			kinds[i] = digit
		case r == '\'':
			kinds[i] = inside
		}
	}
	return kinds, lower
}()

// A word is gathered letter by letter, behind its kind.
type word struct {
	text      [firstByte + maxWord + utf8.UTFMax]byte
	n, digits int
}

const (
	firstByte = len(wordKind)
	fullWord  = firstByte + maxWord
)

// none begins another word.
func (w *word) none() { w.n, w.digits = firstByte, 0 }

// ascii adds the ASCII letters and digits at the start of a text. It returns the number of bytes before another
// character.
func (w *word) ascii(text string) int {
	for i := range len(text) {
		b := text[i]
		switch kindOf[b] {
		case digit:
			w.digits++
			fallthrough
		case letter:
			if w.n < fullWord {
				w.text[w.n] = lower[b]
				w.n++
			}
		case inside:
		default:
			return i
		}
	}
	return len(text)
}

// rune adds a letter.
func (w *word) rune(r rune) { w.n += utf8.EncodeRune(w.text[w.n:], r) }

// end adds a word that has ended, if it counts.
func (c *collector) end() {
	w := &c.word
	if n := w.n - firstByte; n >= minWord && w.digits <= maxDigits && w.digits < n && c.seen < maxWords {
		c.seen++
		c.to.add(w.text[:w.n])
	}
	w.none()
}

// plain adds the words of ASCII text without blanks. It is piece, faster.
func (c *collector) plain(text string) {
	for text != "" {
		n := c.word.ascii(text)
		c.end()
		text = text[min(n+1, len(text)):]
	}
}

// piece adds the words of a text without blanks.
func (c *collector) piece(text string) {
	w := &c.word
	var before rune // of a script that is written without blanks
	for _, r := range text {
		switch {
		case unblanked(r):
			c.end()
			if before != 0 {
				w.rune(before)
				w.rune(r)
				c.end()
			}
			before = r
			continue
		case unicode.IsDigit(r):
			w.digits++
			fallthrough
		case unicode.IsLetter(r), unicode.IsMark(r):
			if w.n < fullWord {
				w.rune(unicode.ToLower(r))
			}
		case r == '\'' || r == '’' || r == '\u00ad': // inside of a word
		default:
			c.end()
		}
		before = 0
	}
	c.end()
}

// unblanked reports whether words of the letter's script are written without blanks. Two letters
// then stand for a word.
func unblanked(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}
