package learn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
)

const sample = "From: \"Lucky Draw\" <draw@prizes.example>\r\n" +
	"Reply-To: claims@other.example\r\n" +
	"Subject: Your prize is waiting\r\n" +
	"MIME-Version: 1.0\r\n" +
	"Content-Type: multipart/alternative; boundary=x\r\n\r\n" +
	"--x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" +
	"Claim it now, don’t wait. Code 12345678 and 42ab. Ask help@other.example or https://other.example/a\r\n" +
	"--x\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" +
	"<style>p { color: RED; margin:0 }</style><p class=\"big Red\" style=\"Font-Size: 12px; background: url(x)\">" +
	"抽奖券 <a href=\"https://evil.example/go\">https://www.bank.example/login</a><img src=a.png></p>\r\n" +
	"--x--\r\n"

func featuresOf(t testing.TB, raw string) []string {
	t.Helper()
	m, err := mail.Read(context.Background(), []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	features, err := Features(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	return features
}

// TestFeatures checks the features of a message, and what is left out.
func TestFeatures(t *testing.T) {
	got := featuresOf(t, sample)
	for _, want := range []string{
		"w:prize", "w:claim", "w:dont", "w:42ab", "w:抽奖", "w:奖券",
		"c:color:red", "c:margin:0", "c:font-size:12px", "k:big", "k:red", "a:href", "a:src",
		"m:text/plain", "m:text/html", "m: text/plain/1 text/html/1",
		"r:pictures 1", "r:a link shows another domain", "r:the name is in the address", "r:answers go elsewhere",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no feature %q in %q", want, got)
		}
	}
	for _, f := range got {
		if strings.Contains(f, "12345678") || strings.Contains(f, "help") || strings.Contains(f, "other.example") ||
			strings.Contains(f, "url") {
			t.Errorf("feature %q", f)
		}
	}
}

// TestRelations compares names, addresses and answers.
func TestRelations(t *testing.T) {
	for _, tt := range []struct{ header, want string }{
		{"From: a@b.example\n", "r:no name"},
		{"From: \"a@b.example\" <a@b.example>\n", "r:the name is the address"},
		{"From: \"support@bank.example\" <a@b.example>\n", "r:the name is another address"},
		{"From: Billing <a@b.example>\n", "r:the name is not in the address"},
		{"From: a@mail.b.example\nReply-To: <c@b.example>\n", "r:answers go to the sender"},
		{"From: a@b.example\nReply-To: <c@d.example>\n", "r:answers go elsewhere"},
		{"From: a@b.example\n", "r:no reply-to"},
	} {
		if got := featuresOf(t, tt.header+"\ntext\n"); !slices.Contains(got, tt.want) {
			t.Errorf("%q: no %q in %q", tt.header, tt.want, got)
		}
	}
}

// TestBounds checks that long messages have a bounded number of features, each of a bounded size.
func TestBounds(t *testing.T) {
	var words, style strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&words, "word%c%c%c ", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
		fmt.Fprintf(&style, "<p style='x%c%c:y' class=z%c%c>", 'a'+i%26, 'a'+i/26%26, 'a'+i%26, 'a'+i/26%26)
	}
	got := featuresOf(t, "From: a@b.example\nContent-Type: text/html\n\n"+style.String()+words.String())
	if len(got) > maxWords+maxIdioms+maxTypes+20 {
		t.Errorf("%d features", len(got))
	}
	tokens := Tokens(filter.Secret{1}, got)
	if len(tokens) != MaxTokens || !slices.IsSorted(tokens) {
		t.Errorf("%d tokens", len(tokens))
	}
	check(t, got)
}

func check(t *testing.T, features []string) {
	t.Helper()
	seen := make(map[string]bool)
	for _, f := range features {
		if seen[f] || len(f) > maxFeature+maxTypes*30 || !utf8.ValidString(f) || len(f) < 3 || f[1] != ':' {
			t.Errorf("feature %q", f)
		}
		seen[f] = true
	}
}

