package rspamd

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/cespare/xxhash/v2"
	"github.com/clipperhouse/uax29/v2/words"
	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// stripText returns text as it is stripped.
func stripText(text []byte, page bool) ([]byte, []int32) {
	var s stripped
	s.strip(text, page)
	return s.text, s.lines
}

// naiveWords returns the words of a text by the word boundaries of the whole.
func naiveWords(s *stripped, limit int) []string {
	l := oddList{decay: decay{size: len(s.text)}}
	l.gaps = gaps{links: findLinks(nil, s.text, s.lines, s.bare), lines: s.lines}
	l.gaps.find()
	at := 0
	for it := words.FromBytes(splitPoints(nil, s.text)); it.Next(); {
		for piece := len(it.Value()); piece > 0 && l.counted() < limit; {
			n := alike(s.text[at : at+piece])
			start, end := max(at, l.passed), at+n
			at, piece = end, piece-n
			if start >= end {
				continue
			}
			if first, last := l.between(start, end, false); first < last {
				if w := s.text[first:last]; beginsWord(w) && l.decay.keeps(w, end) {
					l.addWide(w)
				}
			}
		}
	}
	return l.strings()
}

// listed returns the words of a list or a vocabulary, none of nil.
func listed[L wordList | vocabulary](l *L) []string {
	switch l := any(l).(type) {
	case *wordList:
		if l != nil {
			return l.strings()
		}
	case *vocabulary:
		if l != nil {
			return l.strings()
		}
	}
	return nil
}

// naiveShingle is shingle j of words.
func naiveShingle(h *Hasher, j int, words []string) uint64 {
	seed, least := binary.LittleEndian.Uint64(h.keys[j][:]), uint64(math.MaxUint64)
	var older, old uint64
	for _, w := range words[:max(len(words)-2, 1)] {
		var v uint64
		switch h.algorithm {
		case MumHash:
			v = mumHash(w, seed)
		case XXHash:
			d := xxhash.NewWithSeed(seed)
			d.WriteString(w)
			v = d.Sum64()
		case SipHash:
			least = min(least, siphash.Hash(seed, binary.LittleEndian.Uint64(h.keys[j][8:]), []byte(w+w+w)))
			continue
		}
		least, older, old = min(least, older>>16^old>>8^v), old, v
	}
	return least
}

// TestVocabulary checks that a vocabulary, which stores each distinct word once, still gives the whole text.
// It also checks how often each word occurs, from which languages are recognised.
func TestVocabulary(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var v vocabulary // with what is left from the text before
	for range 300 {
		var l wordList
		for range r.IntN(200) {
			l.add(strings.Repeat(string(rune('a'+r.IntN(4))), r.IntN(40)))
		}
		v.take(&l, maphash.MakeSeed())
		words := l.strings()
		if got := v.strings(); !slices.Equal(got, words) {
			t.Fatalf("%q, want %q", got, words)
		}
		if string(v.appendText(nil)) != strings.Join(words, "") {
			t.Fatalf("text %q of %q", v.appendText(nil), words)
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(words))); len(v.words) != len(distinct) {
			t.Fatalf("%d different words, want %d", len(v.words), len(distinct))
		}
		for id, w := range v.words {
			n := 0
			for _, other := range words {
				if other == w {
					n++
				}
			}
			if int(v.times[id]) != n {
				t.Fatalf("%q is there %d times, want %d", w, v.times[id], n)
			}
		}
		for _, algorithm := range []Algorithm{MumHash, SipHash, XXHash} {
			h := NewHasher("", "", algorithm)
			got := h.Shingles(words)
			for j := range got {
				if len(words) > 0 && got[j] != naiveShingle(h, j, words) {
					t.Fatalf("%s shingle %d of %q: %x, want %x", algorithm, j, words, got[j], naiveShingle(h, j, words))
				}
			}
		}
	}
	for i := range languages {
		words := strings.Fields(languages[i].words)
		if slices.Sort(words); len(slices.Compact(slices.Clone(words))) != len(words) {
			t.Errorf("a word of language %d counts twice", i)
		}
	}
}

