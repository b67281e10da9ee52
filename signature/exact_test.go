package signature

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// canonicalOf is the canonical form of a part as doc.go describes it.
func canonicalOf(text string) string {
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	for i, line := range lines {
		lines[i] = norm.NFC.String(strings.TrimRight(line, " \t\v\f\u00a0"))
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n\x00"
}

// TestCanonicalText holds the text that is hashed to its description, for random lines,
// short and longer than what is normalised or hashed at a time.
func TestCanonicalText(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	pieces := []string{"a", "word ", "é", "e\u0301", "Å", "한", "\u0301", "ﬁ", " ", "\t", "\u00a0", "\v", "\f",
		"\n", "\n\n", "\r\n", "\r", "\n \n"}
	lengths := []int{0, 5, 50, 500, 5 << 10, 100 << 10}
	var buf []byte
	for range 150 {
		var b strings.Builder
		only := len(pieces)
		if rng.IntN(3) == 0 {
			only = 9 // one long line
		}
		for n := lengths[rng.IntN(len(lengths))]; b.Len() < n; {
			b.WriteString(strings.Repeat(pieces[rng.IntN(only)], 1+rng.IntN(4)))
		}
		text := b.String()
		h := sha256.New()
		buf = hashCanonical(h, text, buf, nil)
		want := sha256.Sum256([]byte(canonicalOf(text)))
		if !bytes.Equal(h.Sum(nil), want[:]) {
			t.Fatalf("a text of %d bytes, %.200q: another sum than that of %.200q", len(text), text, canonicalOf(text))
		}
	}
	// Of many empty lines in a row 1024 count.
	for n, same := range map[int]bool{1023: false, 1024: true, 1025: true, 5000: true} {
		a, b := sha256.New(), sha256.New()
		hashCanonical(a, "a"+strings.Repeat("\n", n+1)+"b", nil, nil)
		hashCanonical(b, "a"+strings.Repeat("\n", 3001)+"b", nil, nil)
		if got := bytes.Equal(a.Sum(nil), b.Sum(nil)); got != same {
			t.Errorf("%d empty lines are as 3000: %v, want %v", n, got, same)
		}
	}
}

// TestExactFloor: eight different words, with 32 bytes in them, have a signature.
func TestExactFloor(t *testing.T) {
	for text, want := range map[string]bool{
		"aaab aabb abbb bbbb bbba bbaa baaa abab": true, "aaab aabb abbb bbbb bbba bbaa baaa aba": false,
		"aaaaab aaabb aabbb abbbb bbbbb bbbba bbbaa": false,
		"aaab aabb abbb bbbb\n> bbba bbaa baaa abab": true, "aaab aabb abbb bbbb bbba bbaa baaa baaa baaa": false,
	} {
		if exact, _ := own(t, mailtest.Plain(text)); (exact != "") != want {
			t.Errorf("%q: signature %x, want one: %v", text, exact, want)
		}
	}
	const words = "aaaab aaabb aabbb abbbb bbbbb bbbba bbbaa "
	for text, want := range map[string]bool{
		words + "bbaaa aaaab aaaab aaaab aaaab":          false, // 40 bytes in eight words
		words + "bbaaabbbbaaabb aaaab aaaab aaaab aaaab": true,
		words + "bbaaabbbbaaab aaaab aaaab aaaab":        false,
		words + "bbaaabbbbaaab aaaab aaaab aaaab aaaab":  true,
		words + "aaaab bbaaabbbbaaabb aaaab aaaab":       false,
	} {
		want := want && len(strings.Fields(text)) >= nearMinWords
		if _, near := own(t, mailtest.Plain(text)); (len(near) > 0) != want {
			t.Errorf("%q: %d bands, want some: %v", text, len(near), want)
		}
	}
}

// TestDataFloor: the attachments of a message without words count from 4 KiB and 32
// different bytes on, all together.
func TestDataFloor(t *testing.T) {
	data := func(size, distinct int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i % distinct)
		}
		return b
	}
	for _, tt := range []struct {
		parts [][]byte
		want  bool
	}{
		{[][]byte{data(4096, 32)}, true}, {[][]byte{data(4095, 32)}, false}, {[][]byte{data(4096, 31)}, false},
		{[][]byte{data(100_000, 31)}, false},
		{[][]byte{data(2048, 32), data(2048, 7)}, true}, {[][]byte{data(4000, 31), data(96, 31)}, false},
		{[][]byte{data(4000, 20), bytes.Repeat([]byte{200}, 96)}, false},
		{[][]byte{make([]byte, 70_000), data(40, 32)}, true}, {[][]byte{make([]byte, 70_000), data(40, 31)}, false},
		{[][]byte{append(make([]byte, 70_000), data(40, 32)...)}, true}, {nil, false},
	} {
		m := &mail.Message{}
		for _, p := range tt.parts {
			m.Parts = append(m.Parts, mail.Part{Type: "application/x", Data: p})
		}
		if got := dataFloor(m, nil); got != tt.want {
			t.Errorf("%d parts: %v, want %v", len(tt.parts), got, tt.want)
		}
	}
}

