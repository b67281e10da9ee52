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
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/normal"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Policy selects the hash of a part. The zero value has the defaults of an rspamd rule.
//
// Source: docs/specs/rspamd-fuzzy.md#digests.
type Policy struct {
	MinWords int // least number of words of a text with shingles; 0 means 64, below 32 means 32
	MinBytes int // least size of short texts and attachments; 0 means 1024, below 0 no limit
	// TextMultiplier multiplies the length of short texts before the comparison with
	// MinBytes; 0 means 4.
	TextMultiplier int
	// AllTypes hashes attachments of any type, not application/* only.
	AllTypes bool
	// MaxWords is the greatest number of words of a text with a hash; 0 means no limit.
	MaxWords int
}

// A Hash is the hash that fuzzy_check computes of one part of a message.
type Hash struct {
	Digest [blake2b.Size]byte
	// Shingles are set for texts that have enough words, else nil.
	Shingles *[Shingles]uint64
}

// Signature returns the digest as a signature.
func (h *Hash) Signature() bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.RspamdText, h.Digest[:])
}

// Hashes returns the hashes of the parts of a raw message, in their order, without duplicates. The
// hash of a text equals rspamd's if rspamd reads the page in the same way and the function
// words identify the language; docs/fidelity.md reports how often this holds.
//
// Texts of more than half a MiB, or with a word of more than 16 KiB, have no hash. Hashes reads
// at most 2 MiB of text. It fails only when raw is empty (the error wraps [bulkhead.ErrMalformed]) or
// longer than 64 MiB (it wraps [bulkhead.ErrOverLimit]), or when ctx ends (it wraps the error of ctx).
func (h *Hasher) Hashes(ctx context.Context, raw []byte, policy Policy) ([]Hash, error) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return nil, err
	}
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

// Limits in bytes. A text with few enough words for a digest stays far below them.
const (
	maxText   = 512 << 10 // of one text
	maxSource = 1 << 20   // of its source
	maxTexts  = 2 << 20   // of all sources of a message
	maxWord   = 16 << 10  // of one word
	maxStem   = 1 << 10   // of a word that is stemmed: the stemmer copies the word for each letter
	maxPiece  = 64 << 10  // of text that is split into words at a time
)

