package rspamd

import (
	"bytes"
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature/internal/normal"
	"github.com/bulkhead-mail/bulkhead/signature/internal/pace"
	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// Policy says which hash a part gets. The zero value has the defaults of a rule of
// rspamd.
//
// Source: docs/specs/rspamd-fuzzy.md#digests.
type Policy struct {
	MinWords int // words that give a text shingles; 0 means 64, below 32 means 32
	MinBytes int // of short texts, and of attachments; 0 means 1024, below 0 no limit
	// TextMultiplier stretches the length of short texts before it is compared
	// with MinBytes; 0 means 4.
	TextMultiplier int
	// AllTypes hashes attachments of any type, not application/* only.
	AllTypes bool
	// MaxWords leaves out texts of more words; 0 means no limit.
	MaxWords int
}

// A Hash is what fuzzy_check makes of one part of a message.
type Hash struct {
	Digest [blake2b.Size]byte
	// Shingles are set for texts that have enough words, else nil.
	Shingles *[Shingles]uint64
}

// Signature returns the digest as a signature.
func (h *Hash) Signature() bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.RspamdText, h.Digest[:])
}

// Hashes returns the hashes of the parts of a message, in their order and none twice. Those
// of texts equal rspamd's where it reads the page in the same way and the language can be
// told by its function words; docs/fidelity.md says how often.
//
// Texts of more than half a MiB, or with a word of more than 16 KiB, have no
// hash, and no more than 2 MiB of texts are looked at. It fails only when ctx
// ends, with an error that wraps that of ctx.
func (h *Hasher) Hashes(ctx context.Context, m *mail.Message, policy Policy) ([]Hash, error) {
	p := pace.New(ctx)
	policy = policy.withDefaults()
	var hashes []Hash
	seen := make(map[[blake2b.Size]byte]bool)
	room := maxTexts
	for i := range m.Parts {
		part := &m.Parts[i]
		var hash Hash
		var ok bool
		switch {
		case p.Over(0):
		case !part.IsText() || part.Attachment:
			hash, ok = h.attachment(part, policy, p)
		default:
			if room -= len(part.Text); room >= 0 && len(part.Text) <= maxSource {
				hash, ok = h.text(part, m, policy, p)
			}
		}
		if ok && !seen[hash.Digest] {
			seen[hash.Digest] = true
			hashes = append(hashes, hash)
		}
	}
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	return hashes, nil
}

// Limits of what is looked at, in bytes. What has as few words as a digest allows
// stays far below them.
const (
	maxText   = 512 << 10 // of one text
	maxSource = 1 << 20   // of its source
	maxTexts  = 2 << 20   // of all sources of a message
	maxWord   = 16 << 10  // of one word
	maxStem   = 1 << 10   // of a word that is stemmed: stemming one letter copies the word
	maxPiece  = 64 << 10  // of text that is split into words at a time
)

// attachment returns the hash of a part that is no text, or not to be read as one.
func (h *Hasher) attachment(part *mail.Part, policy Policy, p *pace.Pace) (hash Hash, ok bool) {
	if len(part.Data) == 0 || len(part.Data) < policy.MinBytes || !policy.AllTypes && !strings.HasPrefix(part.Type, "application/") {
		return hash, false
	}
	hash.Digest = keyed(&h.partKey, p, part.Data)
	return hash, true
}

// text returns the hash of a text of m.
func (h *Hasher) text(part *mail.Part, m *mail.Message, policy Policy, p *pace.Pace) (hash Hash, ok bool) {
	stripped, counted := strippedText(part, len(m.Parts) > 1, p)
	if len(stripped) > maxText || len(bytes.TrimSpace(stripped)) == 0 {
		return hash, false // rspamd passes over empty texts
	}
	space, _ := h.spaces.Get().(*workspace)
	if space == nil {
		space = new(workspace)
	}
	defer space.back(&h.spaces)
	words, ok := space.stemmedWords(counted, !part.HTML && !hasPage(m, part), policy.MaxWords, h.stems, p)
	if !ok {
		return hash, false
	}
	if words.len() >= policy.MinWords {
		shingles := h.shingles(words)
		space.text = words.appendText(space.text[:0])
		return Hash{Digest: keyed(&h.key, nil, space.text), Shingles: &shingles}, true
	}
	if n := len(stripped) + len(m.Subject); n*policy.TextMultiplier < policy.MinBytes {
		return hash, false
	}
	hash.Digest = h.Direct(stripped, m.Subject)
	return hash, true
}

