package learn

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

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
	c := collector{known: make(map[string]struct{}, 256)}
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
	return c.features, nil
}

func ofType(name, prefix string) int {
	if strings.HasPrefix(name, prefix) {
		return 1
	}
	return 0
}

// A collector gathers the features of one message.
type collector struct {
	features []string
	known    map[string]struct{}
	buf      []byte

	seen, idioms           int // words and idioms so far, repeated ones included
	links, pictures, tags  int
	anchors, otherwiseLead int // anchors that show a host, and those that lead to another domain
}

// add adds a feature of a kind. name may share memory that changes later.
func (c *collector) add(kind string, name []byte) {
	c.buf = append(append(c.buf[:0], kind...), name...)
	if _, had := c.known[string(c.buf)]; had {
		return
	}
	s := string(c.buf)
	c.known[s] = struct{}{}
	c.features = append(c.features, s)
}

// words adds the words of a text. Links and addresses are not words.
func (c *collector) words(text string) {
	for text != "" && c.seen < maxWords {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		if piece := text[:end]; !isAddress(piece) {
			c.piece(piece)
		}
		text = text[end:]
	}
}

func isAddress(piece string) bool {
	return strings.IndexByte(piece, '@') >= 0 || strings.Contains(piece, "://") ||
		len(piece) > 4 && strings.EqualFold(piece[:4], "www.")
}

// piece adds the words of a text without blanks.
func (c *collector) piece(text string) {
	var word [maxWord + utf8.UTFMax]byte
	n, digits := 0, 0
	var before rune // of a script that is written without blanks
	flush := func() {
		if n >= minWord && digits <= maxDigits && digits < n && c.seen < maxWords {
			c.seen++
			c.add(wordKind, word[:n])
		}
		n, digits = 0, 0
	}
	for _, r := range text {
		switch {
		case unblanked(r):
			flush()
			if before != 0 {
				n = utf8.EncodeRune(word[:], before)
				n += utf8.EncodeRune(word[n:], r)
				flush()
			}
			before = r
			continue
		case unicode.IsLetter(r), unicode.IsMark(r):
			if n < maxWord {
				n += utf8.EncodeRune(word[n:], unicode.ToLower(r))
			}
		case unicode.IsDigit(r):
			digits++
			if n < maxWord {
				n += utf8.EncodeRune(word[n:], r)
			}
		case r == '\'' || r == '’' || r == '\u00ad': // inside of a word
		default:
			flush()
		}
		before = 0
	}
	flush()
}

// unblanked reports whether words of the letter's script are written without blanks. Two letters
// then stand for a word.
func unblanked(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}