// TestPictureWithLink: a page with a link to follow and a picture is a message, and
// neither alone, nor what is attached or cannot be seen.
func TestPictureWithLink(t *testing.T) {
	page := func(html string) mail.Part { return mail.Part{Type: "text/html", HTML: true, Text: html} }
	const img, a, hidden = `<img src="http://i.example/x.png">`, `<a href="http://a.example/">x</a>`,
		`<div style="display:none"><a href="http://a.example/">x</a></div>`
	attached := page(img + a)
	attached.Attachment = true
	for name, tt := range map[string]struct {
		parts []mail.Part
		want  bool
	}{
		"both": {[]mail.Part{page(img + a)}, true}, "in two pages": {[]mail.Part{page(img), page(a)}, true},
		"picture": {[]mail.Part{page(img)}, false}, "link": {[]mail.Part{page(a)}, false},
		"hidden": {[]mail.Part{page(img + hidden)}, false}, "attached": {[]mail.Part{attached}, false},
		"none": {nil, false}, "plain": {[]mail.Part{{Type: "text/plain", Text: "http://a.example"}, page(img)}, false},
	} {
		if got, err := showsLinkedPicture(t.Context(), &mail.Message{Parts: tt.parts}); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tt.want)
		}
	}
}

// attachmentsOf returns the sums of bulkhead/attachment signatures of parts.
func attachmentsOf(t *testing.T, parts ...mail.Part) (sums []string) {
	t.Helper()
	for _, sig := range mailtest.Must(attachmentSignatures(t.Context(), &mail.Message{Parts: parts}, nil)) {
		sums = append(sums, string(sig.Sum()))
	}
	return sums
}

// TestAttachmentBounds: the largest attachments count, from a size on, and the first
// texts, from a number of words on.
func TestAttachmentBounds(t *testing.T) {
	sum := func(data []byte) string { s := sha256.Sum256(data); return string(s[:]) }
	file := func(size int, c byte) mail.Part {
		return mail.Part{Type: "application/x", Attachment: true, Data: bytes.Repeat([]byte{c}, size)}
	}
	if got := attachmentsOf(t, file(minAttachment, 1), file(minAttachment+1, 2)); !slices.Equal(got,
		[]string{sum(bytes.Repeat([]byte{2}, minAttachment+1))}) {
		t.Errorf("%x", got)
	}
	var files []mail.Part
	var want []string
	for i := range maxAttachments + 3 {
		files = append(files, file(minAttachment+1+i, byte(i)))
		want = append(want, sum(files[i].Data))
	}
	slices.Reverse(want)
	if got := attachmentsOf(t, files...); !slices.Equal(got, want[:maxAttachments]) {
		t.Errorf("%d signatures of %d files, want those of the %d largest first", len(got), len(files), maxAttachments)
	}
	text := func(s string) mail.Part { return mail.Part{Type: "text/plain", Attachment: true, Text: s} }
	const eleven = "abcd abce abcg abch abco abcu abda abde abdo abdu abea " // 44 bytes
	textSum := func(words string) string { return sum([]byte("text\x00" + words + " ")) }
	for s, want := range map[string]string{
		eleven + "abeo": textSum(eleven + "abeo"), eleven + "abe": "", eleven + "abea": "", eleven: "",
		eleven + "abcd abed": textSum(eleven + "abcd abed"), eleven + "ABED, http://x.example/y": textSum(eleven + "abed"),
		strings.ReplaceAll(eleven, "ab", "abb") + "ab": textSum(strings.ReplaceAll(eleven, "ab", "abb") + "ab"),
	} {
		got := attachmentsOf(t, text(s))
		if want == "" && got != nil || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %x, want %x", s, got, want)
		}
	}
	body := text(eleven + "abeo")
	body.Attachment = false
	if got := attachmentsOf(t, body); got != nil {
		t.Errorf("the text itself: %x", got)
	}
	var texts []mail.Part
	want = nil
	for i := range maxAttachedTexts + 2 {
		words := eleven + "abe" + string("aeouyAEOUY"[i%5]) + strings.Repeat("a", i)
		texts = append(texts, text("x"), text(words))
		want = append(want, textSum(strings.ReplaceAll(words, "abeaa", "abeaa")))
	}
	got := attachmentsOf(t, texts...)
	if len(got) != maxAttachedTexts || !slices.Contains(got, want[1]) || !slices.Contains(got, want[maxAttachedTexts-1]) {
		t.Errorf("%d signatures of %d texts, want %d", len(got), len(texts)/2, maxAttachedTexts)
	}
	// The recipient's name makes no difference.
	m := func(to, words string) *mail.Message {
		return &mail.Message{To: []string{to}, Parts: []mail.Part{text(words)}}
	}
	one := mailtest.Must(attachmentSignatures(t.Context(), m("Bob <x@y.zz>", eleven+"abeo bob"), nil))
	two := mailtest.Must(attachmentSignatures(t.Context(), m("Eve <x@y.zz>", eleven+"eve abeo"), nil))
	if !slices.Equal(one, two) || len(one) != 1 {
		t.Errorf("to Bob and to Eve: %x, %x", one, two)
	}
}

