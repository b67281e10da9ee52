package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestParse: all ways to write a link that browsers take to the same place.
func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, domain, place string }{
		{"http://example.com", "example.com", "example.com/"},
		{"https://WWW.Example.COM./Path/x?y#z", "example.com", "www.example.com/Path"},
		{"http://www.example.co.uk/", "example.co.uk", "www.example.co.uk/"},
		{"http://foo.github.io/x", "foo.github.io", "foo.github.io/x"},
		{"http://github.io/x", "github.io", "github.io/x"},
		{"http://bucket.s3.amazonaws.com/k", "bucket.s3.amazonaws.com", "bucket.s3.amazonaws.com/k"},
		{"  \x01http://example.com/a \n", "example.com", "example.com/a"},
		{"ht\ntp://exa\tmple.c\rom/a", "example.com", "example.com/a"},
		{"//example.com/a", "example.com", "example.com/a"},
		{`\\example.com\a\b`, "example.com", "example.com/a"},
		{`http:\\\example.com\a`, "example.com", "example.com/a"},
		{"http:example.com/a", "example.com", "example.com/a"},
		{"https:/example.com", "example.com", "example.com/"},
		{"http:////example.com/", "example.com", "example.com/"},
		{"http://bank.example@evil.example/x", "evil.example", "evil.example/x"},
		{"http://bank.example:80@a@evil.example/x", "evil.example", "evil.example/x"},
		{`http://evil.example\@bank.example/x`, "evil.example", "evil.example/@bank.example"},
		{"http://evil.example#@bank.example/", "evil.example", "evil.example/"},
		{"http://evil.example?@bank.example/", "evil.example", "evil.example/"},
		{"http://example.com:80/a", "example.com", "example.com/a"},
		{"https://example.com:443/a", "example.com", "example.com/a"},
		{"https://example.com:0080/a", "example.com", "example.com/a"},
		{"http://example.com:8080/a", "example.com", "example.com/a"},
		{"http://example.com:/a", "example.com", "example.com/a"},
		{"http://192.0.2.1/x", "192.0.2.1", "192.0.2.1/x"},
		{"http://192.0.2.1:8080/x", "192.0.2.1", "192.0.2.1/x"},
		{"http://3221225985/", "192.0.2.1", "192.0.2.1/"},
		{"http://0xC0000201/", "192.0.2.1", "192.0.2.1/"},
		{"http://0300.0.0x2.01/", "192.0.2.1", "192.0.2.1/"},
		{"http://192.513/", "192.0.2.1", "192.0.2.1/"},
		{"http://192.0.2.1./", "192.0.2.1", "192.0.2.1/"},
		{"http://①⑨②.0.2.1/", "192.0.2.1", "192.0.2.1/"},
		{"http://%31%39%32.0.2.1/", "192.0.2.1", "192.0.2.1/"},
		{"http://[2001:DB8::1]:8080/x", "2001:db8::1", "2001:db8::1/x"},
		{"http://[::ffff:192.0.2.1]/", "192.0.2.1", "192.0.2.1/"},
		{"http://bücher.example/", "xn--bcher-kva.example", "xn--bcher-kva.example/"},
		{"http://XN--bcher-KVA.example/", "xn--bcher-kva.example", "xn--bcher-kva.example/"},
		{"http://ＥＸＡＭＰＬＥ．com/", "example.com", "example.com/"},
		{"http://example。com/", "example.com", "example.com/"},
		{"http://exam\u00adple\u200b.com/", "example.com", "example.com/"},
		{"http://ex%61mple%2ecom/", "example.com", "example.com/"},
		{"http://a_b.example.com/", "example.com", "a_b.example.com/"},
		{"http://forms.example//./a/../%62bc/x", "forms.example", "forms.example/bbc"},
		{"http://forms.example/%e4%bd/x", "forms.example", "forms.example/%E4%BD"},
		{"http://forms.example/a;b,c?d/e", "forms.example", "forms.example/a;b,c"},
		{"http://forms.example?d/e", "forms.example", "forms.example/"},
		{"ftp://example.com:21/a", "example.com", "example.com/a"},
	} {
		l, ok := Parse(tt.text)
		if !ok || l.Domain != tt.domain || l.Place() != tt.place {
			t.Errorf("Parse(%q) = %+v, %v: %q, %q; want %q, %q", tt.text, l, ok, l.Domain, l.Place(), tt.domain, tt.place)
		}
	}
}