// hasPage reports whether an alternative to a part is HTML.
func hasPage(m *mail.Message, part *mail.Part) bool {
	return part.Alternative != 0 && slices.ContainsFunc(m.Parts, func(other mail.Part) bool { return other.HTML && other.Alternative == part.Alternative })
}

// strippedText returns the stripped text of a part, and that in which words are looked for.
// within says that it is one of several parts.
func strippedText(part *mail.Part, within bool, p *pace.Pace) (stripped, counted []byte) {
	if !part.HTML {
		text := scan.Bytes(part.Text)
		if within && !bytes.HasSuffix(text, []byte("\n")) {
			// To rspamd the line end before a boundary belongs to the part.
			text = append(text[:len(text):len(text)], '\n')
		}
		stripped = stripText(text)
		return stripped, stripped
	}
	page := readPage(part.Text, p)
	stripped = stripText(page.text)
	if !page.dropShown() {
		return stripped, stripped
	}
	return stripped, stripText(page.text)
}

func (p Policy) withDefaults() Policy {
	if p.MinWords == 0 {
		p.MinWords = 64
	}
	p.MinWords = max(p.MinWords, Shingles)
	if p.MinBytes == 0 {
		p.MinBytes = 1024
	}
	if p.TextMultiplier == 0 {
		p.TextMultiplier = 4
	}
	if p.MaxWords == 0 {
		p.MaxWords = math.MaxInt
	}
	return p
}

// stripText returns UTF-8 text on one line: each run of line ends is a space,
// blanks at the start of a line and zero-width spaces are gone.
func stripText(text []byte) []byte {
	out := make([]byte, 0, len(text)+1)
	atStart := true
	for len(text) > 0 {
		if !atStart {
			run := 0
			for run < len(text) && !mayStrip(text[run]) {
				run++
			}
			out = append(out, text[:run]...)
			if text = text[run:]; len(text) == 0 {
				break
			}
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n' || r == '\r':
			if !atStart {
				out = append(out, ' ')
			}
			atStart = true
		case atStart && (r == ' ' || r == '\t'):
		case r == 0x200B || r == 0x200C || r == 0x200D || r == 0xFEFF:
		default:
			out = append(out, text[:n]...)
			atStart = false
		}
		text = text[n:]
	}
	return out
}

// mayStrip reports whether c begins what stripText may have to change.
func mayStrip(c byte) bool { return c == '\n' || c == '\r' || c == 0xE2 || c == 0xEF }

// A workspace is the memory in which the words of a text are found. It holds no state.
type workspace struct {
	found oddList
	words vocabulary
	text  []byte // of the words
}

// maxKept is how many bytes of words a workspace that is kept for the next text has room for.
const maxKept = 128 << 10

// back gives s to those who look for one.
func (s *workspace) back(to *sync.Pool) {
	if cap(s.found.text) > maxKept {
		return
	}
	clear(s.words.words) // so that no stem is kept
	to.Put(s)
}

// stemmedWords returns the stemmed words of a stripped text, and false if there
// are more than limit, if they are too long, or if there is no time for them. bare says
// what counts as a link: see findLinks. The words are s's own.
func (s *workspace) stemmedWords(stripped []byte, bare bool, limit int, stems *stemCache, p *pace.Pace) (*vocabulary, bool) {
	// A text that is too long mostly shows it in its first part, which saves
	// looking at the rest. Nothing reaches across a blank.
	const bytesPerWord = 12
	if limit < len(stripped)/bytesPerWord {
		if at := bytes.LastIndexByte(stripped[:limit*bytesPerWord], ' '); at > 0 {
			if ok := s.found.take(stripped[:at], bare, limit+1, p); !ok || s.found.len() > limit {
				return nil, false
			}
		}
	}
	if ok := s.found.take(stripped, bare, min(limit, math.MaxInt-1)+1, p); !ok || s.found.len() > limit {
		return nil, false
	}
	v := &s.words
	v.take(&s.found.wordList, stems.seed)
	if language := languageOf(v); language >= 0 {
		env := snowballstem.NewEnv("")
		for i, w := range v.words {
			if len(w) > maxStem {
				continue
			}
			kept := stems.at(language, v.hash[i])
			if short, ok := kept.stem(language, w); ok {
				v.words[i] = short
				continue
			}
			env.SetCurrent(w)
			stemmers[language].stem(env)
			v.words[i] = env.Current()
			kept.keep(language, w, env.Current())
		}
	}
	return v, true
}

