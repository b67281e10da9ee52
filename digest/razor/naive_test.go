package razor

import (
	"bytes"
	"crypto/sha1"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// The functions below work byte by byte. The package does the same work faster, by runs and in place.

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
		"<", ">", "<!", "<!--", "-->", "--", "<a ", "href", "HREF", "=", " = ", "\"", "'", "http:/", "https://",
		"HTTP://", "http", ":", "/", "www", "WWW", "wWw.", "www\n", " www.x.y",
		"&lt;", "&quot", "&nbsp;", "&#65;", "&#655;", "&#1;", "&", "%41", "%4", "=3D", "=\n", "=\r\n", "=4=\n1",
		"<p>", "</p>", "\x00", "http\u017f:/", "\u212a",
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
		wantText := naiveReplace(text, '&', reference)
		if got, changed := replace(text, nil, '&', reference); !bytes.Equal(got, wantText) ||
			changed == bytes.Equal(text, wantText) {
			t.Fatalf("references in %q: %q, %v, want %q", text, got, changed, wantText)
		}
		if over := bytes.Clone(text); len(over) > 0 {
			if got, _ := replace(over, over[:0], '&', reference); !bytes.Equal(got, wantText) {
				t.Fatalf("references in %q, in place: %q, want %q", text, got, wantText)
			}
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

// naivePieces looks for the closing boundary first, then for any, then for each.
func naivePieces(body []byte, boundary string) (all []string) {
	dashes := []byte("--" + boundary)
	if i := bytes.Index(body, []byte("\n--"+boundary+"--")); i >= 0 {
		body = body[:i]
	}
	if !bytes.Contains(body, dashes) {
		return []string{string(body)}
	}
	separator := append([]byte{'\n'}, dashes...)
	start, first := 0, true
	if bytes.HasPrefix(body, dashes) {
		if end := lineEnd(body[len(dashes):]); end > 0 {
			start, first = len(dashes)+end, false
		}
	}
	for i := start; ; {
		n := bytes.Index(body[i:], separator)
		if n < 0 {
			break
		}
		after := i + n + len(separator)
		end := lineEnd(body[after:])
		if end == 0 {
			i += n + 1
			continue
		}
		if !first {
			all = append(all, string(body[start:i+n]))
		}
		first = false
		start = after + end
		i = start
	}
	if !first {
		all = append(all, string(body[start:]))
	}
	return all
}

func naiveQuoteFrom(mail []byte) []byte {
	var out []byte
	for line := range bytes.SplitAfterSeq(mail, []byte{'\n'}) {
		if bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte("From ")) {
			out = append(out, '>')
		}
		out = append(out, line...)
	}
	return out
}

func naiveKeepFields(header []byte) (kept []byte) {
	for len(header) > 0 {
		line, rest := folded(header)
		if one := unfold(nil, line); scan.HasPrefixFold(one, "Content-") || scan.HasPrefixFold(one, "X-Razor2") {
			kept = append(append(kept, one...), '\n')
		}
		header = rest
	}
	return kept
}

// TestLinesAsNaive does the same for what goes by lines.
func TestLinesAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	tokens := []string{"\n", "\n", "\r\n", "\n--b", "\n--b\n", "\n--b--", "\n--b--\n", "--b", "--b\r\r\n", "b",
		"-", "--", "\n\n", " ", "text", "From ", ">", "\nFrom ", "\n>>From ", ">From", "F",
		"\nContent-Type: a", "\ncontent-x: b", "\nX-Razor2: c", "\n x", "\nContent-\n\tType", "\nConte\n nt-Type: x",
		"\n\n \n Content-a"}
	for range 50_000 {
		var text []byte
		for range r.IntN(12) {
			text = append(text, tokens[r.IntN(len(tokens))]...)
		}
		for _, boundary := range []string{"b", "", "b\n--b", "-"} {
			want := naivePieces(text, boundary)
			var got []string
			for piece := range pieces(text, boundary) {
				got = append(got, string(piece))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q at %q: %q, want %q", text, boundary, got, want)
			}
		}
		if got, want := quoteFrom(text), naiveQuoteFrom(text); !bytes.Equal(got, want) {
			t.Fatalf("%q quoted: %q, want %q", text, got, want)
		}
		lines := bytes.ReplaceAll(text, []byte("text"), bytes.Repeat([]byte("text and more "), r.IntN(12)))
		lines = bytes.Repeat(lines, 1+r.IntN(9)*r.IntN(9))
		got, empty := engine4(lines)
		if want, wantEmpty := naiveEngine4(lines); got != want || empty != wantEmpty {
			t.Fatalf("%q: %v, %v, want %v, %v", lines, got, empty, want, wantEmpty)
		}
		part := []byte("Content-Transfer-Encoding: base64\n" + []string{"\n", "x: y\n\n", ""}[r.IntN(3)])
		for range r.IntN(100) {
			part = append(part, []string{"A", "b", "Zz09", "++//", "QUJD", "=", "\n", " ", "-", "\r\n"}[r.IntN(10)]...)
		}
		wantPart := naiveBase64(part)
		if got, ok := decodeBase64(part, nil); !ok || !bytes.Equal(got, wantPart) {
			t.Fatalf("%q: %q, %v, want %q", part, got, ok, wantPart)
		}
		if got, want := keepFields(text, nil), naiveKeepFields(text); !bytes.Equal(got, want) {
			t.Fatalf("of %q: %q, want %q", text, got, want)
		}
	}
}