// TestParseNone: what browsers refuse, and what leads to no host of the internet.
func TestParseNone(t *testing.T) {
	for _, text := range []string{
		"", "#top", "page.html", "/page", "mailto:a@example.com", "tel:+15550109999", "javascript://example.com/%0a",
		"data:text/html,x", "cid:a@b",
		"http://", "http:///", "http://localhost/", "http://a..b/", "http://0../", "http://a.b../",
		"http://.example.com/", "http://exa mple.com/", "http://example.com:99999/", "http://example.com:x/",
		"http://example.com:+80/", "http://[::1/", "http://[::1%25eth0]/", "http://[v1.x]/", "http://256.0.2.1/",
		"http://1.2.3.4.5/", "http://09.1.1.1/", "http://4294967296/",
		"http://192.0.2.256/", "http://0x100000000000000000/", "http://exa<mple.com/", "http://exa%00mple.com/",
		"http://exa%2fmple.com/", "http://xn--a.example/",
		"http://" + strings.Repeat("a.", 127) + "com/", "h ttp://example.com", "https", ":", "//",
	} {
		if l, ok := Parse(text); ok {
			t.Errorf("Parse(%q) = %+v, want none", text, l)
		}
	}
}

func TestURL(t *testing.T) {
	for text, want := range map[string]string{
		"HTTPS://Example.com:8443/A%62?c=%64&e=%2f#f": "http://example.com:8443/Ab?c=d&e=%2F",
		"http://[2001:db8::1]?x":                      "http://[2001:db8::1]/?x",
	} {
		if l, _ := Parse(text); l.URL() != want {
			t.Errorf("URL of %q is %q, want %q", text, l.URL(), want)
		}
	}
}

func TestAll(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"http://a.example/x", "a.example/x"},
		{"http://a.example/url?q=http://b.example/y&sa=D", "a.example/url b.example/y"},
		{"http://a.example/?url=https%3A%2F%2Fb.example%2Fy", "a.example/ b.example/y"},
		{"http://a.example/?u=%68ttp:%2f/b.example/y", "a.example/ b.example/y"},
		{"http://a.example/?x=1;u=//b.example/y", "a.example/ b.example/y"},
		{"http://a.example/?u=https%3A%2F%2Fb.example%2F%3Fv%3Dhttp%253A%252F%252Fc.example",
			"a.example/ b.example/ c.example/"},
		{"http://a.example/amp/https://b.example/y?z=1", "a.example/amp b.example/y"},
		{"http://a.example/?u=" + strings.Repeat("http://b.example/%3Fu=", 20),
			"a.example/ b.example/ b.example/ b.example/"},
		{"http://a.example/?" + strings.Repeat("u=http://b.example/&", 20), "a.example/ b.example/ b.example/ b.example/"},
		{"http://a.example/?u=/b.example&v=mailto:a@b.example&w=%2Fx", "a.example/"},
		{"no link", ""},
	} {
		var got []string
		for _, l := range All(tt.text) {
			got = append(got, l.Place())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("All(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"See http://a.example/x?y=1&z=2, (https://b.example/) or seehttp://c.example. Not ftp://d.example, not ://",
			"http://a.example/x?y=1&z=2 https://b.example/ http://c.example"},
		{"www.a.example, WWW.b.example/x; awww.c.example x@www.d.example", "http://www.a.example http://WWW.b.example/x"},
		{"hxxp://a.example hXXps://b[.]example/x h**p://c(dot)example",
			"http://a.example https://b.example/x http://c.example"},
		{"hxxps[:]//a[.]b[.]example[/]x", "https://a.b.example/x"},
		{"go to evil[.]example/login now, or (bad{dot}example)", "http://evil.example/login http://bad.example"},
		{"write to ann@example[.]com or ann(at)example(dot)com", ""},
		{"http://a.example,http://b.example;www.c.example|https://d.example",
			"http://a.example http://b.example http://www.c.example https://d.example"},
		{"http://a.example/?u=http://b.example/x", "http://a.example/?u= http://b.example/x"},
		{"<http://a.example/x>", "http://a.example/x"},
		{`"http://a.example/x"`, "http://a.example/x"},
		{"no links [...] f(x).y (see a.b) [1].", ""},
		{strings.Repeat("x", 5000) + "http://a.example/x", "http://a.example/x"},
		{strings.Repeat(",", 2*MaxURL-9) + "http://a.example/x" + strings.Repeat(",", 2*MaxURL), "http://a.example/x"},
	} {
		var got []string
		Find([]byte(tt.text), func(url string) bool { got = append(got, url); return true })
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%.80q: %q, want %q", tt.text, got, tt.want)
		}
	}
	n := 0
	Find([]byte("www.a.example www.b.example www.c.example"), func(string) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("found %d links, asked to end after 2", n)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		text, name, registrable string
		suffix                  bool
	}{
		{"Example.COM.", "example.com", "example.com", false},
		{"a.b.example.co.uk", "a.b.example.co.uk", "example.co.uk", false},
		{"co.uk", "co.uk", "", true},
		{"github.io", "github.io", "", false},
		{"bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example", false},
		{"com", "", "", false},
		{"192.0.2.1", "", "", false},
		{"", "", "", false},
		{"a b.example", "", "", false},
		{"a|b.example", "", "", false},
	} {
		name, ok := Name(tt.text)
		if name != tt.name && ok || ok != (tt.name != "") {
			t.Errorf("Name(%q) = %q, %v; want %q", tt.text, name, ok, tt.name)
		}
		if !ok {
			continue
		}
		if r, _ := Registrable(name); r != tt.registrable || PublicSuffix(name) != tt.suffix {
			t.Errorf("%s: registrable %q, suffix %v; want %q, %v", name, r, PublicSuffix(name), tt.registrable, tt.suffix)
		}
	}
}

