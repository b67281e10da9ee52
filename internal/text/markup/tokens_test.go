package markup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// noLineEnds takes out line ends, which the library makes all LF.
func noLineEnds(text string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(text) }

// tokens returns what Over makes of source.
func tokens(source string, max int) (all []string) {
	t := Over(source, max)
	for t.Next() {
		one := fmt.Sprintf("%d %q", t.Kind(), t.Raw())
		switch t.Kind() {
		case Text:
			one += fmt.Sprintf(" %q", noLineEnds(t.Text()))
			if appended := string(t.AppendText([]byte("&"))); appended != "&"+t.Text() {
				one += fmt.Sprintf(", appended %q", appended)
			}
			if stepped := string(inSteps(t.Raw())); !t.Verbatim() && stepped != t.Text() {
				one += fmt.Sprintf(", in steps %q", stepped)
			}
		case Start, SelfClosing, End:
			one += " " + string(t.AppendName(nil))
			if strings.Contains(one, "noscript") {
				t.NotRaw()
			}
			if t.Kind() != End {
				all := ""
				t.Attributes(func(key, value string) bool {
					all += fmt.Sprintf(" %q=%q", key, Value(value))
					return true
				})
				if once, ok := noted(&t); ok && once != all {
					one += " written" + once
				}
				one += all
			}
		}
		all = append(all, one)
	}
	return append(all, fmt.Sprint(t.TooLong()))
}

// inSteps returns what text stands for, of which each reference is read apart.
func inSteps(text string) (all []byte) {
	for text != "" {
		n := strings.IndexByte(text, '&')
		if n < 0 {
			n = len(text)
		}
		all = append(all, text[:n]...)
		if text = text[n:]; text != "" {
			all, n = AppendReference(all, text)
			text = text[n:]
		}
	}
	return all
}

// noted returns the attributes of a tag in the form of Attributes, from the attributes that were noted.
func noted(t *Tokens) (all string, ok bool) {
	n, ok := t.Written()
	if !ok {
		return "", false
	}
	seen := make(map[string]bool)
	for i := range n {
		key, value := t.Attribute(i)
		if key = lower(key); !seen[key] {
			all += fmt.Sprintf(" %q=%q", strings.ReplaceAll(key, "\x00", "\uFFFD"), Value(value))
		}
		seen[key] = true
	}
	return all, true
}

// naiveTokens returns what golang.org/x/net/html makes of it.
func naiveTokens(source string, max int) (all []string) {
	z := html.NewTokenizer(strings.NewReader(source))
	z.SetMaxBuf(max)
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return append(all, fmt.Sprint(errors.Is(z.Err(), html.ErrBufferExceeded)))
		}
		ours := Other
		switch kind {
		case html.TextToken:
			ours = Text
		case html.StartTagToken:
			ours = Start
		case html.SelfClosingTagToken:
			ours = SelfClosing
		case html.EndTagToken:
			ours = End
		}
		one := fmt.Sprintf("%d %q", ours, z.Raw())
		switch ours {
		case Text:
			one += fmt.Sprintf(" %q", noLineEnds(string(z.Text())))
		case Start, SelfClosing, End:
			name, hasAttr := z.TagName()
			one += " " + string(name)
			if strings.Contains(one, "noscript") {
				z.NextIsNotRawText()
			}
			for hasAttr {
				var key, value []byte
				key, value, hasAttr = z.TagAttr()
				one += fmt.Sprintf(" %q=%q", key, value)
			}
		}
		all = append(all, one)
	}
}

var pieces = []string{"<", ">", "</", "/>", "/", "=", "'", "\"", " ", "\n", "\r\n", "\r", "\t", "\f", "a", "B",
	"x1", "<a", "<A href=", "<img src='", "<br/>", "<p ", "</p>",
	"<!--", "-->", "--!>", "-", "--", "!", "<!", "<!DOCTYPE html>", "<!doctype", "<?xml", "<script>", "</script>",
	"<SCRIPT ", "</scriPt ", "script", "<script", "</script", "<style>", "</style>",
	"<title>", "</title>", "<textarea>", "</textarea>", "<noscript>", "</noscript>", "<iframe>", "</iframe>",
	"<xmp>", "<plaintext>", "&", "&amp;", "&ampx;", "&lt", "&lt=", "&#65;", "&#x41", "&#", "&#13;",
	"&notit;", "&not=", "&fjlig;", "&NotEqualTilde;", "&nosuch;", "&nbsp;", "&lt;", "&gt;", "&quot;", "&quot",
	"&#39;", "\x00", "\u00e4", "\xff", "text and text", "style=\"color:red\"", "a=b a=/", "A=c", "hidden"}

// TestTokens compares the tokens with the tokens of golang.org/x/net/html.
func TestTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 200_000
	if testing.Short() {
		n = 40_000
	}
	for range n {
		var source strings.Builder
		for range 1 + r.IntN(24) {
			source.WriteString(pieces[r.IntN(len(pieces))])
		}
		check(t, source.String(), 16+r.IntN(2)*r.IntN(100))
		check(t, source.String(), 1<<10)
	}
}

// TestManyAttributes checks that repeated attributes are recognised however many there are.
func TestManyAttributes(t *testing.T) {
	for _, n := range []int{1, 15, 16, 17, 40} {
		var tag strings.Builder
		tag.WriteString("<a ")
		for i := range n {
			fmt.Fprintf(&tag, "a%d=1 A%d=2 a%d/ ", i, i/2, i)
		}
		check(t, tag.String()+"z=/>", 1<<14)
		check(t, tag.String()+"a0=/>", 1<<14)
	}
}

func check(t *testing.T, source string, max int) {
	t.Helper()
	if got, want := Unescape(source), html.UnescapeString(source); got != want {
		t.Fatalf("%q means %q, want %q", source, got, want)
	}
	got, want := tokens(source, max), naiveTokens(source, max)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%q with tokens below %d:\n%s\nwant\n%s", source, max, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func FuzzTokens(f *testing.F) {
	for i := range pieces {
		f.Add(strings.Join(pieces[i:min(i+9, len(pieces))], ""), 20+i)
	}
	f.Add("<script><!--<script></script>--></script><b>", 64)
	f.Fuzz(func(t *testing.T, source string, max int) {
		check(t, source, 16+max&0xffff)
	})
}