// TestTokens compares the tokens with the smallest of all hashes, and checks that the order of features
// and repetitions change nothing.
func TestTokens(t *testing.T) {
	secret := filter.Secret{7}
	var features []string
	var all []Token
	for i := range 450 {
		f := fmt.Sprint("w:", i)
		features = append(features, f, f)
		all = append(all, Of(secret, f))
	}
	slices.Sort(all)
	if got := Tokens(secret, features); !slices.Equal(got, all[:MaxTokens]) {
		t.Error("not the smallest hashes")
	}
	slices.Reverse(features)
	if got := Tokens(secret, features); !slices.Equal(got, all[:MaxTokens]) {
		t.Error("another order gives other tokens")
	}
	if Tokens(filter.Secret{8}, features)[0] == all[0] || Tokens(secret, nil) != nil {
		t.Error("tokens do not depend on secret and features")
	}
	if a, b := Token(1).Key(), Token(2).Key(); a.Hi == b.Hi || a.Lo == b.Lo {
		t.Errorf("keys %v and %v", a, b)
	}
}

// FuzzFeatures checks that no message breaks the bounds of features, and that the features that count are
// the ones that [Select] selects of all.
func FuzzFeatures(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("Subject: \xff\xfe\r\nContent-Type: text/html\r\n\r\n<a href='//x'><style>{{{;:</style><p style=':;a:'>"))
	f.Add([]byte("Reply-To: @@<\nFrom: \"@\" <@>\n\nไทยไทย\xc2"))
	f.Add([]byte(made(20_000, true)))
	f.Add([]byte(made(20_000, false)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := mail.Read(t.Context(), raw)
		if err != nil {
			return
		}
		features, err := Features(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		check(t, features)
		secret := filter.Secret{byte(len(raw)), 5}
		counting, err := Counting(t.Context(), m, secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, want := Select(nil, secret, features); !slices.Equal(counting, want) {
			t.Errorf("%q count, want %q", counting, want)
		}
	})
}

// FuzzWords compares the words of a text, its idioms and its declarations of CSS with the ones that plain code finds.
func FuzzWords(f *testing.F) {
	for _, text := range []string{"color : RED;a:b:c; url(:x);w:url(x);;:;z (:y;" + strings.Repeat("v", 70) + ":v;v:" +
		strings.Repeat("v", 64) + ";v:" + strings.Repeat("v", 65),
		"Don’t wait, it's 12345678 or 42ab! www.shop.example a://b x@y.example\u00a0next",
		"抽奖券x\u3000抽Ünïcödé\u0085\u00adsoft\u00adhyphen \xff\xfeab", "a:b ://c abc: 'x' ١٢٣٤٥٦٧a e\u0301te\u0301 İI K",
		strings.Repeat("ab", 30) + "1234567 \v\f" + strings.Repeat("ü", 41)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := newCollector(newChooser(filter.Secret{}, 1<<20))
		c.words(text)
		if got, want := sorted(c.to.features()), sorted(plainWords(text)); !slices.Equal(got, want) {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
		c = newCollector(newChooser(filter.Secret{}, 1<<20))
		for _, part := range strings.SplitAfter(text, " ") {
			c.idiom(cssKind, "a", ":", part)
			if got, want := singleBlanks(part), strings.Join(strings.Fields(part), " "); got != want {
				t.Errorf("%q becomes %q, want %q", part, got, want)
			}
		}
		want := sorted(plainIdioms(strings.SplitAfter(text, " ")))
		if got := sorted(c.to.features()); !slices.Equal(got, want) {
			t.Errorf("%q has the idioms %q, want %q", text, got, want)
		}
		c, plain := newCollector(newChooser(filter.Secret{}, 1<<20)), newCollector(newChooser(filter.Secret{}, 1<<20))
		c.declarations(text)
		for d := range strings.SplitSeq(text, ";") {
			if property, value, ok := strings.Cut(d, ":"); ok && len(value) <= maxIdiom && !strings.Contains(value, "(") {
				plain.idiom(cssKind, strings.TrimSpace(property), ":", singleBlanks(value))
			}
		}
		if got, want := c.to.features(), plain.to.features(); !slices.Equal(got, want) {
			t.Errorf("%q has the declarations %q, want %q", text, got, want)
		}
	})
}

func sorted(features []string) []string { return slices.Sorted(slices.Values(features)) }

// plainWords returns the words of a text.
func plainWords(text string) []string {
	out := []string{}
	seen := 0
	add := func(word string) {
		word = strings.ReplaceAll(word, "\u00ad", "")
		digits := 0
		for _, r := range word {
			if unicode.IsDigit(r) {
				digits++
			}
		}
		cut, n := "", 0
		for _, r := range word {
			if len(cut) < maxWord {
				cut += string(unicode.ToLower(r))
			}
			n = len(cut)
		}
		if n >= minWord && digits <= maxDigits && digits < n && seen < maxWords {
			seen++
			if !slices.Contains(out, wordKind+cut) {
				out = append(out, wordKind+cut)
			}
		}
	}
	for _, piece := range strings.FieldsFunc(text, unicode.IsSpace) {
		if isAddress(piece) {
			continue
		}
		piece = strings.Map(func(r rune) rune {
			switch {
			case r == '\'' || r == '’' || r == '\u00ad':
				return '\u00ad'
			case unblanked(r) || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
				return r
			}
			return ' '
		}, piece)
		for _, word := range strings.Split(piece, " ") {
			start := 0
			var before rune
			for i, r := range word {
				if unblanked(r) {
					add(word[start:i])
					if before != 0 {
						add(string(before) + string(r))
					}
					start = i + utf8.RuneLen(r)
					before = r
				} else {
					before = 0
				}
			}
			add(word[start:])
		}
	}
	return out
}

func isAddress(piece string) bool {
	return strings.Contains(piece, "@") || strings.Contains(piece, "://") ||
		len(piece) > 4 && strings.EqualFold(piece[:4], "www.")
}

// plainIdioms returns idioms with the given values.
func plainIdioms(values []string) []string {
	out := []string{}
	n := 0
	for _, v := range values {
		name := "a:" + v
		digits := strings.Count(strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0'
			}
			return r
		}, name), "0")
		if n >= maxIdioms || len(name) > maxIdiom-len(cssKind) || digits > maxDigits {
			continue
		}
		n++
		name = cssKind + strings.ToLower(strings.ToValidUTF8(name, "?"))
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// BenchmarkFeatures measures the features of a message of a few hundred words whose text was read
// already, and BenchmarkTokens their tokens.
func BenchmarkFeatures(b *testing.B) {
	m, err := mail.Read(b.Context(), []byte(typical()))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Features(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

// typical returns a message of 170 words or so in plain text and HTML.
func typical() string {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "%s%c%c ", []string{"order", "ship", "pay", "news", "team", "plan"}[i%6], 'a'+i*7%26, 'a'+i*3%11)
		if i%12 == 11 {
			text.WriteString("\r\n<br>")
		}
	}
	return strings.Replace(sample, "抽奖券", text.String(), 1)
}

func BenchmarkTokens(b *testing.B) {
	features := featuresOf(b, typical())
	b.ReportMetric(float64(len(features)), "features")
	for b.Loop() {
		Tokens(filter.Secret{3}, features)
	}
}

func BenchmarkScore(b *testing.B) {
	totals := Totals{Counts: Counts{500, 20_000}, Share: 0.1}
	counts := make([]Counts, 168)
	for i := range counts {
		counts[i] = Counts{float64(i % 7), float64(i * i % 900)}
	}
	for b.Loop() {
		Score(&totals, counts)
	}
}