// TestMarkupChoice: the page with the most elements counts, from 30 on, the first of
// equals.
func TestMarkupChoice(t *testing.T) {
	page := func(name string, n int) mail.Part {
		return mail.Part{Type: "text/html", HTML: true, Text: strings.Repeat("<"+name+">", n)}
	}
	sum := func(names string) []bulkhead.Signature {
		s := sha256.Sum256([]byte(names))
		return appendSignature(nil, bulkhead.Markup, s[:])
	}
	for name, tt := range map[string]struct {
		parts []mail.Part
		want  []bulkhead.Signature
	}{
		"30":       {[]mail.Part{page("p", minMarkup)}, sum(strings.Repeat("p ", minMarkup))},
		"29":       {[]mail.Part{page("p", minMarkup-1)}, nil},
		"no page":  {[]mail.Part{{Type: "text/plain", Text: strings.Repeat("<p>", 40)}}, nil},
		"the most": {[]mail.Part{page("p", 31), page("b", 33), page("i", 32)}, sum(strings.Repeat("b ", 33))},
		"equals":   {[]mail.Part{page("p", 31), page("b", 31)}, sum(strings.Repeat("p ", 31))},
	} {
		if got := mailtest.Must(markupSignatures(t.Context(), &mail.Message{Parts: tt.parts})); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestCutNormal: a long text is cut where nothing before the cut touches what is behind
// it, or else between characters.
func TestCutNormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	pieces := []string{"a", "é", "e", "\u0301", "한", "ᄒ", "ᅡ", "ᆫ", "😀"}
	for range 400 {
		var b []byte
		for n := normPiece - 20 + rng.IntN(40); len(b) < n; {
			b = append(b, pieces[rng.IntN(len(pieces))]...)
		}
		n := cutNormal(norm.NFC, b)
		if len(b) <= normPiece && n != len(b) || n > normPiece || n <= normPiece/2 && len(b) > normPiece {
			t.Fatalf("%d bytes are cut at %d", len(b), n)
		}
		if got := string(norm.NFC.Bytes(b[:n])) + string(norm.NFC.Bytes(b[n:])); got != string(norm.NFC.Bytes(b)) {
			t.Fatalf("cut at %d of %d it is another text", n, len(b))
		}
	}
	for _, mark := range []string{"\u0301", "\u0f71", "𑄧"} { // none begins a character
		b := []byte(strings.Repeat(mark, 3000))
		if n := cutNormal(norm.NFC, b); n > normPiece || n <= normPiece/2 || n%len(mark) != 0 {
			t.Errorf("%q is cut at %d", mark, n)
		}
	}
	none := strings.Repeat("\x80", normPiece) // no character begins there
	for _, last := range []string{"a", "\x80"} {
		if n := cutNormal(norm.NFC, []byte(none+last)); n > normPiece || n < normPiece-4 || last == "a" && n != normPiece {
			t.Errorf("what is no text is cut at %d", n)
		}
	}
}

// TestComputeOptions: what is not wanted is not computed; the key may change between two
// messages; several workers compute the same, and a panic of one reaches the caller.
func TestComputeOptions(t *testing.T) {
	raw := mailtest.Page("<p>" + mailtest.Letter + `</p><a href="http://a.example/">x</a>`)
	all := mailtest.Must(Compute(t.Context(), raw, Options{}))
	for _, workers := range []int{-1, 2, 5, 50} {
		if got := mailtest.Must(Compute(t.Context(), raw, Options{Workers: workers})); !slices.Equal(got, all) {
			t.Errorf("%d workers: %v, want %v", workers, got, all)
		}
	}
	schemes := make(map[bulkhead.Scheme]bool)
	for _, sig := range all {
		schemes[sig.Scheme()] = true
	}
	if len(schemes) < 8 {
		t.Errorf("signatures of %d schemes", len(schemes))
	}
	for scheme := range schemes {
		want := slices.DeleteFunc(slices.Clone(all), func(s bulkhead.Signature) bool { return s.Scheme() == scheme })
		if got := mailtest.Must(Compute(t.Context(), raw,
			Options{Skip: []bulkhead.Scheme{scheme}})); !slices.Equal(got, want) {
			t.Errorf("without %v: %v", scheme, got)
		}
	}
	n := byte(0)
	now := Options{KeyNow: func() [16]byte { n++; return [16]byte{n} }}
	for k := byte(1); k < 3; k++ {
		if got, want := mailtest.Must(Compute(t.Context(), raw, now)),
			mailtest.Must(Compute(t.Context(), raw, Options{Key: [16]byte{k}})); !slices.Equal(got, want) {
			t.Errorf("key %d is not used", k)
		}
	}
	for _, workers := range []int{1, 3} {
		func() {
			defer func() {
				if r := recover(); r != "as asked" {
					t.Errorf("%d workers: recovered %v", workers, r)
				}
			}()
			calls := make([]family, 20)
			calls[7] = func() ([]bulkhead.Signature, error) { panic("as asked") }
			inParallel(calls, workers)
		}()
	}
}

// TestNearKeys: the functions of a network differ from each other and from those of
// another network, and each keeps different shingles apart.
func TestNearKeys(t *testing.T) {
	seen := make(map[uint64]bool)
	for k := range byte(3) {
		key := newNearKey([16]byte{k})
		for i := range key.mul {
			if key.mul[i]%2 == 0 {
				t.Errorf("function %d maps two shingles to one", i)
			}
			for _, x := range []uint64{key.mul[i], key.add[i]} {
				if seen[x] {
					t.Errorf("key %d: function %d is like another", k, i)
				}
				seen[x] = true
			}
		}
		if seen[key.k0] || seen[key.k1] || key.k0 == key.k1 {
			t.Errorf("key %d is not kept apart", k)
		}
	}
}

// TestSignaturesEnd: each kind of signature ends with its context.
func TestSignaturesEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := mailtest.Must(mail.Read(t.Context(),
		mailtest.Page("<p>"+strings.Repeat(mailtest.Letter, 400)+`</p><a href="http://a.example/">x</a> +15550109999`)))
	m.Parts = append(m.Parts, mail.Part{Type: "application/x", Data: make([]byte, 1<<20)},
		mail.Part{Type: "text/html", HTML: true, Attachment: true, Text: m.Parts[0].Text})
	for name, compute := range map[string]func() (int, error){
		"all":     func() (int, error) { s, err := signaturesOf(ctx, m, Options{}); return len(s), err },
		"own":     func() (int, error) { s, err := ownSchemes(ctx, m, Options{}, nil, new(kind)); return len(s), err },
		"markup":  func() (int, error) { s, err := markupSignatures(ctx, m); return len(s), err },
		"links":   func() (int, error) { _, err := linkSignatures(ctx, m, [16]byte{}, new(bool)); return 0, err },
		"contact": func() (int, error) { _, err := contactSignatures(ctx, m, [16]byte{}); return 0, err },
		"files":   func() (int, error) { _, err := attachmentSignatures(ctx, m, nil); return 0, err },
		"picture": func() (int, error) { _, err := showsLinkedPicture(ctx, m); return 0, err },
	} {
		if n, err := compute(); !errors.Is(err, context.Canceled) || n != 0 {
			t.Errorf("%s: %d signatures, %v; want the end of the context", name, n, err)
		}
	}
}

// TestIsNFC holds the check that remembers characters to the library's.
func TestIsNFC(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	pieces := []string{"a", "e", "word ", "a long piece of ASCII, ", "\u00e4", "\u0301", "\u0323\u0301",
		"\u0301\u0323", "\u212b", "\u0438\u0306", "\u0430", "\uac00", "\u1100\u1161", "\u4e2d", strings.Repeat("\u0301", 31)}
	normal := 0
	for range 40_000 {
		var text []byte
		for range r.IntN(12) {
			text = append(text, pieces[r.IntN(len(pieces))]...)
			if r.IntN(8) == 0 {
				text = utf8.AppendRune(text, rune(r.IntN(0x30000)))
			}
		}
		want := norm.NFC.IsNormal(text)
		if got := isNFC(text); got != want {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
		if want {
			normal++
		}
	}
	if normal < 4000 || normal > 36_000 {
		t.Errorf("%d of 40,000 are normal", normal)
	}
}
