package razor

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead/signature/internal/mailtest"
	"github.com/bulkhead-mail/bulkhead/signature/internal/scan"
)

// What follows does slowly, byte by byte, what the package does by runs and in place.

func naiveBareLinks(b []byte) []string {
	var links []string
	for i := 1; i < len(b); i++ {
		if b[i]|0x20 != 'w' || !isBlank(b[i-1]) || !scan.HasPrefixFold(b[i:], "www") || i+3 >= len(b) || b[i+3] == '\n' {
			continue
		}
		end := i + 4
		for end < len(b) && bytes.IndexByte([]byte(" />\"<\r\n"), b[end]) < 0 {
			end++
		}
		if end == i+4 {
			continue
		}
		links = append(links, string(b[i:end]))
		i = end - 1 // the blank that ends this link may precede the next one
	}
	return links
}

func naiveFirstURL(b []byte) (rest []byte, href, ok bool) {
	plain := 0 // behind the first "http://" that no href needs
	for i := range b {
		if b[i]|0x20 != 'h' {
			continue
		}
		if plain == 0 {
			if n := schemeLen(b[i:]); n > 0 {
				plain = i + n
			}
		}
		if !scan.HasPrefixFold(b[i:], "href") {
			continue
		}
		j := skipBlanks(b, i+4)
		if j >= len(b) || b[j] != '=' {
			continue
		}
		j = skipBlanks(b, j+1)
		if j < len(b) && b[j] == '"' {
			j++
		}
		if n := schemeLen(b[j:]); n > 0 {
			return b[j+n:], true, true
		}
	}
	if plain > 0 {
		return b[plain:], false, true
	}
	return nil, false, false
}

func schemeLen(b []byte) int {
	n := 0
	switch {
	case len(b) < 2 || b[1]|0x20 != 't':
		return 0
	case scan.HasPrefixFold(b, "http:/"):
		n = 6
	case scan.HasPrefixFold(b, "https:/"):
		n = 7
	default:
		return 0
	}
	if n < len(b) && b[n] == '/' {
		n++
	}
	return n
}

func naiveReplace(b []byte, mark byte, meaning func([]byte) ([]byte, int)) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, mark)
		if i < 0 {
			return append(out, b...)
		}
		out = append(out, b[:i]...)
		b = b[i:]
		if char, n := meaning(b); n > 0 {
			out = append(out, char...)
			b = b[n:]
		} else {
			out = append(out, mark)
			b = b[1:]
		}
	}
}

func naiveStrip(in []byte) []byte {
	out := make([]byte, 0, len(in))
	var tag, sgml bool
	var quote, last byte
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case quote != 0:
			if c == quote && (c != '-' || last == '-') {
				quote = 0
			}
		case c == '<':
			tag = true
			if i++; i < len(in) && in[i] == '!' {
				sgml = true
			}
		case c == '>':
			if tag {
				tag, sgml = false, false
			}
		case c == '-' && sgml && last == '-':
			quote = '-'
		case (c == '"' || c == '\'') && tag:
			quote = c
		case c == '&':
			char, n := entity(in[i+1:])
			out = append(out, char)
			i += n
		case !tag:
			out = append(out, c)
		}
		last = c
	}
	return out
}

func naiveQuotedPrintable(part []byte) []byte {
	start, end := blankLine(part)
	if start < 0 || lineStart(part[:start], "Content-Transfer-Encoding: quoted-printable") < 0 {
		return part
	}
	body := naiveSoftBreaks(part[end:])
	out := append(make([]byte, 0, len(part)), part[:end]...)
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...)
		}
		out = append(out, body[:i]...)
		if body = body[i:]; len(body) > 2 {
			hi, ok1 := scan.Hex(body[1])
			lo, ok2 := scan.Hex(body[2])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				body = body[3:]
				continue
			}
		}
		out = append(out, '=')
		body = body[1:]
	}
}

func naiveSoftBreaks(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 {
			return append(out, body...)
		}
		out = append(out, body[:i]...)
		switch body = body[i+1:]; {
		case bytes.HasPrefix(body, []byte("\n")):
			body = body[1:]
		case bytes.HasPrefix(body, []byte("\r\n")):
			body = body[2:]
		default:
			out = append(out, '=')
		}
	}
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tokens := []string{
		"<", ">", "<!", "<!--", "-->", "--", "<a ", "href", "HREF", "=", " = ", "\"", "'", "http:/", "https://", "HTTP://", "http", ":", "/", "www", "WWW", "wWw.", "www\n", " www.x.y",
		"&lt;", "&quot", "&nbsp;", "&#65;", "&#655;", "&#1;", "&", "%41", "%4", "=3D", "=\n", "=\r\n", "=4=\n1", "<p>", "</p>", "\x00", "http\u017f:/", "\u212a",
	}
	for range 20_000 {
		text := mailtest.Text(r)[:0:0]
		if r.IntN(2) == 0 {
			text = mailtest.Text(r)
		}
		for range r.IntN(40) {
			text = slices.Insert(text, r.IntN(len(text)+1), []byte(tokens[r.IntN(len(tokens))])...)
			text = append(text, tokens[r.IntN(len(tokens))]...)
		}
		if got, want := bareLinks(text), naiveBareLinks(text); !slices.Equal(got, want) {
			t.Fatalf("bare links of %q: %q, want %q", text, got, want)
		}
		rest, href, ok := firstURL(text)
		wantRest, wantHref, wantOK := naiveFirstURL(text)
		if string(rest) != string(wantRest) || href != wantHref || ok != wantOK {
			t.Fatalf("first URL of %q: before %q, %v, %v; want %q, %v, %v", text, rest, href, ok, wantRest, wantHref, wantOK)
		}
		if got, want := replace(text, '&', reference), naiveReplace(text, '&', reference); !bytes.Equal(got, want) {
			t.Fatalf("references in %q: %q, want %q", text, got, want)
		}
		want := naiveStrip(text)
		if got := strip(nil, text); !bytes.Equal(got, want) {
			t.Fatalf("%q stripped: %q, want %q", text, got, want)
		}
		if over := bytes.Clone(text); !bytes.Equal(strip(over[:0], over), want) {
			t.Fatalf("%q stripped in place: %q, want %q", text, over, want)
		}
		part := append([]byte("Content-Transfer-Encoding: quoted-printable\n\n"), text...)
		if got, want := decodeQuotedPrintable(part, nil), naiveQuotedPrintable(part); !bytes.Equal(got, want) {
			t.Fatalf("%q decoded: %q, want %q", part, got, want)
		}
	}
}