// FuzzParse: whatever is read is of its form, and reading it again gives it again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"http://example.com:8080/a/../b?u=http%3A%2F%2Fx.example#z", `\\a@b.example\`,
		"http://0x7f.1/", "http://[::1]:80/", "https:bücher.example", "http://a。b/%2e%2e", `\\0..`, `\\b.p?\`,
		"\\\\00\\\x18#", "http://a.example/b c?d e #f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := All(text)
		if len(all) > maxTargets {
			t.Fatalf("%d links in one", len(all))
		}
		for _, l := range all {
			// A backslash is a slash in what leads somewhere, and itself in a query.
			place, _, _ := strings.Cut(l.URL(), "?")
			if l.Domain == "" || strings.ToLower(l.Host) != l.Host || !strings.HasPrefix(l.Path, "/") ||
				strings.ContainsAny(l.URL(), "\t\r\n") || strings.Contains(place, `\`) {
				t.Fatalf("%q: %+v", text, l)
			}
			if len(l.URL()) > MaxURL {
				continue
			}
			again, ok := Parse(l.URL())
			if !ok || again.Host != l.Host || again.Domain != l.Domain || again.Place() != l.Place() {
				t.Fatalf("%q: %+v, again %+v, %v", text, l, again, ok)
			}
		}
	})
}

// FuzzFind: what is found begins like a link, and does not depend on what stands
// beside it as another word.
func FuzzFind(f *testing.F) {
	for _, s := range []string{"see hxxp://a[.]b/ www.c.d, x(dot)y", "http://http://www.http://", "[.][.]{dot}",
		strings.Repeat("www.", 3000), "at http://1. or hxxp://localhost. they met.",
		"see http://x: (a.com:80), b.org or c.shop/x."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		find := func(text string) (all []string) {
			Find([]byte(text), func(url string) bool { all = append(all, url); return true })
			return all
		}
		got := find(text)
		var want []string
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return r < utf8.RuneSelf &&
				classes[r] == breaking
		}) {
			// A word whose first mark is its end ends a sentence, or announces one.
			if i := strings.IndexAny(word, marks); len(word) >= len("www.a.b") && i >= 0 && i < len(word)-1 {
				inWord([]byte(word), func(url string) bool { want = append(want, url); return true })
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%.200q: %q, word by word %q", text, got, want)
		}
		for _, url := range got {
			if !strings.HasPrefix(url, "http") && !strings.HasPrefix(url, "//") || len(url) > 2*MaxURL+16 {
				t.Fatalf("found %.80q of %d bytes", url, len(url))
			}
		}
		if doubled := find(text + " http://x.example/ " + text); !slices.Equal(doubled,
			slices.Concat(got, []string{"http://x.example/"}, got)) {
			t.Fatalf("%.200q: %q, doubled %q", text, got, doubled)
		}
	})
}

func ExampleAll() {
	for _, l := range All("https://www.example.com/go?url=https%3A%2F%2Fforms.example.net%2Fabc%2Fx") {
		fmt.Println(l.Domain, l.Place())
	}
	// Output:
	// example.com www.example.com/go
	// example.net forms.example.net/abc
}

// TestMayHaveFang: what is passed over has nothing to undo.
func TestMayHaveFang(t *testing.T) {
	pieces := []string{"[", "]", "(", ")", "{", "}", ".", "dot", "DOT", "Dot", ":", "/", "//", "a", "example", " "}
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		var text strings.Builder
		for range r.IntN(8) {
			text.WriteString(pieces[r.IntN(len(pieces))])
		}
		if s := text.String(); !mayHaveFang(s) && fangs.Replace(s) != s {
			t.Fatalf("%q has something to undo", s)
		}
	}
}