// text returns the fuzzy hash of one text part. known reports whether its charset could be decoded.
func (h *Hasher) text(part *mail.Part, known bool, subject func() string, policy Policy,
	p *pace.Pace) (hash Hash, ok bool) {
	if n := len(part.Text); !part.HTML && n < policy.MinWords && policy.tooShort(n, subject()) {
		return hash, false // too short before it is stripped
	}
	stripped := strippedText(part, p)
	stripped.known = known
	defer stripped.back()
	if len(stripped.text) > maxText || len(bytes.TrimSpace(stripped.text)) == 0 {
		return hash, false // rspamd skips empty texts
	}
	if len(stripped.text) < policy.MinWords && policy.tooShort(len(stripped.text), subject()) {
		return hash, false // a text has no more words than bytes
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

// A stripped is a text on one line, ready to be split into words.
type stripped struct {
	text  []byte
	lines []int32 // starts of the lines in text, without the first
	shown []span  // texts of the links of a page; like rspamd's, the indexes are from before stripping
	bare  bool    // host names are links
	known bool    // the charset is known, so invalid UTF-8 only ends words
}

// strippedTexts recycles their memory. It holds no state.
var strippedTexts = sync.Pool{New: func() any { return new(stripped) }}

// back recycles s. The caller must not use it afterwards.
func (s *stripped) back() {
	if cap(s.text)+cap(s.lines)*4+cap(s.shown)*16 <= maxSpare {
		strippedTexts.Put(s)
	}
}

// strippedText returns the stripped text of a part. The caller may recycle it by back.
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

// strip puts text on one line in s and notes where the lines begin. Line ends in a row become one blank. Blanks at the
// start of a line, except the first, and zero-width characters are removed.
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
	// blank is set once a blank stands for the line end, bracket within "<" of a line.
	state, blank, bracket := inLine, false, false
	end := func(asBlank bool) {
		if asBlank {
			out = append(out, ' ')
			blank = true
		}
		lines = append(lines, int32(len(out)))
	}
	from := 0 // start of the text that is not yet appended
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

// nextStrip returns the index of the first byte of text at or after at that matters to strip, or len(text).
func nextStrip(text []byte, at int) int {
	for at = mayStrip.Index(text, at); at < len(text) && !strips(text[at:]); {
		at = mayStrip.Index(text, at+1)
	}
	return at
}

// strips reports whether the first byte of text, a member of mayStrip, matters to strip.
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

// invisible returns the size of the zero-width characters that begin text. A single one stays
// at the start of a line, and the last one stays at the end of the text.
func invisible(text []byte, within bool) int {
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

// mayStrip holds line ends, brackets, and the bytes that begin a zero-width character.
var mayStrip = scan.NewByteSet("\r\n<>\xC2\xE2\xEF")

// A workspace is memory for the words of a text. It holds no state.
type workspace struct {
	found oddList
	words vocabulary
	text  []byte // of the words, concatenated
	env   *snowballstem.Env
}

// maxRecycled is the greatest size in bytes of the words in a workspace that is recycled.
const maxRecycled = 128 << 10

// back recycles s in to.
func (s *workspace) back(to *sync.Pool) {
	if cap(s.found.text) > maxRecycled {
		return
	}
	clear(s.words.words) // release the stems
	if s.env != nil {
		s.env.SetCurrent("")
	}
	to.Put(s)
}

// stemmedWords returns the stemmed words of a stripped text, or nil if there are fewer than least. It reports false if
// there are more than limit, if one is too long, or if p has ended. The words belong to s.
func (s *workspace) stemmedWords(stripped *stripped, least, limit int, h *Hasher, p *pace.Pace) (*vocabulary, bool) {
	// The first part of a text with too many words usually has too many already. No
	// word reaches across a blank.
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
		language = h.language(stripped.text, v, s.found.decay.found)
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
			slot := h.stems.at(language, v.hash[i])
			if short, ok := slot.stem(language, w); ok {
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
			slot.keep(language, w, v.words[i])
		}
	}
	return v, true
}

// take makes l the first words of a text, before stemming, up to limit. It reports false if a word is too long or p
// has ended.
func (l *oddList) take(s *stripped, limit int, p *pace.Pace) bool {
	text := s.text
	l.empty(min(len(text), maxText))
	l.found = findLinks(l.found[:0], text, s.lines, s.bare)
	l.gaps, l.passed = gaps{links: l.found, lines: s.lines, shown: s.shown}, 0
	l.gaps.find()
	l.decay = decay{size: len(text)}
	if l.raw = false; !utf8.Valid(text) {
		if l.raw = !s.known; l.raw {
			return l.takeRaw(text, limit, p)
		}
		text = readable(text)
	}
	for at := 0; at < len(text) && l.counted() < limit; {
		end := stretch(text, at)
		if end-at > maxWord+maxPiece || p.Over(end-at) || !l.split(text[at:end], at, limit) {
			return false
		}
		at = end
	}
	return true
}

// stretch returns the end of a piece of text from at on that has the same words alone as within text. Such a piece is
// either ASCII or as short as blanks allow.
func stretch(text []byte, at int) (end int) {
	ascii := at + scan.ASCIIPrefix(text[at:min(at+maxPiece, len(text))])
	if ascii == len(text) {
		return ascii
	}
	// A blank joins the combining marks behind it, so the piece ends before the blanks.
	if last := bytes.LastIndexByte(text[at:ascii], ' '); last > 0 {
		if n := len(bytes.TrimRight(text[at:at+last], " ")); n > 0 {
			return at + n
		}
	}
	for end = ascii; ; {
		n := bytes.IndexByte(text[end:], ' ')
		if n < 0 {
			return len(text)
		}
		if end += n; end-at >= maxPiece {
			return end
		}
		for end < len(text) && text[end] == ' ' {
			end++
		}
		if end == len(text) || text[end] < utf8.RuneSelf {
			return end
		}
	}
}

// takeRaw makes l the first words of a text that is not UTF-8. Words stand between ASCII punctuation. The first byte of
// the text and what follows the last mark belong to no word. The words are not stemmed.
//
// Source: docs/specs/rspamd-fuzzy.md#raw-text.
func (l *oddList) takeRaw(text []byte, limit int, p *pace.Pace) bool {
	whole := false // a word has ended without a gap
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
			g := l.gaps.drop()
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

// readable returns text with "?", which belongs to no word, for each byte that is not UTF-8.
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
func (l *oddList) cutAt(at int) bool { return l.gaps.next.kind != noGap && l.gaps.next.start == at }

// isRawEnd marks the bytes that end words of a text that is not UTF-8.
var isRawEnd = func() (table [256]bool) {
	for _, c := range []byte("\t\n\r \"#$%&()*+,-./:;<=>?[\\]^_`{|}~") {
		table[c] = true
	}
	return table
}()

// An oddList is a list of words with the state of the search for them.
type oddList struct {
	wordList
	points []byte // see splitPoints
	normal []byte // normal form of a word
	found  []span // links of the text
	gaps   gaps   // of the text, not yet passed
	passed int    // no word begins before it
	raw    bool   // the text is not UTF-8
	decay  decay
}

// counted returns the number of words found, including those that the decay left out.
func (l *oddList) counted() int { return l.len() + l.decay.left }

// A gap stands between words: a link, the text shown for one, or the start of a line, which has no length.
type gap struct {
	span
	kind gapKind
}

type gapKind uint8

const (
	noGap gapKind = iota
	linkGap
	lineGap
	shownGap
)

// gaps is a queue of the gaps of a text by their starts. Of gaps that start in one place, links come first.
type gaps struct {
	next         gap // its kind is noGap at the end
	links, shown []span
	lines        []int32
}

// find sets g.next.
func (g *gaps) find() {
	g.next = gap{}
	if len(g.links) > 0 {
		g.next = gap{g.links[0], linkGap}
	}
	if len(g.lines) > 0 {
		if at := int(g.lines[0]); g.next.kind == noGap || at < g.next.start {
			g.next = gap{span{at, at}, lineGap}
		}
	}
	if len(g.shown) > 0 && (g.next.kind == noGap || g.shown[0].start < g.next.start) {
		g.next = gap{g.shown[0], shownGap}
	}
}

// drop removes the next gap and returns it.
func (g *gaps) drop() gap {
	dropped := g.next
	switch dropped.kind {
	case linkGap:
		g.links = g.links[1:]
	case lineGap:
		g.lines = g.lines[1:]
	case shownGap:
		g.shown = g.shown[1:]
	}
	g.find()
	return dropped
}

// startsBy reports whether the next gap starts at or before at.
func (g *gaps) startsBy(at int) bool { return g.next.kind != noGap && g.next.start <= at }

// split appends the words of text, which begins at from, up to limit. It reports false if a word is too long.
func (l *oddList) split(text []byte, from, limit int) bool {
	ascii := scan.IsASCII(text)
	var boundaries *words.Iterator[[]byte]
	if !ascii {
		l.points = splitPoints(l.points[:0], text)
		boundaries = words.FromBytes(l.points)
	}
	for at, piece := 0, 0; at < len(text) && l.counted() < limit; {
		begin := at
		switch {
		case ascii && text[at] == ' ' && !l.gaps.startsBy(from+at+1):
			at++
			continue
		case ascii:
			at += pieceASCII(text[at:])
		case piece == 0:
			boundaries.Next()
			piece = len(boundaries.Value())
			fallthrough
		default:
			n := alike(text[at : at+piece])
			at, piece = at+n, piece-n
		}
		start, end := max(from+begin, l.passed), from+at
		if end-start > maxWord || len(l.text) > maxText {
			return false
		}
		if start >= end {
			continue
		}
		if l.gaps.startsBy(end) {
			plain := start == from+begin && isPlain(text, begin, at)
			if start, end = l.between(start, end, plain); start >= end {
				continue
			}
		}
		w := text[start-from : end-from]
		switch {
		case !beginsWord(w) || !l.decay.keeps(w, from+at):
		case ascii || scan.IsASCII(w):
			l.addASCII(w)
		default:
			l.addWide(w)
		}
	}
	return true
}

// isPlain reports whether text[start:end] is a word of ASCII letters between blanks, with at most one mark behind it.
func isPlain(text []byte, start, end int) bool {
	for _, c := range text[start:end] {
		if !scan.IsLetter(c) {
			return false
		}
	}
	if end < len(text) && strings.IndexByte(",.;:?!)\"", text[end]) >= 0 {
		end++
	}
	return (start == 0 || text[start-1] == ' ') && (end == len(text) || text[end] == ' ')
}

// Kinds of bytes for pieceASCII, and for the start of words.
const (
	letterKind = 1 << iota // joins words, as digits and "_" do
	digitKind
	lowLineKind
	betweenLetters // joins what it stands between
	betweenDigits
	wordKind  // belongs to words
	emptyKind // begins a word that has no letters

	joinKind = letterKind | digitKind | lowLineKind
)

// kinds holds the kinds of each ASCII byte. "@" is a letter: see splitPoints.
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
		} else if c <= 0x08 || 0x0E <= c && c <= 0x1B || c == 0x7F {
			table[c] |= emptyKind
		}
	}
	return table
}()

