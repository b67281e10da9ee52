package signature

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestWordsOfText: which words a text has, as doc.go and docs/signatures.md describe them.
func TestWordsOfText(t *testing.T) {
	const letters24, cyrillic = "abcdefghijkamnopqrstuvwx", "ж"
	for _, tt := range []struct{ text, want string }{
		{"The quick-brown Fox, it jumps.", "the quick brown fox it jumps"},
		{"Hill illness", "hiii iiiness"},
		{"(one) \"two\" three! four? five; six: seven) eight.nine", "one two three four five six seven eight nine"},
		// Words made by machines, which people do not write.
		{letters24 + " " + letters24 + "y", letters24},
		{letters24 + "! " + letters24 + "é", letters24},
		{"bcdfg bcdfgh bcdfgy bcdfga bcdlgh", "bcdfg bcdfgy bcdfga"},
		{"bcd'fg bcdf'gh bcdf'gy bcdf'ga bcdl'gh bcd'figh", "bcdfg bcdfgy bcdfga bcdfigh"},
		{strings.Repeat(cyrillic, 72) + " " + strings.Repeat(cyrillic, 73) + " x", strings.Repeat(cyrillic, 72)},
		// Digits and symbols within words.
		{"v1agra l0an ab12 abc123 abcd1234 a12 ab123 12 1234", "viagra ioan abiz abcize"},
		{"0ffer offer0 9irls hal9 2ebra", "offer offero giris haig zebra"},
		{"c@sh ca$ c$ wow! v!agra w@ $ave @ll 4you ab| a|b", "cash cas wow viagra save aii ayou ab aib"},
		{"b€€r bri¢k ma®ket se×y a¥e †op se×", "beer brick market sexy aye op se"},
		// Letters that are spelt out, and lone ones.
		{"v i a g r a now", "viagra now"},
		{"v.i.a.g.r.a v-i-a now", "viagravia now"},
		{"a b now x y", "now"},
		{"a b c", "abc"},
		{"now a b c", "now abc"},
		{"a b c now", "abc now"},
		{strings.TrimSpace(strings.Repeat("a ", 24)), strings.Repeat("a", 24)},
		{strings.TrimSpace(strings.Repeat("a ", 25)) + " now", "now"},
		{"é é é", "eee"},
		// Apostrophes and what shows nothing.
		{"don't dogs' 'tis rock’n’roll it`s", "dont dogs tis rocknroii its"},
		{"th\u00ade la\u200bnd", "the iand"},
		{"one\u3164two\uffa0three\u2800four\u1160five\u115fsix", "one two three four five six"},
		// Words that marks display from right to left.
		{"the \u202eaes dna dnal\u202c then \u202eerom", "the iand and sea then more"},
		{"o\u202eew\u202cne \u202e\u202c two\u202c", "owene two"},
		{"\u202eשלום\u202c", "שלום"},
		// Accents, look-alikes, forms.
		{"café ｎｏｏｎ раураӏ 𝓱ello", "cafe noon paypai heiio"},
		{"ΗΝΥ ηνυ Տҽ", "hny nvu se"},
		{"天气 ab天cd", "天 气 ab 天 cd"},
		{"สวย", "ส ว ย"},
		// Links, addresses and hosts.
		{"see http://a.example/x now", "see now"},
		{"see (xhttp://a.example/x) now", "see now"},
		{"see <http://a.example/x>now", "see now"},
		{"see \"ftp://a\"here", "see here"},
		{"see http://a天b now", "see 天 now"},
		{"http://a.example/http://b.example/ two", "two"},
		{"write bob@mail.example now", "write now"},
		{"write <bob.x+y@mail-2.example.org>!please", "write piease"},
		{"bob@host @mail.example.x meet@noon", "bobahost amaii exampie meetanoon"},
		{"www.example.com/x example.com, (example.org/a?b=c) now", "now"},
		{"www.ex.y www.x", "www"},
		{"abc.com ab.com abc.zoo ABC.COM abc.php abc-1.net. end", "ab com abc zoo end"},
		// Greetings.
		{"Dear Bob, how are you", "how are you"},
		{"Dear Bob", ""},
		{"Dear one two three four five, text", "text"},
		{"Dear one two three four five six, text", "dear one two three four five six text"},
		{"Hello! text", "text"},
		{"Hello: text; more", "text more"},
		{"Hi; text", "text"},
		{"Hi. text here today and then some more", "hi text here today and then some more"},
		{"Text, dear Bob, more", "text dear bob more"},
		{"Dear Bob, dear Ann, text", "dear ann text"},
		{"Dear Bob,\nDear Ann,\ntext", "text"},
		{"Dear é Böb, text", "text"},
		{"Dear a b c, text", "text"},
	} {
		if got := skeletonOfText(tt.text); got.words.String() != tt.want || got.quoted.len()+got.rest.len() != 0 ||
			got.footer {
			t.Errorf("%q: words %q, want %q; quoted %q, rest %q, footer %v", tt.text, &got.words, tt.want, &got.quoted,
				&got.rest, got.footer)
		}
	}
}