// take makes l the first words of a text, before stemming, up to limit. It
// reports false if they are too long or there is no time for them.
func (l *oddList) take(text []byte, bare bool, limit int, p *pace.Pace) bool {
	l.empty(min(len(text), maxText))
	odd := 0 // where begins what has been passed over: words that need a closer look
	for at := 0; at < len(text) && l.len() < limit; {
		if text[at] == ' ' {
			at++
			continue
		}
		letters, size := simpleWord(text[at:])
		if size == 0 {
			for at < len(text) && text[at] != ' ' {
				at++
			}
			if at-odd > maxWord+maxPiece {
				return false
			}
			if at-odd >= maxPiece {
				if !l.odd(text[odd:at], bare, limit, p) {
					return false
				}
				odd = at
			}
			continue
		}
		if letters > maxWord || p.Over(size) || !l.odd(text[odd:at], bare, limit, p) {
			return false
		}
		if l.len() < limit {
			l.addLower(text[at : at+letters])
		}
		at += size
		odd = at
	}
	return l.odd(text[odd:], bare, limit, p)
}

// tails are the marks that may follow a word without a meaning for it.
const tails = ",.;:?!)\""

// simpleWord returns how many letters begin text, if these are ASCII letters up
// to a blank or the end, with at most one punctuation mark behind them that means
// nothing there, and how many bytes that is; else 0, 0.
func simpleWord(text []byte) (letters, size int) {
	for letters < len(text) && scan.IsLetter(text[letters]) {
		letters++
	}
	size = letters
	if size < len(text) && strings.IndexByte(tails, text[size]) >= 0 {
		size++
	}
	if letters == 0 || size < len(text) && text[size] != ' ' {
		return 0, 0
	}
	return letters, size
}

// An oddList is a list of words with what it takes to find those that are not simple.
type oddList struct {
	wordList
	points []byte // see splitPoints
	normal []byte // of a word
	links  []span
}

// odd appends the words of text, up to limit. Blanks keep text apart from what stands
// around it. It reports false if the words are too long or there is no time for them.
func (l *oddList) odd(text []byte, bare bool, limit int, p *pace.Pace) bool {
	if len(text) == 0 || len(text) == 1 && text[0] == ' ' || l.len() >= limit {
		return true
	}
	if p.Over(len(text)) {
		return false
	}
	l.links = findLinks(l.links[:0], text, bare)
	links := l.links
	l.points = splitPoints(l.points[:0], text)
	at := 0
	for it := words.FromBytes(l.points); l.len() < limit && it.Next(); {
		start, end := at, at+len(it.Value())
		at = end
		if end-start > maxWord || len(l.text) > maxText {
			return false
		}
		// What is left of a word behind a link is a word.
		for len(links) > 0 && links[0].end <= start {
			links = links[1:]
		}
		if len(links) > 0 && links[0].start < end {
			if start = links[0].end; start >= end {
				continue
			}
		}
		if w := text[start:end]; scan.IsASCII(w) {
			l.addASCII(w)
		} else {
			l.addWide(w)
		}
	}
	return true
}

// splitPoints appends text to dst with a blank for each colon, and for each point that does
// not stand between two digits, and a letter for each "@". The word boundaries are those of
// ICU 72's locale en_US_POSIX, in which the first two join no letters, and the last is one.
func splitPoints(dst, text []byte) []byte {
	out := append(dst, text...)
	digit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	for i, c := range text {
		if c == ':' || c == '.' && !(digit(i-1) && digit(i+1)) {
			out[i] = ' '
		} else if c == '@' {
			out[i] = 'a'
		}
	}
	return out
}

// addASCII is addWide for an ASCII word.
func (l *wordList) addASCII(w []byte) {
	if len(w) == 0 || !inWord(w[0]) {
		return
	}
	for _, c := range w {
		if inWord(c) {
			l.text = append(l.text, lowerASCII(c))
		}
	}
	l.ends = append(l.ends, len(l.text))
}

// inWord reports whether an ASCII character belongs to words: see addWide.
func inWord(c byte) bool { return isAlnum(c) || c == '_' || c == '$' }

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// addWide adds the letters, digits and underscores of a word in lower case,
// and signs of currencies, which are words of their own; nothing if there are none. What else
// stands inside a word, as the apostrophe in "don't" and the point in "3.14",
// is left out. What begins with anything else is no word.
func (l *oddList) addWide(w []byte) {
	first, n := utf8.DecodeRune(w)
	to := begun.At(first)
	if to == noWord {
		return
	}
	before := len(l.text)
	if n == len(w) && to != several {
		l.text = utf8.AppendRune(l.text, to)
		w = nil
	}
	for len(w) > 0 {
		var n int
		l.normal, n = nfkc.AppendSome(l.normal[:0], w, normPiece)
		w = w[n:]
		l.addNormal()
	}
	if len(l.text) > before {
		l.ends = append(l.ends, len(l.text))
	}
}