// pieceASCII returns the size of the first piece of ASCII text between word boundaries, by the rules of splitPoints.
// With the boundaries of package words in its place, signature.Compute of a plain text takes a quarter longer.
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
	for {
		for n < len(text) && kinds[text[n]]&joinKind != 0 {
			n++
		}
		if n+1 >= len(text) {
			return n
		}
		kind := kinds[text[n]]
		between := kind / betweenLetters * letterKind
		if kinds[text[n-1]]&kinds[text[n+1]]&between&(letterKind|digitKind) == 0 {
			return n
		}
		n++
	}
}

// between returns the part of the piece of text from start to end that is a word, given the gaps that start in it. It
// drops these gaps. Like rspamd, it loses what follows a gap in the middle of the piece. Where gaps overlap, the second
// counts only if a plain word begins it.
func (l *oddList) between(start, end int, plain bool) (first, last int) {
	if l.gaps.startsBy(start - 1) {
		for l.gaps.startsBy(start - 1) {
			l.gaps.drop()
		}
		if !plain {
			for l.gaps.startsBy(start) {
				l.gaps.drop()
			}
			return start, end
		}
	}
	for l.gaps.startsBy(start) {
		g := l.pass()
		start += g.end - g.start
		if l.passed = start; start > end {
			return start, start
		}
	}
	if !l.gaps.startsBy(end) {
		return start, end
	}
	g := l.pass()
	if l.passed = g.end; g.end > end {
		return end, end
	}
	return start, g.start
}

