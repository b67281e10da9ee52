package dcc

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"fmt"
	"hash"
	"io"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/encoding/charmap"
)

// Limits of Fuz2, docs/specs/dcc.md#fuz2.
const (
	fuz2MinWord   = 3   // letters
	fuz2MaxWord   = 16  // letters
	fuz2MinWords  = 8   // below it the hosts must help
	fuz2Enough    = 100 // words that need no further proof
	fuz2HostBytes = 514 // of the host list
	fuz2MaxTag    = 2000
)

// languages are the tables of Fuz2 in the order in which ties are decided.
var languages = [...]string{"english", "spanish", "polish", "dutch"}

const polish = 2 // index; its table is only used with folding table 2

// Words are the word tables of Fuz2, one for each language. The operator supplies
// them in a file; none are shipped. A Words is immutable and may be shared.
type Words struct {
	tables [len(languages)]map[string]struct{}
}

// ReadWords reads word tables: UTF-8 text with one word of 3 to 16 letters per line
// below a heading "[english]", "[spanish]", "[polish]" or "[dutch]". Empty lines and
// lines that begin with "#" are skipped. Any other line is an error that names it. At
// most 4 MiB are read.
//
// Source: docs/specs/dcc.md#fuz2.
func ReadWords(r io.Reader) (*Words, error) {
	const maxBytes = 4 << 20
	w := new(Words)
	language := -1
	in := bufio.NewScanner(io.LimitReader(r, maxBytes))
	for line := 1; in.Scan(); line++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if text[0] == '[' {
			if language = indexLanguage(text); language < 0 {
				return nil, fmt.Errorf("digest/dcc: word table line %d: unknown heading %.40q", line, text)
			}
			continue
		}
		if language < 0 {
			return nil, fmt.Errorf("digest/dcc: word table line %d: word %.40q before any heading", line, text)
		}
		word, err := foldWord(text, language == polish)
		if err != nil {
			return nil, fmt.Errorf("digest/dcc: word table line %d: %w", line, err)
		}
		if w.tables[language] == nil {
			w.tables[language] = make(map[string]struct{})
		}
		w.tables[language][word] = struct{}{}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("digest/dcc: word table: %w", err)
	}
	return w, nil
}

func indexLanguage(heading string) int {
	for i, name := range languages {
		if strings.EqualFold(heading, "["+name+"]") {
			return i
		}
	}
	return -1
}

func foldWord(text string, latin2 bool) (string, error) {
	encoding := charmap.ISO8859_1
	if latin2 {
		encoding = charmap.ISO8859_2
	}
	raw, err := encoding.NewEncoder().String(text)
	if err != nil {
		return "", fmt.Errorf("word %.40q is not in %v", text, encoding)
	}
	folded := []byte(raw)
	for i, c := range folded {
		if folded[i] = fold(c, latin2); folded[i] < 'a' {
			return "", fmt.Errorf("word %.40q has characters that are not letters", text)
		}
	}
	if len(folded) < fuz2MinWord || len(folded) > fuz2MaxWord {
		return "", fmt.Errorf("word %.40q has %d letters, want %d to %d", text, len(folded), fuz2MinWord, fuz2MaxWord)
	}
	return string(folded), nil
}

// Values of a folding table for bytes that are not letters. Letters have higher values. Source:
// docs/specs/dcc.md#folding-tables.
const (
	foldIgnore = 0
	foldJunk   = 1
	foldBlank  = ' '
	foldTag    = '<'
)

// fold folds a byte by table 1 (ISO 8859-1) or 2 (ISO 8859-2).
func fold(c byte, latin2 bool) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	case c >= 'a' && c <= 'z' || c == foldTag:
		return c
	case c < 0xA0:
		if strings.IndexByte("\t\n\f\r !\"'(),.:;=>?", c) >= 0 {
			return foldBlank
		}
		return foldJunk
	case latin2:
		return foldLatin2(c)
	}
	switch {
	case c == 0xD7 || c == 0xF7:
		return foldJunk
	case c >= 0xC0 && c <= 0xDE:
		return c + 0x20
	case c >= 0xDF:
		return c
	}
	switch c {
	case 0xA0, 0xA1, 0xA9, 0xAB, 0xAE, 0xBB, 0xBF:
		return foldBlank
	case 0xA8, 0xAD, 0xAF, 0xB4, 0xB8:
		return foldIgnore
	}
	return foldJunk
}

func foldLatin2(c byte) byte {
	switch c {
	case 0xA0:
		return foldBlank
	case 0xA2, 0xA8, 0xAD, 0xB2, 0xB4, 0xB7, 0xB8, 0xBD, 0xFF:
		return foldIgnore
	case 0xA4, 0xA7, 0xB0, 0xD7, 0xF7:
		return foldJunk
	}
	return c
}

// A fuz2Sum computes the Fuz2 checksum: the MD5 of the words of the language
// that knows most words of the text.
//
// Source: docs/specs/dcc.md#fuz2.
type fuz2Sum struct {
	words  *Words // nil switches the sum off
	html   bool
	latin2 bool

	langs    [len(languages)]fuz2Language
	tagBytes int // bytes of tags, which count as explained
	nonBlank int

	word  []byte
	junk  bool   // the word holds what no word holds
	tag   []byte // name of the tag that is being read
	inTag bool
	named bool // the name of the tag is complete
	size  int  // bytes of the tag so far
	ref   []byte

	url   urlMachine
	host  []byte
	label int // where the label begins that the last dot opened
	level int // where the second-level label begins
	hosts []byte
	count int
}