// naiveEngine4 cuts all of a text into lines.
func naiveEngine4(text []byte) (sig bulkhead.Signature, empty bool) {
	lines := bytes.Split(text, []byte{'\n'})
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	n := float64(len(lines))
	at := func(i int) int { return int(math.Floor(float64(percentP[i]*n) / 100)) }
	one := naiveSection(lines, at(1), at(2), percentQ)
	two := naiveSection(lines, at(3), at(4), percentR)
	input := text
	if len(one)+len(two) > 128 {
		if len(one) > 0 && len(two) > 0 && allBlank(one) && allBlank(two) {
			one, two = nil, nil
		}
		input = append(one, two...)
	}
	sum := sha1.Sum(input)
	return bulkhead.MustSignature(bulkhead.RazorE4, sum[:]), len(input) == 0
}

// naiveIsVoid reports whether line k counts as missing.
func naiveIsVoid(lines [][]byte, k int) bool {
	return k >= len(lines) || len(lines[k]) == 0 || string(lines[k]) == "0"
}

// naiveSection picks one stretch from the lines first to last:
// docs/specs/razor2.md#sections. The walk is the client's, literally: a column of
// zero is set again on the next line.
func naiveSection(lines [][]byte, first, last int, q [2]float64) []byte {
	total := 0
	for k := first; k <= last; k++ {
		if !naiveIsVoid(lines, k) {
			total += len(lines[k])
		}
	}
	from := int(math.Floor(float64(q[0]*float64(total)) / 100))
	to := int(math.Floor(float64(q[1]*float64(total)) / 100))
	var sum, startCol, startLine, endCol, endLine int
	for k := first; k <= last && endCol == 0; k++ {
		if naiveIsVoid(lines, k) {
			continue
		}
		sum += len(lines[k])
		if sum > from && startCol == 0 {
			startCol, startLine = len(lines[k])-(sum-from), k
		}
		if sum > to {
			endCol, endLine = len(lines[k])-(sum-to), k
		}
	}
	startCol, endCol = max(startCol, 0), max(endCol, 0)
	var section []byte
	if startLine == endLine {
		if naiveIsVoid(lines, startLine) || startCol >= len(lines[startLine]) {
			return nil
		}
		return append(section, lines[startLine][startCol:min(endCol+1, len(lines[startLine]))]...)
	}
	section = append(section, lines[startLine][startCol:]...)
	for k := startLine + 1; k < endLine; k++ {
		section = append(section, lines[k]...)
	}
	return append(section, lines[endLine][:endCol]...)
}

// naiveBase64 collects digits first.
func naiveBase64(part []byte) []byte {
	const mark = "Content-Transfer-Encoding: base64"
	if lineStart(part, mark) < 0 {
		return part
	}
	// The line decides whether, the first mention anywhere decides from where.
	rest := part[mention(part, mark)+len(mark):]
	data, cut := rest, false
	if _, end := blankLine(rest); end >= 0 {
		data, cut = rest[end:], true
	}
	if cut {
		data, _, _ = bytes.Cut(data, []byte{'='})
	}
	digits := make([]byte, 0, len(data))
	pads := 0 // "=" at the end of digits
	for _, c := range data {
		if v, ok := scan.Digit64(c); ok {
			digits = append(digits, v)
			if pads++; c != '=' {
				pads = 0
			}
		}
	}
	// Without a blank line to start from, the client removes only the padding at
	// the very end, and takes any other for a digit.
	digits = digits[:len(digits)-pads]
	header := part
	if start, _ := blankLine(part); start >= 0 {
		header = part[:start]
	}
	out := append(make([]byte, 0, len(header)+2+len(digits)/4*3+64), header...)
	out = append(out, '\n', '\n')
	return naiveDigits(out, digits)
}

// naiveDigits appends what six-bit digits stand for to out. A digit left over alone stands for as many
// zero bytes as its value, unless it opens one of the client's lines of sixty.
func naiveDigits(out, d []byte) []byte {
	i := 0
	for ; i+4 <= len(d); i += 4 {
		out = append(out, d[i]<<2|d[i+1]>>4, d[i+1]<<4|d[i+2]>>2, d[i+2]<<6|d[i+3])
	}
	switch len(d) - i {
	case 3:
		out = append(out, d[i]<<2|d[i+1]>>4, d[i+1]<<4|d[i+2]>>2)
	case 2:
		out = append(out, d[i]<<2|d[i+1]>>4)
	case 1:
		if len(d)%60 != 1 {
			out = append(out, make([]byte, d[i])...)
		}
	}
	return out
}