// pass drops the next gap and returns it. Links count as words.
func (l *oddList) pass() gap {
	g := l.gaps.drop()
	if g.kind != lineGap {
		l.decay.found++
	}
	return g
}

// beginsWord reports whether a word begins with the first character of text. For rspamd, control and format characters
// begin words as well. Such a word counts, and is empty.
func beginsWord(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	if c := text[0]; c < utf8.RuneSelf {
		return kinds[c]&(wordKind|emptyKind) != 0
	}
	r, _ := scan.Rune(text)
	return begun.At(r) != noWord
}

// A decay leaves out words of long texts. Of the words behind the first 600 words and links, it
// keeps about 600. The choice depends on the words before.
//
// Source: docs/specs/rspamd-fuzzy.md#word-digest.
type decay struct {
	size  int // of the text, in bytes
	found int // number of words and links so far
	hash  uint64
	begun bool
	most  uint64 // words stay while the hash is at most this
	left  int    // number of words left out
}

// Parameters of the decay.
const (
	decayWords = 600 // rspamd's option words_decay
	decayWord  = 6.0 // assumed size of a word, in bytes
)

// keeps reports whether a word that ends at end stays.
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

// alike returns the index in piece at which Hangul syllables meet anything else. ICU has a word boundary there, Unicode
// has none.
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

// splitPoints appends text to dst, changed so that Unicode's word boundaries become those of ICU
// 72's locale en_US_POSIX. An exclamation mark replaces each colon, each byte of a spacing cedilla,
// and each point that is not between two digits, which join no letters in ICU. A letter replaces
// "@", which is a letter in ICU.
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
	if len(w) == 0 || wordBytes[w[0]] == 0 {
		return
	}
	for _, c := range w {
		if to := wordBytes[c]; to != 0 {
			l.text = append(l.text, to)
		}
	}
	l.ends = append(l.ends, len(l.text))
}

// wordBytes maps the ASCII characters of words to lower case, and others to 0.
var wordBytes = func() (table [256]byte) {
	for c := range byte(utf8.RuneSelf) {
		if inWord(c) {
			table[c] = lowerASCII(c)
		}
	}
	return table
}()

// inWord reports whether an ASCII character belongs to words: see addWide.
func inWord(c byte) bool { return isAlnum(c) || c == '_' || c == '$' }

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// addWide appends the letters, digits, underscores and currency signs of a word in lower case. It leaves out other
// characters, such as the apostrophe in "don't" and the point in "3.14". A word that begins with one of these, or has
// nothing else, is not added.
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

// normPiece is about the size of the pieces in which a word is normalised, in bytes.
const normPiece = 512

// addNormal appends the characters of l.normal that belong to words.
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

// Values of begun for characters that do not become a single word character.
const (
	noWord    rune = -1 - iota // begins no word
	several                    // becomes several characters, or none
	emptyWord                  // begins a word without letters
)

// begun maps the first character of a word to its form as a word of its own, or to a constant above.
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

// lowered maps the characters of words to lower case, and others to -1.
var lowered = scan.NewRunes(func(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.Is(unicode.Sc, r) ||
		unicode.Is(unicode.Pc, r) {
		return unicode.ToLower(r)
	}
	return -1
})