// TestLower: words get the lower case that the library gives them, and are looked for if a stop word begins like them.
func TestLower(t *testing.T) {
	for r := range rune(0x20000) {
		if word := []byte(string(r) + "aB"); string(appendLower(nil, word)) != strings.ToLower(string(word)) {
			t.Fatalf("%q in lower case: %q", word, appendLower(nil, word))
		}
	}
	for word := range ownWords.of {
		if r, _ := utf8.DecodeRuneInString(strings.ToUpper(word)); r >= utf8.RuneSelf && !ownWords.beginsWide(r) {
			t.Errorf("%q is not looked for", word)
		}
	}
}

// TestStemLong: the stems of long English words are the stemmer's.
func TestStemLong(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	env := snowballstem.NewEnv("")
	for range 20_000 {
		var word strings.Builder
		for word.Len() <= maxStemmed+r.IntN(30) {
			word.WriteString([]string{"y", "y", "a", "b", "e", "i", "w", "x", "s", "ing", "ly", "ed", "ational", "ey",
				"ä", "ю", "0", "_"}[r.IntN(18)])
		}
		env.SetCurrent(word.String())
		english.Stem(env)
		want := env.Current()
		if got := stemLong(env, word.String()); got != want {
			t.Fatalf("%q: %q, want %q", word.String(), got, want)
		}
	}
}

// TestNextTrigger: links are looked for at each colon, "@" and point.
func TestNextTrigger(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 5_000 {
		text := make([]byte, r.IntN(40))
		for i := range text {
			if text[i] = byte(r.IntN(256)); r.IntN(12) == 0 {
				text[i] = ":@.;A/"[r.IntN(6)]
			}
		}
		at := 0
		if len(text) > 0 {
			at = r.IntN(len(text))
		}
		want := bytes.IndexAny(text[at:], ":@.") + at
		if want < at {
			want = len(text)
		}
		if got := linkTriggers.Index(text, at); got != want {
			t.Fatalf("%q from %d: %d, want %d", text, at, got, want)
		}
	}
}

// TestPieces: ASCII text has the word boundaries that all text has.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 20_000 {
		text := make([]byte, 1+r.IntN(12))
		for i := range text {
			if text[i] = "ab1'.,;:@_$-  \r\n\x01"[r.IntN(17)]; r.IntN(8) == 0 {
				text[i] = byte(r.IntN(utf8.RuneSelf))
			}
		}
		at := 0
		for it := words.FromBytes(splitPoints(nil, text)); it.Next(); {
			if got, want := pieceASCII(text[at:]), len(it.Value()); got != want {
				t.Fatalf("%q from %d on: a piece of %d bytes, want %d", text, at, got, want)
			}
			at += len(it.Value())
		}
	}
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to
// break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	h := NewHasher("", "", MumHash)
	var found oddList // with what is left from the text before
	for range 4000 {
		text := mailtest.Text(r)
		limit, s := 1+r.IntN(90), stripped{bare: r.IntN(2) == 0}
		s.text, s.lines = stripText([]byte(strings.ToValidUTF8(string(text), "?")), false)
		found.take(&s, limit, nil)
		list := found.strings()
		if want := naiveWords(&s, limit); !slices.Equal(list, want) {
			t.Fatalf("%d words of %q: %q, want %q", limit, s.text, list, want)
		}
		if len(list) > 0 {
			j := r.IntN(Shingles)
			least := naiveShingle(h, j, list)
			if got := h.Shingles(list); got[j] != least {
				t.Fatalf("shingle %d of %q: %x, want %x", j, list, got[j], least)
			}
		}
	}
}

// strings returns the words.
func (l *wordList) strings() []string {
	all, words, start := string(l.text), make([]string, l.len()), 0
	for i, end := range l.ends {
		words[i], start = all[start:end], end
	}
	return words
}

// strings returns the words of the text, in order.
func (v *vocabulary) strings() []string {
	words := make([]string, len(v.ids))
	for i, id := range v.ids {
		words[i] = v.words[id]
	}
	return words
}
