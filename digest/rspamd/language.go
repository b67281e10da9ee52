package rspamd

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/turkish"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A script is a group of languages among which rspamd chooses one.
type script uint8

const (
	inLatin script = iota
	inCyrillic
	inArabic
	inDevanagari
	unstemmed // a script with a single language, which has no stemmer here
)

// A language is a language whose stop words rspamd counts.
type language struct {
	name     string
	stem     func(*snowballstem.Env) bool // nil without a stemmer
	script   script
	accented bool   // rspamd counts its words as accented
	words    string // frequent words
}

var languages = [...]language{
	inEnglish: {"en", english.Stem, inLatin, false,
		"the and of to is that for you with this are have from not your will be" +
			" it on at or by a i in as an if we he me my do no so all can has was our which but they more any"},
	{"de", german.Stem, inLatin, true,
		"der die das und ist nicht sie ein eine mit für auf den von dem zu ihr wir auch sich"},
	{"fr", french.Stem, inLatin, true, "le la les et est des pour vous une dans sur pas avec nous votre du au ce que qui"},
	{"es", spanish.Stem, inLatin, true, "el la los las y es para una con que por su del se como más usted nuestro este"},
	{"pt", portuguese.Stem, inLatin, true, "o os as e é para uma com que não por do da em seu sua você mais dos"},
	{"it", italian.Stem, inLatin, true, "il la i e è per una con che non di del della si questo sono più gli nel"},
	{"nl", dutch.Stem, inLatin, false, "de het een en is van voor niet met op dat zijn wij uw aan ook naar u"},
	{"sv", swedish.Stem, inLatin, true, "och att det är en för på med som inte av ett till den du vi har"},
	{"da", danish.Stem, inLatin, true, "og at det er en for på med som ikke af til den du vi har et"},
	{"no", norwegian.Stem, inLatin, true, "og å det er en for på med som ikke av til den du vi har et"},
	{"fi", stemFinnish, inLatin, true, "ja on ei se että hän oli mutta tai kun niin myös ovat voit"},
	inRussian: {"ru", russian.Stem, inCyrillic, false, "и в не на что с по для это как вы от из мы ваш все у"},
	{"hu", hungarian.Stem, inLatin, true, ""}, {"tr", turkish.Stem, inLatin, true, ""},
	{"ro", romanian.Stem, inLatin, true, ""}, {"cs", nil, inLatin, true, ""}, {"sl", nil, inLatin, true, ""},
	{"id", nil, inLatin, false, ""}, {"ar", nil, inArabic, false, ""}, {"ne", nil, inDevanagari, false, ""},
}

// stemFinnish stems a word, except numbers: the Finnish stemmer removes doubled digits.
func stemFinnish(env *snowballstem.Env) bool {
	if w := env.Current(); w != "" && w[len(w)-1] <= '9' {
		return true
	}
	return finnish.Stem(env)
}

// The indices of two languages.
const (
	inEnglish = 0
	inRussian = 11
)

// maxStopWords is the greatest size of a list of stop words, in bytes.
const maxStopWords = 1 << 20

// stopWords are frequent words that identify the language of a text.
type stopWords struct {
	of      map[string]uint32   // bit i for languages[i]
	count   [len(languages)]int // number of words of a language
	longest int                 // length of the longest word in bytes
	enough  int                 // number of hits that settles the language

	// Bit n of shapes[first][last] is set if a word of n bytes begins and ends with these bytes, see
	// lastOf. It rejects most words of a text: without it, all signatures of plain text take 8 %
	// longer.
	shapes [utf8.RuneSelf][32]uint32
	wide   [4]uint64 // hashed set of the first characters beyond ASCII
}

// lastOf returns the index in shapes for the last byte of a word, 0 for any byte beyond ASCII.
func lastOf(word []byte) byte {
	if c := word[len(word)-1]; c < utf8.RuneSelf {
		return c % 32
	}
	return 0
}

func (s *stopWords) add(language int, word string) {
	s.of[word] |= 1 << language
	s.count[language]++
	s.longest = max(s.longest, len(word))
	if c := word[0]; c < utf8.RuneSelf {
		s.shapes[c][0] |= 1 << len(word)
		s.shapes[c][lastOf([]byte(word))] |= 1 << len(word)
	} else {
		r, _ := utf8.DecodeRuneInString(word)
		s.wide[r/64%4] |= 1 << (r % 64)
	}
}

// ownWords identify languages if rspamd's list is not available.
var ownWords = func() *stopWords {
	const enough = 30
	s := &stopWords{of: make(map[string]uint32), enough: enough}
	for i := range languages {
		for word := range strings.FieldsSeq(languages[i].words) {
			s.add(i, word)
		}
		s.count[i] = 1 // the words of these lists are about equally frequent, so hits need no weight
	}
	return s
}()

