package rspamd

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

func vectorMessage(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(sharedtest.Vector(t, "rspamd-fuzzy", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// vectorPolicy is how the vectors were captured.
var vectorPolicy = Policy{MinWords: 32, MinBytes: -1, AllTypes: true}

func TestDigests(t *testing.T) {
	file, err := os.Open(sharedtest.Vector(t, "rspamd-fuzzy", "digests.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := make(map[string][]string)
	for in := bufio.NewScanner(file); in.Scan(); {
		if f := strings.Fields(in.Text()); len(f) == 2 && len(f[0]) == 128 {
			want[f[1]] = append(want[f[1]], f[0])
		}
	}
	if len(want) != 6 {
		t.Fatalf("vectors for %d mails, want 6", len(want))
	}
	h := NewHasher("", "", MumHash)
	for name, digests := range want {
		var got []string
		for _, hash := range mailtest.Must(h.Hashes(t.Context(), vectorMessage(t, name), vectorPolicy)) {
			got = append(got, hex.EncodeToString(hash.Digest[:]))
		}
		if strings.Join(got, " ") != strings.Join(digests, " ") {
			t.Errorf("%s: digests %.20q, want %.20q", name, got, digests)
		}
	}
}

func TestShingles(t *testing.T) {
	for _, algorithm := range []Algorithm{MumHash, SipHash, XXHash} {
		h := NewHasher("rspamd", "rspamd", algorithm)
		file, err := os.Open(sharedtest.Vector(t, "rspamd-fuzzy", "shingles-"+algorithm.String()+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		checked := 0
		for in := bufio.NewScanner(file); in.Scan(); checked++ {
			var name, alg string
			var i int
			var want uint64
			if _, err := fmt.Sscanf(in.Text(), "%s %s %d %x", &name, &alg, &i, &want); err != nil {
				t.Fatalf("%q: %v", in.Text(), err)
			}
			hashes := mailtest.Must(h.Hashes(t.Context(), vectorMessage(t, name+".eml"), vectorPolicy))
			if len(hashes) != 1 || hashes[0].Shingles == nil {
				t.Fatalf("%s: %d hashes", name, len(hashes))
			}
			if got := hashes[0].Shingles[i]; got != want {
				t.Errorf("%s %s shingle %d = %016x, want %016x", name, alg, i, got, want)
			}
		}
		if checked != 64 {
			t.Errorf("%s: %d shingles checked, want 64", algorithm, checked)
		}
	}
}

// TestNearCopy restates what the document says of vectors 1 and 2.
func TestNearCopy(t *testing.T) {
	h := NewHasher("", "", MumHash)
	a := mailtest.Must(h.Hashes(t.Context(), vectorMessage(t, "1-long-text.eml"), vectorPolicy))[0].Shingles
	b := mailtest.Must(h.Hashes(t.Context(), vectorMessage(t, "2-near-copy.eml"), vectorPolicy))[0].Shingles
	equal := 0
	for i := range a {
		if a[i] == b[i] {
			equal++
		}
	}
	if equal != 26 {
		t.Errorf("%d shingles equal, want 26", equal)
	}
}

func TestKeys(t *testing.T) {
	words := strings.Fields("a user key changes every digest and every shingle but not the digest of an attachment")
	a, b := NewHasher("", "", MumHash), NewHasher("one", "two", MumHash)
	if a.Words(words) == b.Words(words) || a.Direct(nil, "x") == b.Direct(nil, "x") {
		t.Error("the key does not change the digest")
	}
	if x, y := a.Shingles(words), b.Shingles(words); x[0] == y[0] || x[31] == y[31] {
		t.Error("the shingles key does not change the shingles")
	}
	if a.Part([]byte("x")) != b.Part([]byte("x")) {
		t.Error("the key changes the digest of a part")
	}
}

func TestParseAlgorithm(t *testing.T) {
	for name, want := range map[string]Algorithm{"mumhash": MumHash, "siphash": SipHash, "old": SipHash,
		"xxhash": XXHash} {
		if got, err := ParseAlgorithm(name); err != nil || got != want {
			t.Errorf("ParseAlgorithm(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
	if _, err := ParseAlgorithm("md5"); err == nil {
		t.Error("md5 is taken for a shingle algorithm")
	}
}

// FuzzText: any text has shingles and words, and line ends do not matter.
func FuzzText(f *testing.F) {
	f.Add("one two\r\n three http://example.com/x a@example.com \u200b don't 3.14\n")
	f.Add("see www.example.com, <a@example.com> or HTTP\u017f://example.com/\"x.example.com\"... x. mailto: .com")
	f.Add("\xff\xfe\n \n\t日本語 и не так")
	f.Add(strings.Repeat("supercalifragilistic", 9))
	h := NewHasher("", "", MumHash)
	f.Fuzz(func(t *testing.T, text string) {
		unix := strings.ReplaceAll(text, "\r\n", "\n")
		a, lines := stripText([]byte(unix), true)
		b, _ := stripText([]byte(strings.ReplaceAll(unix, "\n", "\r\n")), true)
		if string(a) != string(b) {
			t.Fatalf("LF gives %q, CRLF %q", a, b)
		}
		start := 0
		for _, l := range findLinks(nil, a, lines, true) {
			if l.start < start || l.end <= l.start || l.end > len(a) {
				t.Fatalf("link %v of %q", l, a)
			}
			start = l.start
		}
		found, _ := new(workspace).stemmedWords(&stripped{text: a, lines: lines, bare: true}, 0, math.MaxInt, h, nil)
		words := listed(found)
		if s := h.Shingles(words); len(words) == 0 && s != [Shingles]uint64{} {
			t.Fatal("no words, but shingles")
		}
	})
}

// TestWords: what rspamd 3.4 makes of these, seen from the digests it
// reports for texts that end so.
func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"3.14 and 1,000": "314 and 1000", "don't it's o'clock Ts'o": "dont it oclock tso", "U.S.A. d.e": "u s a d e",
		"$100 50% €5": "$ 100 50 € 5", "see www.example.com or example.com/a?b now": "see or now",
		"walked_far flying-fish":       "walked_far fli fish",
		"To:joe 10:30":                 "to joe 10 30",
		"write to joe@example.com now": "write to now", "“curly” quotes’s": "cur quotess",
		"500만개 abc가나 가_나": "500 만개 abc 가나 가 _ 나", "a¸b ¸c": "a b c", "see joe%barrera.org": "see joe barrera org",
		"at http://%32%317.%31%30%36.%355%2E97/ now": "at now",
	} {
		words, ok := new(workspace).stemmedWords(&stripped{text: []byte(text), bare: true}, 0, math.MaxInt,
			NewHasher("", "", MumHash), nil)
		if got := strings.Join(listed(words), " "); !ok || got != want {
			t.Errorf("words of %q: %q, want %q", text, got, want)
		}
	}
}

// TestControls: a control or format character is a word without letters to rspamd 3.4, which counts
// where long texts decay.
func TestControls(t *testing.T) {
	for text, want := range map[string]int{"a b": 2, "a \x1b b": 3, "\x1b[1;33m a": 3, "a \x7f\u0092 \u061c": 3,
		"a \t! b": 2} {
		var found oddList
		found.take(&stripped{text: []byte(text), bare: true}, math.MaxInt, nil)
		if found.decay.found != want {
			t.Errorf("%q has %d words, want %d: %q", text, found.decay.found, want, found.strings())
		}
	}
}

// TestGapInBlanks: what is shown for a link begins in its place even if that is in blanks between
// two marks, which are two pieces.
func TestGapInBlanks(t *testing.T) {
	text := "to joe@example.com .  We honor all requests"
	var found oddList
	found.take(&stripped{text: []byte(text), shown: []span{{21, 37}}, lines: []int32{3}}, math.MaxInt, nil)
	if got := strings.Join(found.strings(), " "); got != "to quests" {
		t.Errorf("%q", got)
	}
}

// TestRawText: of a text that is not UTF-8, words are what stands between punctuation, as rspamd 3.4 has them.
func TestRawText(t *testing.T) {
	for text, want := range map[string]string{
		"From the 'Running' man: \xa9 2005 All! rights, ": "rom the 'running' man \xa9 2005 all! rights",
		"x caf\xe9 end": "caf\xe9", "a b http://example.com/x c d\xe9 e ": "b c d\xe9 e", "\xff": "",
	} {
		space := new(workspace)
		words, ok := space.stemmedWords(&stripped{text: []byte(text), bare: true}, 0, math.MaxInt,
			NewHasher("", "", MumHash), nil)
		if got := strings.Join(listed(words), " "); !ok || got != want {
			t.Errorf("words of %q: %q, want %q", text, got, want)
		}
	}
}

// TestWordLimit: the limit counts words exactly, wherever a text is cut.
func TestWordLimit(t *testing.T) {
	for _, gap := range []string{" ", strings.Repeat(" ", 40), " http://www.example.com/ ", " - . "} {
		for _, n := range []int{1, 599, 600, 601, 2000} {
			space := new(workspace)
			words, ok := space.stemmedWords(&stripped{text: []byte(strings.Repeat("walking"+gap, n)), bare: true}, 0,
				600, NewHasher("", "", MumHash), nil)
			if ok != (n <= 600) || ok && (words.len()+space.found.decay.left != n || space.found.counted() != n) {
				t.Errorf("%d words with %q between them: %d and %d left out, %v", n, gap, len(listed(words)),
					space.found.decay.left, ok)
			}
		}
	}
}

// TestDecay: of a long text all words stay up to the 601st, and about as many of the others; which
// they are, depends on the words before. TestRspamd of test/fidelity has the real ones.
func TestDecay(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "w%05d ", i)
	}
	var found, other oddList
	found.take(&stripped{text: []byte(b.String()), bare: true}, math.MaxInt, nil)
	all := found.strings()
	if all[600] != "w00600" || len(all) < 1000 || len(all) > 1400 || found.counted() != 3000 {
		t.Errorf("%d of %d words stay, the 601st is %s", len(all), found.counted(), all[600])
	}
	other.take(&stripped{text: []byte("x " + b.String()), bare: true}, math.MaxInt, nil)
	if again := other.strings(); slices.Equal(again[1:], all) {
		t.Error("the same words stay behind another one")
	}
	few := strings.Repeat("word ", 1500)
	if found.take(&stripped{text: []byte(few), bare: true}, math.MaxInt, nil); found.decay.left == 0 ||
		found.len() < 1200 {
		t.Errorf("of %d words %d stay", found.counted(), found.len())
	}
	if found.take(&stripped{text: []byte(few[:5*1100]), bare: true}, math.MaxInt, nil); found.decay.left != 0 {
		t.Errorf("%d of 1,100 words are left out", found.decay.left)
	}
}

// TestStems: a place keeps the last words that came there, in their languages, and no long ones.
func TestStems(t *testing.T) {
	var slot stemSlot
	kept := []struct {
		language   int
		word, stem string
	}{{0, "walking", "walk"}, {1, "walking", "walking"}, {0, "ponies", "poni"}, {0, "dying", "die"}, {2, "x", ""}}
	for _, k := range kept {
		slot.keep(k.language, k.word, k.stem)
	}
	for i, k := range kept {
		stem, ok := slot.stem(k.language, k.word)
		if ok != (i >= len(kept)-stemWays) || ok && stem != k.stem {
			t.Errorf("stem of %q in language %d: %q, %v, want %q", k.word, k.language, stem, ok, k.stem)
		}
	}
	long := strings.Repeat("a", maxStemmed+1)
	slot.keep(0, long, "a")
	for _, word := range []string{long, long[:maxStemmed], "walkin", "walking "} {
		if stem, ok := slot.stem(0, word); ok {
			t.Errorf("stem of %q: %q", word, stem)
		}
	}
}

// TestLanguage: which language rspamd 3.4 takes a text for, seen from its stems, with lists of a few of its words.
func TestLanguage(t *testing.T) {
	const list = `{
  "en": [ "the", "of", "and", "is", "don't", "don", "t", ],
  "de": [ "der", "die", "und", "ist", "DAS" ],
  "id": [ "kira-kira", "dan" ], "xx": [ "qq" ],
  "ru": [ "и", "в", "не", "на" ],
}`
	h := NewHasher("", "", MumHash)
	if err := h.ReadStopWords(strings.NewReader(list)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                 "en",
		"the miller":                       "en",
		"der und die ist":                  "de",
		"der und die":                      "en", // too few
		"DER und,die(ist)":                 "de",
		"der-und die ist":                  "de",
		"derm und die ist":                 "en",
		"x das das Das das":                "de",
		"the the the the der":              "en", // too few for a language without accents
		strings.Repeat("the ", 10) + "der": "en",
		strings.Repeat("the der ", 10):     "de",
		"don't don't":                      "en",
		strings.Repeat("the ", 81) + strings.Repeat("der ", 200): "en",
		"kira-kira dan kira-kira dan":                            "",
		"der und die ist μ":                                      "", // a script with a language of its own
		"der und die ist 語":                                      "",
		"der und die ist ㄱ":                                      "",
		// words of languages in Latin script are not looked for
		"der und die ist й": "en",
		"и в не на":         "ru",
		"й":                 "ru", // more letters of its script than others
		"ض":                 "",
		"der und die ist א": "de",
		strings.Repeat("й", 33) + " μ и в не": "ru", // a script that is clear is looked at no further
		strings.Repeat("語", 33) + " й":        "",
	} {
		got := ""
		if i := h.language([]byte(text), nil, 0); i >= 0 {
			got = languages[i].name
		}
		if got != want {
			t.Errorf("%.60q is in %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "{}", `{"en": [ "the" ], "de": [ "der`, `{"de": [ "der" ]}`, "\xff" + list,
		list + strings.Repeat(" ", maxStopWords)} {
		if err := h.ReadStopWords(strings.NewReader(text)); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if err := h.ReadStopWords(iotest.ErrReader(io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a list that cannot be read: %v", err)
	}
}

func FuzzStopWords(f *testing.F) {
	f.Add(`{"en": ["the", "of"], "de": ["der",]}`, "the miller, the Müller")
	f.Add(`{"en": ["don't"], "ru": ["не"]`, "и don't-не\xff語")
	f.Fuzz(func(t *testing.T, list, text string) {
		h := NewHasher("", "", MumHash)
		if err := h.ReadStopWords(strings.NewReader(list)); err != nil && h.stopWords != ownWords {
			t.Fatalf("%v, and yet words", err)
		}
		if i := h.language([]byte(text), nil, 0); i >= 0 && languages[i].stem == nil {
			t.Fatalf("language %d of %q has no stemmer", i, text)
		}
	})
}