// TestPartsOfText: what of a text is its own, what it quotes, and what is a footer.
func TestPartsOfText(t *testing.T) {
	rule := strings.Repeat("_", 10)
	foot := strings.Repeat("foot\n", footerLines-1)
	for name, tt := range map[string]struct {
		text, words, quoted, rest string
		footer                    bool
	}{
		"plain":                 {"one\ntwo\n\nthree", "one two three", "", "", false},
		"every line end":        {"one\r\ntwo\rthree\nfour\r\n\r\nfive", "one two three four five", "", "", false},
		"quoted":                {"one\n> two\n> > three\n>four\nfive", "one five", "two three four", "", false},
		"blanks before a quote": {" \t> two\none", "one", "two", "", false},
		"attribution":           {"one\nOn Monday Ann wrote:\n> two", "one", "two", "", false},
		"attribution, a gap":    {"one\nOn Monday Ann wrote:\n\n> two", "one", "two", "", false},
		"two gaps":              {"one\nAnn wrote:\n\n\n> two", "one ann wrote", "two", "", false},
		"no colon":              {"one\nAnn wrote\n> two", "one ann wrote", "two", "", false},
		"no quote":              {"one\nAnn wrote:\ntwo", "one ann wrote two", "", "", false},
		"attribution in quotes": {"> Ann wrote:\n> two", "", "ann wrote two", "", false},
		"a long attribution":    {strings.Repeat("on ", 66) + "x:\n> two", "", "two", "", false}, // 200 bytes
		"too long for one": {strings.Repeat("on ", 66) + "xy:\n> two", strings.Repeat("on ", 66) + "xy", "two",
			"", false},
		"header of a reply": {"one\nFrom: Ann\nSent: today\nTo: Bob\n\ntwo\n-- \nthree", "one",
			"sent today to bob two", "three", true},
		"one field is no reply": {"one\nFrom: Ann\nSent: today\n\ntwo", "one from ann sent today two", "", "", false},
		"fields too far": {"one\nFrom: Ann\na1\na2\na3\na4\nSent: today\nTo: Bob",
			"one from ann ai az ae aa sent today to bob", "", "", false},
		"five lines on": {"one\nFrom: Ann\nx\nx\nx\nDate: today\nTo: Bob", "one", "date today to bob", "", false},
		"header in German": {"one\nVon: Ann\nGesendet: heute\nAn: Bob\nBetreff: x\ntwo", "one",
			"gesendet heute an bob betreff two", "", false},
		"header in French":  {"one\nDe : Ann\nEnvoyé : x\nÀ : Bob\ntwo", "one", "envoye bob two", "", false},
		"forwarded":         {"one\n---------- Forwarded message ---------\ntwo", "one", "two", "", false},
		"original":          {"one\n-----Original Message-----\ntwo", "one", "two", "", false},
		"no rule before it": {"one\nOriginal Message\ntwo", "one originai message two", "", "", false},
		"armour": {"-----BEGIN PGP SIGNED MESSAGE-----\none\n" +
			"-----BEGIN PGP SIGNATURE-----\nVersion: GnuPG v1\ntwo\n-----END PGP SIGNATURE-----",
			"one two", "", "", false},
		"a version":        {"Version: one\nVersion: GnuPG", "version one", "", "", false},
		"footer":           {"one\n-- \ntwo\n\nthree", "one", "", "two three", true},
		"footer alone":     {"-- \ntwo", "", "", "two", true},
		"no blank":         {"one\n--\ntwo", "one", "", "two", true},
		"footer, CRLF":     {"one\r\n-- \r\ntwo\r\n", "one", "", "two", true},
		"a dash":           {"one\n- \ntwo", "one two", "", "", false},
		"rule":             {"one\n" + rule + "\ntwo", "one", "", "two", true},
		"rule of stars":    {"one\n**********\ntwo", "one", "", "two", true},
		"short rule":       {"one\n" + rule[1:] + "\ntwo", "one two", "", "", false},
		"no rule":          {"one\n" + rule + "-\ntwo", "one two", "", "", false},
		"rule of letters":  {"one\naaaaaaaaaa\ntwo", "one aaaaaaaaaa two", "", "", false},
		"the first of two": {"one\n-- \ntwo\n" + rule + "\nthree", "one", "", "two three", true},
		"twelve lines": {"one\n-- \n" + foot + "end\n\n \n\u00a0\n", "one", "",
			strings.ReplaceAll(foot, "\n", " ") + "end", true},
		"thirteen lines": {"one\n-- \n" + foot + "end\nend",
			"one " + strings.ReplaceAll(foot, "\n", " ") + "end end", "", "", false},
		"twelve lines, CRLF": {strings.ReplaceAll("one\n-- \n"+foot+"end\n", "\n", "\r\n"), "one", "",
			strings.ReplaceAll(foot, "\n", " ") + "end", true},
		"a quote below":        {"one\n-- \ntwo\n> three\nfour", "one two four", "three", "", false},
		"footer below a quote": {"one\n> two\n-- \nthree", "one", "two", "three", true},
		"disclaimer":           {"one\n\nunsubscribe preferences\n\ntwo", "one two", "", "unsubscribe preferences", true},
	} {
		fold := func(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "l", "i") }
		got := skeletonOfText(tt.text)
		if got.words.String() != fold(tt.words) || got.quoted.String() != fold(tt.quoted) ||
			got.rest.String() != fold(tt.rest) || got.footer != tt.footer {
			t.Errorf("%s: words %q, want %q; quoted %q, want %q; rest %q, want %q; footer %v", name, &got.words,
				tt.words, &got.quoted, tt.quoted, &got.rest, tt.rest, got.footer)
		}
	}
	var f folder
	f.add([]byte("one\n-- \ntwo"), true)
	if f.words.len() != 0 || f.quoted.String() != "one two" || f.footer {
		t.Errorf("embedded: words %q, quoted %q", &f.words, &f.quoted)
	}
}