// ReadStopWords reads the list by which rspamd identifies languages, the file stop_words in its folder of languages.
// With it, all texts get the same stems as in rspamd; without it, most do. The Hasher must not be in use yet. Errors in
// the list wrap bulkhead.ErrMalformed.
//
// Source: docs/specs/rspamd-fuzzy.md#language.
func (h *Hasher) ReadStopWords(from io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(from, maxStopWords+1))
	if err != nil {
		return err
	}
	if len(text) > maxStopWords {
		return fmt.Errorf("rspamd: %w: more than %d bytes of stop words", bulkhead.ErrMalformed, maxStopWords)
	}
	// A quoted string is a language if a colon follows, else a word.
	const enough = 80
	s := &stopWords{of: make(map[string]uint32), enough: enough}
	pieces := strings.Split(string(text), `"`)
	of := -1
	for i := 1; i+1 < len(pieces); i += 2 {
		word := pieces[i]
		if strings.HasPrefix(strings.TrimSpace(pieces[i+1]), ":") {
			of = slices.IndexFunc(languages[:], func(l language) bool { return l.name == word })
		} else if of >= 0 && word != "" {
			s.add(of, strings.ToLower(word))
		}
	}
	if s.count[inEnglish] == 0 || len(pieces)%2 == 0 || !utf8.Valid(text) {
		return fmt.Errorf("rspamd: %w: no list of stop words", bulkhead.ErrMalformed)
	}
	h.stopWords = s
	return nil
}

// language returns the index in languages of the language of a stripped text, or -1 if it has no stemmer here. v holds
// its words, found is the number of its words and links.
//
// Source: docs/specs/rspamd-fuzzy.md#language.
func (h *Hasher) language(text []byte, v *vocabulary, found int) int {
	in, mostly := scriptOf(text)
	if in == unstemmed {
		return -1
	}
	best := h.stopWords.language(text, in)
	switch {
	case best >= 0 && languages[best].stem == nil:
		return -1
	case best >= 0:
		return best
	case h.model != nil && found >= fewestWords:
		return h.model.language(v, in)
	case mostly && in == inCyrillic:
		return inRussian
	case mostly:
		return -1
	}
	return inEnglish
}

// language returns the index of the language whose stop words are most frequent in text, or -1.
func (s *stopWords) language(text []byte, in script) int {
	hits := s.hits(text, in)
	accents, best, most := false, -1, 0.0
	for i, n := range &hits {
		accents = accents || n > 0 && languages[i].accented
	}
	for i, n := range &hits {
		const few, enough = 4, 10
		if n < few || n < enough && i == inEnglish && accents {
			continue
		}
		if rate := float64(n) / float64(s.count[i]); rate > most {
			best, most = i, rate
		}
	}
	return best
}

// hits counts the stop words of each language of a script in text, and stops when one language is clear. Words stand
// between ASCII punctuation and white space.
func (s *stopWords) hits(text []byte, in script) (hits [len(languages)]int) {
	const longest = 31
	var room [longest]byte
	of := scripts[in]
	count := func(langs uint32) (clear bool) {
		for langs &= of; langs != 0; langs &= langs - 1 {
			i := bits.TrailingZeros32(langs)
			hits[i]++
			clear = clear || hits[i] > s.enough
		}
		return clear
	}
	look := func(word []byte) (clear bool) {
		if len(word) > min(s.longest, longest) {
			return false
		}
		if word[0] < utf8.RuneSelf {
			if s.shapes[lowerASCII(word[0])][lastOf(word)]>>len(word)&1 == 0 {
				return false
			}
		} else if r, _ := scan.Rune(word); !s.beginsWide(r) {
			return false
		}
		return count(s.of[string(appendLower(room[:0], word))])
	}
	for at := 0; at < len(text); {
		end := at + rim(text[at:])
		if end > at && look(text[at:end]) {
			break
		}
		// A word may contain one mark: "don't" is a word, and so are its two pieces.
		if end < len(text) && (text[end] == '\'' || text[end] == '-') && look(text[at:end+1+rim(text[end+1:])]) {
			break
		}
		at = end + 1
	}
	return hits
}

// beginsWide reports whether a word may begin with r, which is not ASCII, in any case.
func (s *stopWords) beginsWide(r rune) bool {
	r = toLower(r)
	return r < utf8.RuneSelf || s.wide[r/64%4]>>(r%64)&1 != 0
}