// normPiece is about how many bytes of the normal form of a word there are at a time.
const normPiece = 512

// addNormal adds what belongs to words of what was normalised last.
func (l *oddList) addNormal() {
	for w := l.normal; len(w) > 0; {
		r, n := utf8.DecodeRune(w)
		if w = w[n:]; r < utf8.RuneSelf {
			if inWord(byte(r)) {
				l.text = append(l.text, lowerASCII(byte(r)))
			}
		} else if r = lowered.At(r); r >= 0 {
			l.text = utf8.AppendRune(l.text, r)
		}
	}
}

var nfkc = normal.NewForm(norm.NFKC)

// What begun holds of characters that do not become one that belongs to words.
const (
	noWord  rune = -1 - iota // no word begins with it
	several                  // it becomes several, or none
)

// begun holds what a character that begins a word becomes, if nothing follows it.
var begun = scan.NewRunes(func(r rune) rune {
	if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Sc, r) && !unicode.Is(unicode.Pc, r) {
		return noWord
	}
	s := norm.NFKC.String(string(r))
	if r, n := utf8.DecodeRuneInString(s); n == len(s) && r >= utf8.RuneSelf {
		if to := lowered.At(r); to >= 0 {
			return to
		}
	}
	return several
})

// lowered holds characters of words in lower case, and -1 for others.
var lowered = scan.NewRunes(func(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.Is(unicode.Sc, r) || unicode.Is(unicode.Pc, r) {
		return unicode.ToLower(r)
	}
	return -1
})

// stemmers are the languages that have a stemmer, with function words that
// tell them apart.
var stemmers = [...]struct {
	stem  func(*snowballstem.Env) bool
	words string
}{
	inEnglish: {english.Stem, "the and of to is that for you with this are have from not your will be it on at or by"},
	{german.Stem, "der die das und ist nicht sie ein eine mit für auf den von dem zu ihr wir auch sich"},
	{french.Stem, "le la les et est des pour vous une dans sur pas avec nous votre du au ce que qui"},
	{spanish.Stem, "el la los las y es para una con que por su del se como más usted nuestro este"},
	{portuguese.Stem, "o os as e é para uma com que não por do da em seu sua você mais dos"},
	{italian.Stem, "il la i e è per una con che non di del della si questo sono più gli nel"},
	{dutch.Stem, "de het een en is van voor niet met op dat zijn wij uw aan ook naar u"},
	{swedish.Stem, "och att det är en för på med som inte av ett till den du vi har"},
	{danish.Stem, "og at det er en for på med som ikke af til den du vi har et"},
	{norwegian.Stem, "og å det er en for på med som ikke av til den du vi har et"},
	{finnish.Stem, "ja on ei se että hän oli mutta tai kun niin myös ovat voit"},
	{russian.Stem, "и в не на что с по для это как вы от из мы ваш все у"},
}

// longestFunction is how many bytes a function word has at most.
const longestFunction = 8

// inEnglish is the index of English among the languages.
const inEnglish = 0

// functionWords says of each function word which stemmers it speaks for: bit i for
// stemmers[i].
var functionWords = func() map[string]uint16 {
	all := make(map[string]uint16)
	for i := range stemmers {
		for w := range strings.FieldsSeq(stemmers[i].words) {
			all[w] |= 1 << i
		}
	}
	return all
}()

// languageOf returns the index in stemmers of the language that the words are in, -1 if
// that is unknown. Text in Latin script without a clear language is taken for
// English.
func languageOf(v *vocabulary) int {
	var hits [len(stemmers)]int
	latin := 0
	for id, w := range v.words {
		times := int(v.times[id])
		if len(w) > 0 && w[0] < utf8.RuneSelf {
			if scan.IsLetter(w[0]) {
				latin += times
			}
		} else if r, _ := utf8.DecodeRuneInString(w); unicode.Is(unicode.Latin, r) {
			latin += times
		}
		if len(w) > longestFunction {
			continue
		}
		for langs := functionWords[w]; langs != 0; langs &= langs - 1 {
			hits[bits.TrailingZeros16(langs)] += times
		}
	}
	best, most := -1, 0
	for i, n := range hits {
		if n > most {
			best, most = i, n
		}
	}
	if best < 0 && latin*2 > v.len() {
		return inEnglish
	}
	return best
}