type fuz2Language struct {
	hash  hash.Hash
	words int
	bytes int
}

func (f *fuz2Sum) init(words *Words) {
	f.words = words
	if words == nil {
		return
	}
	for i := range f.langs {
		f.langs[i].hash = md5.New()
	}
	f.url.on = f.urlEvent
}

// entity begins an entity of the given kind.
func (f *fuz2Sum) entity(html, latin2 bool) { f.html, f.latin2 = html, latin2 }

func (f *fuz2Sum) chunk(p []byte) {
	if f.words == nil {
		return
	}
	for _, c := range p {
		lower := lowerASCII(c)
		if f.url.wants(lower) {
			f.url.feed(lower)
		}
		f.decoded(c)
	}
}

// decoded resolves character references.
func (f *fuz2Sum) decoded(c byte) {
	switch {
	case len(f.ref) == 0 && c == '&':
		f.ref = append(f.ref, c)
	case len(f.ref) == 0:
		f.byte(c)
	case isRefByte(c, len(f.ref)) && len(f.ref) <= maxRef:
		f.ref = append(f.ref, c)
	default:
		v := decodeRef(f.ref[1:])
		f.ref = f.ref[:0]
		f.byte(v)
		if c != ';' {
			f.decoded(c)
		}
	}
}

func (f *fuz2Sum) byte(c byte) {
	if f.inTag {
		f.inside(c)
		return
	}
	v := fold(c, f.latin2)
	if v != foldBlank {
		f.nonBlank++
	}
	switch {
	case v == foldTag:
		f.endWord()
		f.inTag, f.named, f.tag, f.size = true, false, f.tag[:0], 1
	case v == foldBlank:
		f.endWord()
	case v < 'a':
		f.junk = true
	case len(f.word) > fuz2MaxWord:
		// Too long already; its end is all that matters.
	default:
		f.word = append(f.word, v)
	}
}

// inside reads a byte of what may be a tag.
func (f *fuz2Sum) inside(c byte) {
	const maxName = 16
	f.size++
	c = lowerASCII(c)
	if !f.named {
		n := len(f.tag)
		switch {
		case n < maxName && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || n == 0 && (c == '/' || c == '!') ||
			(n == 1 || n == 2) && c == '-' && f.tag[0] == '!'):
			f.tag = append(f.tag, c)
			return
		case n == 0:
			f.inTag = false
			return
		}
		f.named = true
		f.html = f.html || string(f.tag) == "html"
	}
	if !f.html {
		f.inTag = false
		return
	}
	if c == '>' || f.size >= fuz2MaxTag {
		f.inTag = false
		f.tagBytes += f.size
		f.nonBlank += f.size - 1
	}
}

func (f *fuz2Sum) endWord() {
	word := f.word
	f.word = f.word[:0]
	if junk := f.junk; junk || len(word) < fuz2MinWord || len(word) > fuz2MaxWord {
		f.junk = false
		return
	}
	for i, table := range f.words.tables {
		if i == polish && !f.latin2 {
			continue
		}
		if _, ok := table[string(word)]; ok {
			f.langs[i].hash.Write(word)
			f.langs[i].words++
			f.langs[i].bytes += len(word)
		}
	}
}

func (f *fuz2Sum) urlEvent(e urlEvent, c byte) {
	switch e {
	case eventHostStart, eventHostRestart:
		f.host, f.label, f.level = f.host[:0], 0, 0
	case eventHostByte, eventHostDot:
		if e == eventHostDot {
			c = '.'
		}
		if len(f.host) <= fuz2HostBytes { // a longer one is none
			f.host = append(f.host, c)
		}
		if e == eventHostByte {
			break
		}
		f.level, f.label = f.label, len(f.host)
	case eventHostEnd:
		f.addHost()
	}
}

func (f *fuz2Sum) addHost() {
	if len(f.host) == 0 || len(f.host) > fuz2HostBytes {
		return
	}
	host := f.host
	if f.langs[0].words < fuz2MinWords {
		host = host[f.level:]
	}
	name := string(host)
	if ascii, err := idna.Punycode.ToASCII(name); err == nil {
		name = ascii
	}
	f.hosts = append(append(f.hosts, name...), 0)
	for len(f.hosts) > fuz2HostBytes {
		f.hosts = f.hosts[bytes.IndexByte(f.hosts, 0)+1:]
	}
	f.count++
}

func (f *fuz2Sum) sum() (sum [md5.Size]byte, ok bool) {
	if f.words == nil {
		return sum, false
	}
	f.endWord()
	best := &f.langs[0]
	for i := range f.langs {
		if f.langs[i].words > best.words {
			best = &f.langs[i]
		}
	}
	if best.words < fuz2Enough && (best.bytes+f.tagBytes)*10 < f.nonBlank {
		return sum, false
	}
	if best.words < fuz2MinWords {
		if best.words+4*f.count < fuz2MinWords {
			return sum, false
		}
		best.hash.Write(bytes.TrimSuffix(f.hosts, []byte{0}))
	}
	best.hash.Sum(sum[:0])
	return sum, true
}
