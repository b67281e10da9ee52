package rspamd

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/normal"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
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
	parts, err := m.LiteralParts(ctx)
	if err != nil {
		return nil, err
	}
	subject := sync.OnceValue(m.LiteralSubject)
	for i := range parts {
		part := &parts[i]
		var hash Hash
		var ok bool
		if p.Over(0) {
			break
		}
		data := part.Data
		if part.IsText() {
			data = scan.Bytes(part.Text)
		}
		text, html := readAs(ctx, part, data)
		switch {
		case !text:
			hash, ok = h.attachment(part, data, policy, p)
		default:
			if room -= len(data); room >= 0 && len(data) <= maxSource {
				read, known := *part, true
				read.HTML = html
				if read.Text = scan.String(data); part.IsText() || part.Type == "" {
					if read.Text, known, err = part.Literal(ctx); err != nil {
						return nil, err
					}
				}
				hash, ok = h.text(&read, known, subject, policy, p)
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

// text returns the hash of a text of a message with that subject. known says that its charset is.
func (h *Hasher) text(part *mail.Part, known bool, subject func() string, policy Policy, p *pace.Pace) (hash Hash, ok bool) {
	if n := len(part.Text); !part.HTML && n < policy.MinWords && policy.tooShort(n, subject()) {
		return hash, false // as a look at it would say
	}
	stripped := strippedText(part, p)
	stripped.known = known
	defer stripped.back()
	if len(stripped.text) > maxText || len(bytes.TrimSpace(stripped.text)) == 0 {
		return hash, false // rspamd passes over empty texts
	}
	if len(stripped.text) < policy.MinWords && policy.tooShort(len(stripped.text), subject()) {
		return hash, false // it has no more words than bytes
	}
	space, _ := h.spaces.Get().(*workspace)
	if space == nil {
		space = new(workspace)
	}
	defer space.back(&h.spaces)
	words, ok := space.stemmedWords(stripped, policy.MinWords, policy.MaxWords, h, p)
	if !ok {
		return hash, false
	}
	if words != nil {
		shingles := h.shingles(words)
		space.text = words.appendText(space.text[:0])
		return Hash{Digest: keyed(&h.key, nil, space.text), Shingles: &shingles}, true
	}
	if policy.tooShort(len(stripped.text), subject()) {
		return hash, false
	}
	hash.Digest = h.Direct(stripped.text, subject())
	return hash, true
}

// A stripped is text on one line, as words are looked for in it.
type stripped struct {
	text  []byte
	lines []int32 // where lines began, but the first
	shown []span  // what a page shows for links, in places that these had before it was stripped, as rspamd has them
	bare  bool    // host names are links
	known bool    // the charset, so that what is torn of UTF-8 ends words and no more
}

// strippedTexts keeps memory for them. It holds no state.
var strippedTexts = sync.Pool{New: func() any { return new(stripped) }}

// back gives s to who strips the next text.
func (s *stripped) back() {
	if cap(s.text)+cap(s.lines)*4+cap(s.shown)*16 <= maxSpare {
		strippedTexts.Put(s)
	}
}

// strippedText returns the stripped text of a part. Who has used it may give it back.
func strippedText(part *mail.Part, p *pace.Pace) *stripped {
	s := strippedTexts.Get().(*stripped)
	s.bare, s.known, s.shown = false, true, s.shown[:0]
	if part.HTML {
		page := readPage(part.Text, p)
		defer page.back()
		s.shown = append(s.shown, page.shown...)
		s.strip(page.text, true)
		return s
	}
	s.strip(scan.Bytes(part.Text), false)
	s.bare = part.Siblings != 1
	return s
}

// tooShort reports whether a text of n bytes without enough words has no hash.
func (p *Policy) tooShort(n int, subject string) bool {
	return (n+len(subject))*p.TextMultiplier < p.MinBytes
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

// strip makes s UTF-8 text on one line, with where in it the lines begin: line ends are blanks, those in a row are
// one; the blanks at the start of a line that is not the first are gone, and zero-width characters.
//
// Source: docs/specs/rspamd-fuzzy.md#line-ends.
func (s *stripped) strip(text []byte, page bool) {
	const (
		inLine = iota
		behindCR
		behindLF
	)
	const letters = 32 // of a line
	out, lines := slices.Grow(s.text[:0], len(text)+1), slices.Grow(s.lines[:0], len(text)/letters)
	state, blank, bracket := inLine, false, false // where; whether a blank stands for the line end; within "<" of a line
	end := func(asBlank bool) {
		if asBlank {
			out = append(out, ' ')
			blank = true
		}
		lines = append(lines, int32(len(out)))
	}
	from := 0 // what of the text is to be appended begins
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c >= 0xC2:
			if n := invisible(text[at:], at > from); n > 0 {
				out = append(out, text[from:at]...)
				at += n
				from = at
				continue
			}
			fallthrough
		default:
			if state != inLine {
				if !blank {
					end(false)
				}
				if text[at] == ' ' {
					if !blank {
						out = append(out, ' ')
					}
					for at < len(text) && text[at] == ' ' {
						at++
						from++
					}
				}
				state = inLine
				continue
			}
			if c == '<' || c == '>' {
				bracket = c == '<'
			}
			at = nextStrip(text, at+1)
		case c == '\r':
			if state == inLine {
				out = append(out, text[from:at]...)
				blank = false
			} else if state == behindCR && !blank {
				end(true)
			}
			state, bracket = behindCR, false
			at++
			from = at
		case c == '\n':
			if state == inLine {
				out = append(out, text[from:at]...)
				blank = false
			}
			if !blank && (page || !bracket || state == behindLF) {
				end(true)
			}
			state, bracket = behindLF, false
			at++
			from = at
		}
	}
	s.text, s.lines = append(out, text[from:]...), lines
}

// nextStrip returns where the next byte is, from at on, that means something to strip, the length of text if none does.
func nextStrip(text []byte, at int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(text)-at >= 8 {
		eight := binary.LittleEndian.Uint64(text[at:])
		brackets := (eight | 2*ones) ^ '>'*ones // zero for both
		if ((eight-' '*ones)&^eight|(brackets-ones)&^brackets|eight)&high != 0 {
			for i, c := range text[at : at+8] {
				if mayStrip[c] && strips(text[at+i:]) {
					return at + i
				}
			}
		}
		at += 8
	}
	for at < len(text) && (!mayStrip[text[at]] || !strips(text[at:])) {
		at++
	}
	return at
}

// strips reports whether the first byte of text, one of those that may, means something to strip.
func strips(text []byte) bool {
	switch c := text[0]; {
	case c < utf8.RuneSelf:
		return true
	case len(text) == 1, c == 0xC2 && text[1] != 0xAD, c == 0xE2 && text[1] != 0x80, c == 0xEF && text[1] != 0xBB:
		return false
	}
	r, _ := utf8.DecodeRune(text)
	return isZeroWidth(r)
}

// invisible returns how many bytes of characters without width begin text. One alone at the
// start of what follows a line end, or at the end of the text, stays.
func invisible(text []byte, within bool) int {
	if c := text[0]; c != 0xC2 && c != 0xE2 && c != 0xEF || len(text) > 1 && text[1] != 0xAD && text[1] != 0x80 && text[1] != 0xBB {
		return 0 // as nearly all
	}
	n, count := 0, 0
	for n < len(text) {
		r, size := scan.Rune(text[n:])
		if !isZeroWidth(r) {
			break
		}
		if n+size == len(text) {
			break
		}
		n += size
		count++
	}
	if count == 1 && !within {
		return 0
	}
	return n
}

func isZeroWidth(r rune) bool {
	return r == 0x200B || r == 0x200C || r == 0x200D || r == 0xFEFF || r == 0xAD
}

// mayStrip marks the bytes that mean something to strip.
var mayStrip = func() (table [256]bool) {
	for _, c := range []byte("\r\n<>") {
		table[c] = true
	}
	for c := 0xC2; c < 0x100; c++ {
		table[c] = c == 0xC2 || c == 0xE2 || c == 0xEF
	}
	return table
}()

// A workspace is the memory in which the words of a text are found. It holds no state.
type workspace struct {
	found oddList
	words vocabulary
	text  []byte // of the words
	env   *snowballstem.Env
}

// maxKept is how many bytes of words a workspace that is kept for the next text has room for.
const maxKept = 128 << 10

// back gives s to those who look for one.
func (s *workspace) back(to *sync.Pool) {
	if cap(s.found.text) > maxKept {
		return
	}
	clear(s.words.words) // so that no stem is kept
	if s.env != nil {
		s.env.SetCurrent("")
	}
	to.Put(s)
}

// stemmedWords returns the stemmed words of a stripped text, nil if there are fewer than least, and false if there
// are more than limit, if they are too long, or if there is no time for them. The words are s's own.
func (s *workspace) stemmedWords(stripped *stripped, least, limit int, h *Hasher, p *pace.Pace) (*vocabulary, bool) {
	// A text that is too long mostly shows it in its first part, which saves
	// looking at the rest. Nothing reaches across a blank.
	const bytesPerWord = 12
	if limit < len(stripped.text)/bytesPerWord {
		if at := bytes.LastIndexByte(stripped.text[:limit*bytesPerWord], ' '); at > 0 {
			first := *stripped
			first.text = first.text[:at]
			if ok := s.found.take(&first, limit+1, p); !ok || s.found.counted() > limit {
				return nil, false
			}
		}
	}
	if ok := s.found.take(stripped, min(limit, math.MaxInt-1)+1, p); !ok || s.found.counted() > limit {
		return nil, false
	}
	if s.found.len() < least {
		return nil, true
	}
	v := &s.words
	v.take(&s.found.wordList, h.stems.seed)
	language := -1
	if !s.found.raw {
		language = h.language(stripped.text, s.found.letters, v, s.found.decay.found)
	}
	if language >= 0 {
		if s.env == nil {
			s.env = snowballstem.NewEnv("")
		}
		env := s.env
		for i, w := range v.words {
			if len(w) > maxStem {
				continue
			}
			kept := h.stems.at(language, v.hash[i])
			if short, ok := kept.stem(language, w); ok {
				v.words[i] = short
				continue
			}
			if len(w) > maxStemmed && language == inEnglish && strings.IndexByte(w, 'y') >= 0 {
				v.words[i] = stemLong(env, w)
				continue
			}
			env.SetCurrent(w)
			languages[language].stem(env)
			if stem := env.Current(); stem != "" {
				v.words[i] = stem
			}
			kept.keep(language, w, v.words[i])
		}
	}
	return v, true
}

// take makes l the first words of a text, before stemming, up to limit. It
// reports false if they are too long or there is no time for them.
func (l *oddList) take(s *stripped, limit int, p *pace.Pace) bool {
	text := s.text
	l.empty(min(len(text), maxText))
	l.found = findLinks(l.found[:0], text, s.lines, s.bare)
	l.links, l.lines, l.shown, l.passed = l.found, s.lines, s.shown, 0
	l.decay = decay{size: len(text)}
	if l.raw = false; !utf8.Valid(text) {
		if l.raw = !s.known; l.raw {
			return l.takeRaw(text, limit, p)
		}
		text = readable(text)
	}
	l.letters = scan.MapLetters(l.letters, text)
	odd := 0   // where begins what has been passed over: words that need a closer look
	next := -1 // what nextGap last told, which holds until a word needs one; -1 if it does not
	work := 0  // bytes that p was not told of
	for at := 0; at < len(text) && l.counted() < limit; {
		if text[at] == ' ' {
			at++
			continue
		}
		if letters, size := simpleWord(text[at:]); size > 0 {
			if letters > maxWord {
				return false
			}
			if work += size; work >= paceStep {
				if p.Over(work) {
					return false
				}
				work = 0
			}
			if at > odd+1 || at > odd && text[odd] != ' ' {
				if !l.odd(text[odd:at], odd, limit, p) {
					return false
				}
				next = -1
			}
			odd = at
			if at >= l.passed {
				if next <= at {
					next = l.nextGap(at)
				}
				if next > at+size {
					if l.counted() < limit && l.decay.keeps(text[at:at+letters], at+letters) {
						l.addLower(text[at:], letters)
					}
					begun := at
					at = l.simple(text, at+size, next, limit)
					work += at - begun - size
					odd = at
					continue
				}
			}
		}
		for at < len(text) && text[at] != ' ' {
			at++
		}
		if at-odd > maxWord+maxPiece {
			return false
		}
		if at-odd >= maxPiece {
			if !l.odd(text[odd:at], odd, limit, p) {
				return false
			}
			odd, next = at, -1
		}
	}
	return !p.Over(work) && l.odd(text[odd:], odd, limit, p)
}

// simple adds simple words, before the next gap and up to limit, as long as each is behind one blank, and returns where
// it stopped, from at on, which is behind such a word. It leaves those to its caller that are not short.
func (l *oddList) simple(text []byte, at, next, limit int) int {
	const short, each = 16, 0x0101010101010101
	most := min(next, len(text)-short-1, at+paceStep) // before which a word begins
	out, n := l.text[:cap(l.text)], len(l.text)
	for at+1 < most && text[at] == ' ' && len(out)-n >= short && l.counted() < limit {
		letters := l.letters.Run(at + 1)
		end := at + 1 + letters
		if letters == 0 || letters > short {
			break
		}
		if text[end] != ' ' {
			if !isTail[text[end]] || text[end+1] != ' ' {
				break
			}
			end++
		}
		if end >= next {
			break
		}
		start := at + 1
		word := text[start : start+short]
		at = end
		binary.LittleEndian.PutUint64(out[n:], binary.LittleEndian.Uint64(word)|0x20*each)
		binary.LittleEndian.PutUint64(out[n+8:], binary.LittleEndian.Uint64(word[8:])|0x20*each)
		if l.decay.keeps(word[:letters], start+letters) {
			n += letters
			l.ends = append(l.ends, n)
		}
	}
	l.text = out[:n]
	return at
}

// paceStep is after how many bytes of simple words there is a look at the time.
const paceStep = 1 << 10

// takeRaw makes l the first words of a text that is not UTF-8. Its words are what stands between ASCII punctuation: all
// but the first byte, and what follows the last mark. They are not stemmed.
//
// Source: docs/specs/rspamd-fuzzy.md#raw-text.
func (l *oddList) takeRaw(text []byte, limit int, p *pace.Pace) bool {
	whole := false // a word that ended without a gap was there
	for at := 0; at < len(text) && l.counted() < limit; {
		start, end, cut := at, at, false
		for cut = l.cutAt(end); !cut; cut = l.cutAt(end) {
			if end++; end == len(text) || !isRawEnd[text[end]] {
				break
			}
		}
		for start = end; !cut && end < len(text) && !isRawEnd[text[end]]; {
			if cut = l.cutAt(end); !cut {
				end++
			}
		}
		if end == len(text) || end-start > maxWord || p.Over(end-at+1) {
			return end == len(text)
		}
		if at = end; cut {
			g := l.gap()
			l.drop(g.from)
			at += g.end - g.start
		} else {
			whole = true
		}
		switch {
		case !whole:
		case start == end:
			l.decay.found++
		case l.decay.keeps(text[start:end], at):
			for _, c := range text[start:end] {
				l.text = append(l.text, lowerASCII(c))
			}
			l.ends = append(l.ends, len(l.text))
		}
	}
	return true
}

// readable returns text with a character that belongs to no word for each byte that is not UTF-8.
func readable(text []byte) []byte {
	out := bytes.Clone(text)
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if n == 1 && r == utf8.RuneError {
			out[at] = '?'
		}
		at += n
	}
	return out
}

// cutAt reports whether a gap begins at a place.
func (l *oddList) cutAt(at int) bool {
	g := l.gap()
	return g.from != noGap && g.start == at
}

// isRawEnd marks what ends words of a text that is not UTF-8.
var isRawEnd = func() (table [256]bool) {
	for _, c := range []byte("\t\n\r \"#$%&()*+,-./:;<=>?[\\]^_`{|}~") {
		table[c] = true
	}
	return table
}()

// isTail marks what may follow a word without a meaning for it.
var isTail = func() (table [256]bool) {
	for _, c := range []byte(",.;:?!)\"") {
		table[c] = true
	}
	return table
}()

// simpleWord returns how many letters begin text, if these are ASCII letters up
// to a blank or the end, with at most one punctuation mark behind them that means
// nothing there, and how many bytes that is; else 0, 0.
func simpleWord(text []byte) (letters, size int) {
	letters = scan.Letters(text)
	size = letters
	if size < len(text) && isTail[text[size]] {
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
	points  []byte         // see splitPoints
	normal  []byte         // of a word
	found   []span         // the links of the text
	letters scan.LetterMap // of the text
	// What there is in the text apart from words, and was not yet passed, each in order.
	links, shown []span
	lines        []int32
	passed       int  // what is before it is no word
	raw          bool // the text is not UTF-8
	decay        decay
}

// counted returns how many words were found, also those that a decay has left out.
func (l *oddList) counted() int { return l.len() + l.decay.left }

// A gap is what stands between words: a link, what is shown for one, or the start of a line, which has no length.
type gap struct {
	span
	from gapKind
}

// A gapKind says of what kind a gap is.
type gapKind uint8

const (
	noGap gapKind = iota
	linkGap
	lineGap
	shownGap
)

// gap returns the next gap. Of those that begin in one place, links come first.
func (l *oddList) gap() (g gap) {
	if len(l.links) > 0 {
		g = gap{l.links[0], linkGap}
	}
	if len(l.lines) > 0 {
		if at := int(l.lines[0]); g.from == noGap || at < g.start {
			g = gap{span{at, at}, lineGap}
		}
	}
	if len(l.shown) > 0 && (g.from == noGap || l.shown[0].start < g.start) {
		g = gap{l.shown[0], shownGap}
	}
	return g
}

// drop passes over the next gap, of that kind.
func (l *oddList) drop(kind gapKind) {
	switch kind {
	case linkGap:
		l.links = l.links[1:]
	case lineGap:
		l.lines = l.lines[1:]
	case shownGap:
		l.shown = l.shown[1:]
	}
}

// nextGap returns where the next gap is that ends at or behind at, which is the start of a word behind a blank. Those before it are dropped.
func (l *oddList) nextGap(at int) int {
	for {
		g := l.gap()
		if g.from == noGap {
			return math.MaxInt
		}
		if g.start > at || g.start == at && g.end > at {
			return g.start
		}
		l.drop(g.from)
	}
}

// odd appends the words of text, which begins at from, up to limit. Blanks keep text apart from what stands
// around it. It reports false if the words are too long or there is no time for them.
func (l *oddList) odd(text []byte, from int, limit int, p *pace.Pace) bool {
	if len(text) == 0 || len(text) == 1 && text[0] == ' ' || l.counted() >= limit {
		return true
	}
	if p.Over(len(text)) {
		return false
	}
	if scan.IsASCII(text) {
		return l.oddASCII(text, from, limit)
	}
	return l.oddWide(text, from, limit)
}

// oddWide does what odd does, for characters of all kinds.
func (l *oddList) oddWide(text []byte, from int, limit int) bool {
	l.points = splitPoints(l.points[:0], text)
	end := from
	piece := 0 // bytes of a piece between word boundaries that are left
	for it := words.FromBytes(l.points); l.counted() < limit && (piece > 0 || it.Next()); {
		if piece == 0 {
			piece = len(it.Value())
		}
		start := max(end, l.passed)
		size := alike(text[end-from : end-from+piece])
		piece -= size
		if end += size; end-start > maxWord || len(l.text) > maxText {
			return false
		}
		if start >= end {
			continue
		}
		first, last := l.between(start, end)
		if first >= last {
			continue
		}
		w := text[first-from : last-from]
		if !beginsWord(w) || !l.decay.keeps(w, end) {
			continue
		}
		if scan.IsASCII(w) {
			l.addASCII(w)
		} else {
			l.addWide(w)
		}
	}
	return true
}

// oddASCII is oddWide for text that is ASCII, in which word boundaries follow from a few of the rules.
func (l *oddList) oddASCII(text []byte, from int, limit int) bool {
	g := l.gap()
	for at := 0; at < len(text) && l.counted() < limit; {
		begun := at
		at += pieceASCII(text[at:])
		start, end := max(from+begun, l.passed), from+at
		if end-start > maxWord || len(l.text) > maxText {
			return false
		}
		if start >= end {
			continue
		}
		if g.from != noGap && g.start <= end {
			first, last := l.between(start, end)
			if g = l.gap(); first >= last {
				continue
			}
			start, end = first, last
		}
		if kinds[text[start-from]]&(wordKind|emptyKind) == 0 {
			continue
		}
		if w := text[start-from : end-from]; l.decay.keeps(w, from+at) {
			l.addASCII(w)
		}
	}
	return true
}

// What pieceASCII must know of a byte, and what makes words.
const (
	letterKind = 1 << iota // joins words, as digits and "_" do
	digitKind
	lowLineKind
	betweenLetters // joins what it stands between
	betweenDigits
	wordKind  // is written in a word
	emptyKind // begins a word that has no letters

	joinKind = letterKind | digitKind | lowLineKind
)

// kinds holds this for each byte of ASCII. "@" is a letter: see splitPoints.
var kinds = func() (table [256]uint8) {
	for i := range utf8.RuneSelf {
		c := byte(i)
		switch {
		case '0' <= c && c <= '9':
			table[c] = digitKind
		case isAlnum(c), c == '@':
			table[c] = letterKind
		case c == '_':
			table[c] = lowLineKind
		case c == '\'':
			table[c] = betweenLetters | betweenDigits
		case c == ',', c == ';', c == '.':
			table[c] = betweenDigits
		}
		if inWord(c) {
			table[c] |= wordKind
		} else if beginsWord([]byte{c}) {
			table[c] |= emptyKind
		}
	}
	return table
}()

// pieceASCII returns how many bytes of ASCII text are before its first word boundary but its start, as splitPoints wants them.
func pieceASCII(text []byte) int {
	first := kinds[text[0]]
	n := 1
	if first&joinKind == 0 {
		switch {
		case text[0] == ' ':
			for n < len(text) && text[n] == ' ' {
				n++
			}
		case text[0] == '\r' && len(text) > 1 && text[1] == '\n':
			n++
		}
		return n
	}
	for before := first; n < len(text); n++ {
		kind := kinds[text[n]]
		if kind&joinKind == 0 {
			if kind&(betweenLetters|betweenDigits) == 0 || n+1 == len(text) {
				break
			}
			if between := kind / betweenLetters * letterKind; before&kinds[text[n+1]]&between&(letterKind|digitKind) == 0 {
				break
			}
		}
		before = kind
	}
	return n
}

// between returns what of the piece of text from start to end is a word, as gaps leave it. It passes over those
// that begin in it, in the way in which rspamd does: what is behind one in the middle is lost.
func (l *oddList) between(start, end int) (first, last int) {
	g := l.gap()
	if g.from != noGap && g.start < start {
		for ; g.from != noGap && g.start <= start; g = l.gap() {
			l.drop(g.from)
		}
		return start, end
	}
	for ; g.from != noGap && g.start <= start; g = l.gap() {
		l.pass(g)
		start += g.end - g.start
		if l.passed = start; start > end {
			return start, start
		}
	}
	if g.from == noGap || g.start > end {
		return start, end
	}
	l.pass(g)
	if l.passed = g.end; g.end > end {
		return end, end
	}
	return start, g.start
}

// pass drops the next gap. Links count as words.
func (l *oddList) pass(g gap) {
	l.drop(g.from)
	if g.from != lineGap {
		l.decay.found++
	}
}

// beginsWord reports whether a word begins with the first character of text, which to rspamd may be a control or format
// character. Such a word counts, and is empty.
func beginsWord(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	if c := text[0]; c < utf8.RuneSelf {
		return inWord(c) || c <= 0x08 || 0x0E <= c && c <= 0x1B || c == 0x7F
	}
	r, _ := scan.Rune(text)
	return begun.At(r) != noWord
}

// A decay leaves out words of long texts: behind the first 600 words and links so many that
// about 600 more are left. Which ones, depends on the words before.
//
// Source: docs/specs/rspamd-fuzzy.md#word-digest.
type decay struct {
	size  int // of the text, in bytes
	found int // words and links so far
	hash  uint64
	begun bool
	most  uint64 // of the hash, for words that stay
	left  int    // words that do not
}

// Parameters of the decay.
const (
	decayWords = 600 // rspamd's option words_decay
	decayWord  = 6.0 // bytes that a word has, it is assumed
)

// keeps reports whether a word, which ends at end, stays.
func (d *decay) keeps(word []byte, end int) bool {
	if d.begun {
		d.hash = d.hash*2862933555777941757 + 3037000493
		if d.hash > d.most {
			d.left++
		}
		return d.hash <= d.most
	}
	if len(word) >= 8 {
		d.hash = mum(d.hash, mumStep) ^ mum(binary.LittleEndian.Uint64(word), mumKey)
	}
	if d.found > decayWords && end < d.size {
		d.begun = true
		d.hash, d.most = mumFinish(d.hash), math.MaxUint64
		if share := math.Floor(decayWords/(float64(d.size-end)/decayWord)*10) / 10; share < 1 {
			d.most = uint64(share * math.MaxUint64)
		}
	}
	d.found++
	return true
}

// alike returns how many bytes of piece are before Hangul syllables meet anything else: to ICU there is a word boundary,
// and to Unicode none.
func alike(piece []byte) int {
	const first, last = '가', '힣'
	hangul := false
	for at, lead := range piece {
		if lead < 0xC0 {
			if lead < utf8.RuneSelf && hangul {
				return at
			}
			continue
		}
		r, _ := scan.Rune(piece[at:])
		if is := first <= r && r <= last; is != hangul {
			if at > 0 && !unicode.IsMark(r) {
				return at
			}
			hangul = is
		}
	}
	return len(piece)
}

// splitPoints appends text to dst with an exclamation mark for each colon, for each byte of a cedilla that stands alone, and for each point that does
// not stand between two digits, and a letter for each "@". The word boundaries are those of
// ICU 72's locale en_US_POSIX, in which the first three join no letters, and the last is one.
func splitPoints(dst, text []byte) []byte {
	out := append(dst, text...)
	digit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	for i, c := range text {
		if c == ':' || c == '.' && !(digit(i-1) && digit(i+1)) {
			out[i] = '!'
		} else if c == '@' {
			out[i] = 'a'
		} else if c == 0xB8 && i > 0 && text[i-1] == 0xC2 {
			out[i-1], out[i] = '!', '!'
		}
	}
	return out
}

// addASCII is addWide for an ASCII word.
func (l *wordList) addASCII(w []byte) {
	if len(w) == 0 || !inWord(w[0]) {
		return
	}
	n := len(l.text)
	l.text = append(l.text, w...)
	for _, c := range w {
		if l.text[n] = lowerASCII(c); kinds[c]&wordKind != 0 {
			n++
		}
	}
	l.text = l.text[:n]
	l.ends = append(l.ends, n)
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
	if to == noWord || to == emptyWord {
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
	noWord    rune = -1 - iota // no word begins with it
	several                    // it becomes several, or none
	emptyWord                  // a word begins with it that has no letters
)

// begun holds what a character that begins a word becomes, if nothing follows it.
var begun = scan.NewRunes(func(r rune) rune {
	if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Sc, r) && !unicode.Is(unicode.Pc, r) {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return emptyWord
		}
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