// listOf returns a list of n words of which some belong to templates.
func listOf(n, hits int) *wordList {
	var l wordList
	terms := strings.Fields("confidential privileged disclosure prohibited sender unsubscribe privacy copyright")
	for i := range n {
		if i < hits {
			l.add([]byte(foldedWords(terms[i%len(terms)]).String()))
		} else {
			l.add(fmt.Appendf(nil, "word%d", i))
		}
	}
	return &l
}

// TestTemplates: how many words of a paragraph make it one that unrelated messages share.
func TestTemplates(t *testing.T) {
	for _, tt := range []struct{ words, least int }{
		{2, 2}, {8, 2}, {9, 3}, {24, 3}, {25, 4}, {32, 4}, {33, 5}, {40, 5}, {41, 6}, {54, 6}, {55, 7}, {63, 7}, {64, 8},
	} {
		for hits := range tt.words + 1 {
			if got := isTemplate(listOf(tt.words, hits)); got != (hits >= tt.least) {
				t.Errorf("%d words, %d of them of templates: %v, want %v from %d on", tt.words, hits, got, hits >= tt.least,
					tt.least)
			}
		}
	}
	for text, want := range map[string]bool{
		"sent from my iphone": true, "sent from my lovely new phone": false, "sent from an iphone": false,
		"get outlook for android": true, "get outlook for": true, "get outlook now": false,
		"sent from my": false, "iphone": false, "confidential confidential": false, "confidential note confidential": true,
	} {
		if got := isTemplate(foldedWords(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestRecipientWords: which words name a recipient.
func TestRecipientWords(t *testing.T) {
	for name, tt := range map[string]struct {
		fields []string
		want   string
	}{
		"name and address": {[]string{"Bob Miller <bob.m@mail.example>"}, "bob miller mail example"},
		"quoted":           {[]string{"\"Miller, Bob\" <bmiller@x.example>"}, "miller bob bmiller example"},
		"two":              {[]string{"ann@a.example, Carol <c@b.example>", "dave@d.example"}, "ann example carol dave"},
		"short":            {[]string{"Al Bo <al@ab.cd>", "Eve"}, "eve"},
		"four words":       {[]string{"One Two Three Four <x@y.zz>"}, "one two three four"},
		"five words":       {[]string{"One Two Three Four Five <xyz@y.zz>"}, "xyz"},
		"the longest":      {[]string{"eve" + strings.Repeat(" ", 1021)}, "eve"},
		"a list":           {[]string{"eve" + strings.Repeat(" ", 1022)}, ""},
	} {
		got := recipientWords(tt.fields)
		want := strings.Fields(strings.ReplaceAll(tt.want, "l", "i"))
		for _, w := range want {
			if !got.has([]byte(w)) {
				t.Errorf("%s: not %q", name, w)
			}
		}
		if len(got.words) != len(want) {
			t.Errorf("%s: %v, want %v", name, got.words, want)
		}
	}
	var many []string
	for i := range maxRecipientWords + 4 {
		many = append(many, strings.Repeat("a", i+3))
	}
	if got := recipientWords(many); len(got.words) != maxRecipientWords || !got.has([]byte("aaa")) {
		t.Errorf("of %d: %v", len(many), got.words)
	}
	f := folder{recipient: recipientWords([]string{"Bob Miller <bob@mail.example>"})}
	f.add([]byte("to bob miller b o b m'iller bobby mi11er"), false)
	if got := f.words.String(); got != "to bobby" {
		t.Errorf("without the recipient's names: %q", got)
	}
}

// TestWordLists holds a list of words to a plain one, and a set to a map.
func TestWordLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 300 {
		var l, m wordList
		var want, others []string
		var set wordSet
		known := make(map[string]bool)
		word := func() []byte {
			return bytes.Repeat([]byte{byte('a' + rng.IntN(3))}, 1+rng.IntN(40))
		}
		for range rng.IntN(30) {
			w := word()
			l.add(w)
			want = append(want, string(w))
			set.add(w)
			known[string(w)] = true
		}
		for range rng.IntN(30) {
			w := word()
			m.add(w)
			others = append(others, string(w))
			if set.has(w) != known[string(w)] {
				t.Fatalf("%q is in %v: %v", w, known, set.has(w))
			}
		}
		if n := len(want); n > 0 && rng.IntN(2) == 0 {
			n = rng.IntN(n)
			l.truncate(n)
			want = want[:n]
		}
		if rng.IntN(2) == 0 {
			l.join(&m)
			if m.String() != strings.Join(others, " ") {
				t.Fatalf("joined to another it is %q, was %q", &m, others)
			}
		} else {
			l.take(&m)
		}
		want = append(want, others...)
		if l.len() != len(want) || l.String() != strings.Join(want, " ") {
			t.Fatalf("%q, want %q", &l, want)
		}
		for n := range len(want) + 1 {
			if !l.startsWith(want[:n]...) || l.startsWith(append(want[:n:n], "no")...) {
				t.Fatalf("%q begins with its first %d words and nothing else", &l, n)
			}
		}
		if least := len(l.text) + 4*l.len(); l.size() < least {
			t.Fatalf("%d bytes of memory hold %d", l.size(), least)
		}
	}
	var none *wordSet
	if none.has([]byte("x")) || new(wordSet).has([]byte("x")) || new(wordSet).has(nil) {
		t.Error("an empty set has something")
	}
	// No list takes more words than it may.
	list := func(n int) *wordList {
		var l wordList
		for range n {
			l.add([]byte("ab"))
		}
		return &l
	}
	for _, tt := range []struct{ has, added, want int }{{0, maxWords, maxWords}, {0, maxWords + 1, maxWords},
		{maxWords - 1, 1, maxWords}, {maxWords - 1, 2, maxWords}, {maxWords, 5, maxWords}, {5, 0, 5}, {5, 6, 11}} {
		l := list(tt.has)
		if l.join(list(tt.added)); l.len() != tt.want || len(l.text) != 2*tt.want {
			t.Errorf("%d words and %d: %d", tt.has, tt.added, l.len())
		}
		l = list(tt.has)
		if l.take(list(tt.added)); l.len() != tt.want || len(l.text) != 2*tt.want {
			t.Errorf("%d words and %d taken: %d", tt.has, tt.added, l.len())
		}
	}
}

// TestEnough: enough words are as many different ones, as long together, in any of the
// lists.
func TestEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	yes, no := 0, 0
	for range 5000 {
		lists := make([]*wordList, 1+rng.IntN(3))
		different := make(map[string]bool)
		for i := range lists {
			lists[i] = new(wordList)
			for range rng.IntN(8) {
				w := strings.Repeat(string(rune('a'+rng.IntN(4))), rng.IntN(4))
				lists[i].add([]byte(w))
				if w != "" {
					different[w] = true
				}
			}
		}
		letters := 0
		for w := range different {
			letters += len(w)
		}
		minWords, minLetters := 1+rng.IntN(10), 1+rng.IntN(20)
		want := len(different) >= minWords && letters >= minLetters
		if want {
			yes++
		} else {
			no++
		}
		if got := enough(minWords, minLetters, lists...); got != want {
			t.Fatalf("%d words of %d letters in %v are %d and %d: %v", len(different), letters, lists, minWords, minLetters, got)
		}
	}
	if yes < 500 || no < 500 {
		t.Errorf("%d are enough, %d are not", yes, no)
	}
}

// TestLongText: more words than a list takes go to those shown beside, and what is beyond
// the text that is looked at changes nothing.
func TestLongText(t *testing.T) {
	paragraph := strings.Repeat("some words of a text\n", 200) + "\n" // 1000 words, the lone letters apart
	per := 4 * 200
	for n := 1; n <= 13; n++ {
		got := skeletonOfText(strings.Repeat(paragraph, n))
		words, rest := min(n*per, maxWords), 0
		if n*per > maxWords {
			// The paragraph that no longer fits is shown beside whole, and all after it.
			rest = min((n-maxWords/per)*per, maxWords)
		}
		if got.words.len() != words || got.rest.len() != rest || got.quoted.len() != 0 {
			t.Errorf("%d paragraphs: %d words, want %d; %d beside, want %d", n, got.words.len(), words, got.rest.len(), rest)
		}
	}
	if s := (&skeleton{quoted: *skeletonWords(maxWords)}); !s.full() {
		t.Error("a full quote is not")
	}
	if s := (&skeleton{words: *skeletonWords(maxWords), rest: *skeletonWords(maxWords - 1)}); s.full() {
		t.Error("it is full before all is")
	}
	text := []byte(strings.Repeat("x\n", mail.MaxVisible/2-5) + "seen")
	text = append(text, strings.Repeat("\n", mail.MaxVisible-len(text))...)
	var f, g folder
	f.add(append(text, "unseen\n> unseen\n"...), false)
	g.add(text, false)
	if f.words.String() != g.words.String() || f.quoted.len() != 0 || !strings.HasSuffix(g.words.String(), "seen") {
		t.Errorf("behind %d bytes: %q, quoted %q", mail.MaxVisible, f.words.String(), &f.quoted)
	}
}

func skeletonWords(n int) *wordList {
	var l wordList
	for range n {
		l.add([]byte("ab"))
	}
	return &l
}

// TestDecomposedByPieces: a line is folded as it would be were it decomposed at once.
func TestDecomposedByPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	letters := []string{"a", "b", "é", "e\u0301", "ﷺ", "Å", "한", "ﬁ", "天", " ", " ", "\t", ",", "!", "1", "@",
		"\u200b", "\u0301", "жж", "l", "ｎ", "http://x.y ", "dear ", "\xff"}
	for range 60 {
		var line []byte
		for n := rng.IntN(14_000); len(line) < n; {
			piece := letters[rng.IntN(len(letters))]
			line = append(line, strings.Repeat(piece, 1+rng.IntN(5)*rng.IntN(2))...)
		}
		fast, slow := folder{}, folder{}
		fast.decompose(line)
		slow.naiveFold(norm.NFKD.Bytes(line))
		if got, want := fast.paragraph.String(), slow.paragraph.String(); got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("a line of %d bytes: ... %.80q, want %.80q", len(line), got[max(0, at-20):], want[max(0, at-20):])
		}
	}
}