// scripts holds a bit set of the languages of each script, bit i for languages[i].
var scripts = func() (table [unstemmed + 1]uint32) {
	for i := range languages {
		table[languages[i].script] |= 1 << i
	}
	return table
}()

// rim returns the index of the first byte of text that is ASCII punctuation or white space, or len(text).
func rim(text []byte) (n int) {
	for n < len(text) && !isRim[text[n]] {
		n++
	}
	return n
}

// isRim marks ASCII punctuation and white space.
var isRim = func() (table [256]bool) {
	for c := range utf8.RuneSelf {
		table[c] = c > ' ' && c != 0x7F && !isAlnum(byte(c)) || c == ' ' || '\t' <= c && c <= '\r'
	}
	return table
}()

// appendLower appends word in lower case.
func appendLower(dst, word []byte) []byte {
	for len(word) > 0 {
		if c := word[0]; c < utf8.RuneSelf {
			dst = append(dst, lowerASCII(c))
			word = word[1:]
			continue
		}
		r, n := scan.Rune(word)
		dst = utf8.AppendRune(dst, toLower(r))
		word = word[n:]
	}
	return dst
}

// toLower is [unicode.ToLower], faster for the characters of words.
func toLower(r rune) rune {
	if to := lowered.At(r); to >= 0 {
		return to
	}
	return unicode.ToLower(r)
}

// scriptOf returns the script by which rspamd chooses among languages, and whether most letters belong to it.
func scriptOf(text []byte) (in script, mostly bool) {
	const enough = 32 // letters
	var seen [unstemmed + 1]bool
	latin, chinese, others := 0, 0, 0
	counted := 0 // end of the text whose ASCII letters were counted, on demand
	count := func(to int) {
		for _, c := range text[counted:to] {
			if scan.IsLetter(c) {
				latin++
			}
		}
		counted = to
	}
	for at := 0; at < len(text); {
		if text[at] < utf8.RuneSelf {
			at += scan.ASCIIPrefix(text[at:])
			continue
		}
		r, n := scan.Rune(text[at:])
		at += n
		block := letterBlock.At(r)
		switch {
		case block < 0:
			continue
		case r <= unicode.MaxLatin1:
			latin++
		case block&isOther != 0:
			seen[block&^isOther] = true
			others++
		case block == rune(unstemmed):
			seen[block] = true
			chinese++
		}
		if others > enough || chinese > enough && others > 0 {
			if count(at); others > enough && others > latin || chinese > enough && chinese > latin && others > 0 {
				break
			}
		}
	}
	if others+chinese == 0 {
		return inLatin, false
	}
	count(len(text))
	switch mostly = others > latin; {
	case seen[unstemmed]:
		return unstemmed, mostly
	case seen[inCyrillic]:
		return inCyrillic, mostly
	case seen[inDevanagari]:
		return inDevanagari, mostly
	case seen[inArabic]:
		return inArabic, mostly
	}
	return inLatin, false
}

// blocks are the Unicode blocks whose letters rspamd counts, without Latin.
var blocks = [...]struct {
	first, last rune
	script      script
	other       bool // not Chinese
}{
	{0x370, 0x3FF, unstemmed, true}, {0x400, 0x4FF, inCyrillic, true}, {0x530, 0x58F, unstemmed, true},
	{0x590, 0x5FF, inLatin, true}, {0x600, 0x6FF, inArabic, true},
	{0x900, 0x97F, inDevanagari, true}, {0xA80, 0xAFF, unstemmed, true}, {0xB80, 0xBFF, unstemmed, true},
	{0xC00, 0xC7F, unstemmed, true}, {0xE00, 0xE7F, unstemmed, true},
	{0x10A0, 0x11FF, unstemmed, true}, {0x2E80, 0x2EFF, unstemmed, false}, {0x3040, 0x30FF, unstemmed, true},
	{0x3130, 0x318F, unstemmed, true}, {0x3300, 0x4DBF, unstemmed, false},
	{0x4E00, 0x9FFF, unstemmed, false}, {0x20000, 0x2A6DF, unstemmed, false},
}

// letterBlock maps a letter to its script, with isOther if it is neither Latin nor Chinese, and other characters to -1.
var letterBlock = scan.NewRunes(func(r rune) rune {
	if !unicode.IsLetter(r) {
		return -1
	}
	in, other := blockOf(r)
	if other {
		return rune(in) | isOther
	}
	return rune(in)
})

const isOther = 1 << 8

// blockOf returns the script for which rspamd counts a letter, and whether it is neither Latin nor Chinese.
func blockOf(r rune) (in script, other bool) {
	for _, b := range &blocks {
		if b.first <= r && r <= b.last {
			return b.script, b.other
		}
	}
	return inLatin, false
}