// TestSkeletonOfParts: which parts of a message are its text, and which are shown beside.
func TestSkeletonOfParts(t *testing.T) {
	const long = "one two three four five six seven eight nine ten eleven twelve"
	short := strings.TrimSuffix(long, " twelve")
	part := func(kind, text string) string { return "--b\nContent-Type: " + kind + "\n\n" + text + "\n" }
	file := func(kind, text string) string {
		return "--b\nContent-Type: " + kind + "\nContent-Disposition: attachment\n\n" + text + "\n"
	}
	for name, tt := range map[string]struct {
		kind        string
		parts       []string
		words, rest string
	}{
		"the last alternative": {"alternative", []string{part("text/plain", "plain"), part("text/html", long)}, long,
			"plain"},
		"too few words": {"alternative", []string{part("text/plain", "plain"), part("text/html", short)},
			"plain " + short, ""},
		"of another type": {"alternative", []string{part("text/plain", "plain"), part("text/x", long)}, "plain", long},
		"that some programs prefer": {"alternative", []string{part("text/plain", "plain"), part("text/enriched", long)},
			"plain " + long, ""},
		"plain text last": {"alternative", []string{part("text/html", "page"), part("text/plain", long)}, long, "page"},
		"no alternatives": {"mixed", []string{part("text/plain", "plain"), part("text/html", long)},
			"plain " + long, ""},
		"an attachment":         {"mixed", []string{part("text/plain", long), file("text/plain", "file")}, long, "file"},
		"few words, attachment": {"mixed", []string{part("text/plain", "see"), file("text/plain", "file")}, "see file", ""},
		"few words, data":       {"mixed", []string{part("text/plain", "see"), file("text/csv", "file")}, "see", ""},
		"no words, data":        {"mixed", []string{part("text/plain", ""), file("text/csv", "file")}, "file", ""},
	} {
		raw := mailtest.Composed("multipart/"+tt.kind+"; boundary=b", "7bit", strings.Join(tt.parts, "")+"--b--\n")
		m := mailtest.Must(mail.Read(t.Context(), raw))
		s := mailtest.Must(skeletonOf(t.Context(), m, nil, nil))
		if got, want := s.words.String(), strings.ReplaceAll(tt.words, "l", "i"); got != want ||
			s.rest.String() != strings.ReplaceAll(tt.rest, "l", "i") {
			t.Errorf("%s: %q, want %q; beside %q, want %q", name, got, want, &s.rest, tt.rest)
		}
	}
	parts := part("text/plain", long)
	for i := range maxBeside + 4 {
		parts += file("text/plain", "file"+string(rune('a'+i)))
	}
	m := mailtest.Must(mail.Read(t.Context(), mailtest.Composed("multipart/mixed; boundary=b", "7bit", parts+"--b--\n")))
	if s := mailtest.Must(skeletonOf(t.Context(), m, nil, nil)); s.rest.len() != maxBeside {
		t.Errorf("%d words beside, want those of %d parts", s.rest.len(), maxBeside)
	}
}

// TestBuilderAgain: what a builder has read before makes no difference.
func TestBuilderAgain(t *testing.T) {
	var used skeletonBuilder
	for i, raw := range mailtest.Seeds() {
		m, err := mail.Read(t.Context(), raw)
		if err != nil {
			continue
		}
		got := mailtest.Must(used.skeleton(t.Context(), m, nil, nil))
		want := mailtest.Must(skeletonOf(t.Context(), m, nil, nil))
		if got.words.String() != want.words.String() || got.quoted.String() != want.quoted.String() ||
			got.rest.String() != want.rest.String() ||
			got.footer != want.footer || got.inside != want.inside || got.distinctive() != want.distinctive() {
			t.Fatalf("seed %d: %+v, want %+v", i, got, want)
		}
		used.renew()
	}
}
