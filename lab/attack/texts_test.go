package attack

import (
	"bytes"
	"encoding/csv"
	"html"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/interval"
	reader "github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A disguise makes a message from the lines of a text so as to escape its signatures.
type disguise struct {
	name  string
	least float64 // share that must be recognised
	make  func(a *disguiser, lines []string) string
}

// A disguiser changes texts.
type disguiser struct {
	*rand.Rand
	words []string // of other messages
}

func (a *disguiser) salad(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(a.words[a.IntN(len(a.words))] + map[bool]string{true: "\n", false: " "}[i%12 == 11])
	}
	return b.String()
}

// replace replaces a share of the words.
func (a *disguiser) replace(lines []string, share float64) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		words := strings.Fields(line)
		for j := range words {
			if a.Float64() < share {
				words[j] = a.words[a.IntN(len(a.words))]
			}
		}
		out[i] = strings.Join(words, " ")
	}
	return out
}

func size(lines []string) int { return len(strings.Fields(strings.Join(lines, " "))) }

func plain(lines []string) string { return framed("", "text/plain", strings.Join(lines, "\n")) }

func framed(to, kind, body string) string {
	return "From: x <office@mail.example>\nTo: " + to + "<someone@site.example>\nSubject: x\nMIME-Version: 1.0\n" +
		"Content-Type: " + kind + "; charset=utf-8\n\n" + body + "\n"
}

func (a *disguiser) added(lines []string, times, replaced float64) string {
	return plain(append(a.replace(lines, replaced), "", a.salad(int(times*float64(size(lines))))))
}

// paragraphs returns the lines as HTML, each within what f makes of it.
func paragraphs(lines []string, f func(line string) string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(f(html.EscapeString(line)) + "\n")
	}
	return b.String()
}

// alternatives returns a multipart of renderings of one text.
func alternatives(parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--b\nContent-Type: " + parts[i] + "; charset=utf-8\n\n" + parts[i+1] + "\n")
	}
	return strings.Replace(framed("", "multipart/alternative; boundary=b", b.String()+"--b--"), "; charset=utf-8\n\n--b",
		"\n\n--b", 1)
}

// disguises are those named by published attacks and by an audit of this program.
var disguises = []disguise{
	{"words added, 0.5 times as many", .95, func(a *disguiser, l []string) string { return a.added(l, 0.5, 0) }},
	{"words added, as many", .95, func(a *disguiser, l []string) string { return a.added(l, 1, 0) }},
	{"words added, 2 times as many", .95, func(a *disguiser, l []string) string { return a.added(l, 2, 0) }},
	{"words added, 4 times as many", .95, func(a *disguiser, l []string) string { return a.added(l, 4, 0) }},
	{"4 times as many before", .95, func(a *disguiser, l []string) string {
		return plain(append([]string{a.salad(4 * size(l)), ""}, l...))
	}},
	{"2 times as many before and behind", .95, func(a *disguiser, l []string) string {
		return plain(slices.Concat([]string{a.salad(2 * size(l)), ""}, l, []string{"", a.salad(2 * size(l))}))
	}},
	{"as many between the lines", .9, func(a *disguiser, l []string) string {
		var out []string
		for _, line := range l {
			out = append(out, line, a.salad(len(strings.Fields(line))))
		}
		return plain(out)
	}},
	{"10 % of the words replaced", .9, func(a *disguiser, l []string) string { return plain(a.replace(l, .1)) }},
	{"20 %", .7, func(a *disguiser, l []string) string { return plain(a.replace(l, .2)) }},
	{"30 %", .5, func(a *disguiser, l []string) string { return plain(a.replace(l, .3)) }},
	{"as many added and 10 % replaced", .9, func(a *disguiser, l []string) string { return a.added(l, 1, .1) }},
	{"as many added and 20 % replaced", .7, func(a *disguiser, l []string) string { return a.added(l, 1, .2) }},
	{"as many added and 30 % replaced", .5, func(a *disguiser, l []string) string { return a.added(l, 1, .3) }},
	{"4 times as many added and 10 % replaced", .9, func(a *disguiser, l []string) string { return a.added(l, 4, .1) }},
	{"4 times as many added and 20 % replaced", .7, func(a *disguiser, l []string) string { return a.added(l, 4, .2) }},
	{"4 times as many added and 30 % replaced", .5, func(a *disguiser, l []string) string { return a.added(l, 4, .3) }},
	{"lines in another order", .9, func(a *disguiser, l []string) string {
		out := slices.Clone(l)
		a.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return plain(out)
	}},
	{"a word of footers behind every fifth", .9, func(a *disguiser, l []string) string {
		words := strings.Fields(strings.Join(l, "\n"))
		var b strings.Builder
		for i, w := range words {
			b.WriteString(w + " ")
			if i%5 == 4 {
				b.WriteString([]string{"unsubscribe", "confidential", "recipient", "privacy", "newsletter", "virus"}[a.IntN(6)] +
					" ")
			}
		}
		return plain([]string{b.String()})
	}},
	{"its words in the name of To", .9, func(a *disguiser, l []string) string {
		words := strings.Fields(strings.Join(l, " "))
		name := strings.Map(func(r rune) rune {
			if r == ' ' || 'a' <= r|0x20 && r|0x20 <= 'z' {
				return r
			}
			return -1
		}, strings.Join(words, " "))
		return framed(`"`+name[:min(len(name), 900)]+`" `, "text/plain", strings.Join(l, "\n"))
	}},
	{"all on a line below a line --", .9, func(a *disguiser, l []string) string {
		return plain([]string{"Good morning", "--", strings.Join(l, " ")})
	}},
	{"below From: and Sent:", .9, func(a *disguiser, l []string) string {
		return plain(append([]string{"See below.", "", "From: Ann", "Sent: Monday", "To: Bob", "Subject: offer", ""}, l...))
	}},
	{"quoted", .9, func(a *disguiser, l []string) string {
		return plain([]string{"Look:", "", "> " + strings.Join(l, "\n> ")})
	}},
	{"a text/x-amp-html part with other words", .9, func(a *disguiser, l []string) string {
		return alternatives("text/html", paragraphs(l, func(s string) string { return "<p>" + s + "</p>" }),
			"text/x-amp-html", "<p>"+a.salad(200)+"</p>")
	}},
	{"a text/plain part with other words", .9, func(a *disguiser, l []string) string {
		return alternatives("text/plain", a.salad(200), "text/html",
			paragraphs(l, func(s string) string { return "<p>" + s + "</p>" }))
	}},
	{"a page with other words, the text as text/plain", .9, func(a *disguiser, l []string) string {
		return alternatives("text/plain", strings.Join(l, "\n"), "text/html", "<p>"+a.salad(200)+"</p>")
	}},
	{"visible within font-size:0", .9, within(`font-size:0`, `font-size:14px`)},
	{"visible within visibility:hidden", .9, within(`visibility:hidden`, `visibility:visible`)},
	{"with as many words of opacity 0", .9, beside(`opacity:0`)},
	{"with as many words off the screen", .9, beside(`position:absolute;left:-9999px`)},
	{"with as many words hidden by a class", .9, func(a *disguiser, l []string) string {
		return framed("", "text/html", "<style>.k{display:none}</style>"+paragraphs(l, func(s string) string {
			return `<p>` + s + `</p><p class="k">` + a.salad(len(strings.Fields(s))) + `</p>`
		}))
	}},
	{"in an HTML attachment", .9, func(a *disguiser, l []string) string {
		page := paragraphs(l, func(s string) string { return "<p>" + s + "</p>" })
		return strings.Replace(framed("", "multipart/mixed; boundary=b",
			"--b\nContent-Type: text/plain\n\nPlease see the document.\n--b\nContent-Type: text/html; charset=utf-8\n"+
				"Content-Disposition: attachment; filename=a.html\n\n"+page+"\n--b--"), "; charset=utf-8\n\n--b", "\n\n--b", 1)
	}},
}

// within shows each line within an element of one style and of another.
func within(outer, inner string) func(*disguiser, []string) string {
	return func(a *disguiser, l []string) string {
		return framed("", "text/html", `<div style="`+outer+`">`+paragraphs(l, func(s string) string {
			return a.salad(len(strings.Fields(s))) + `<p style="` + inner + `">` + s + `</p>`
		})+"</div>")
	}
}

// beside shows each line beside an element of a style.
func beside(style string) func(*disguiser, []string) string {
	return func(a *disguiser, l []string) string {
		return framed("", "text/html", paragraphs(l, func(s string) string {
			return `<p>` + s + `</p><div style="` + style + `">` + a.salad(len(strings.Fields(s))) + `</div>`
		}))
	}
}

// A letterBox is mail of the corpus.
type letterBox struct {
	texts [][]string // lines of spam
	ham   [][]byte
	words []string
}

func readCorpus(t *testing.T, rng *rand.Rand, most int) (box letterBox) {
	t.Helper()
	for _, set := range []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-2004-2005", "phishing-pot-2023-2024",
		"lists-2019-2020"} {
		dir := sharedtest.Unpack(t, set)
		index, err := os.Open(filepath.Join(dir, "index.tsv"))
		if err != nil {
			t.Fatal(err)
		}
		r := csv.NewReader(index)
		r.Comma, r.LazyQuotes = '\t', true
		rows, err := r.ReadAll()
		index.Close()
		if err != nil {
			t.Fatal(err)
		}
		rng.Shuffle(len(rows)-1, func(i, j int) { rows[1+i], rows[1+j] = rows[1+j], rows[1+i] })
		texts := 0
		for _, row := range rows[1:] {
			if row[1] == "spam" && texts == most {
				continue
			}
			raw, err := os.ReadFile(filepath.Join(dir, row[0]))
			if err != nil {
				t.Fatal(err)
			}
			if row[1] != "spam" {
				box.ham = append(box.ham, raw)
				if len(box.ham)%10 == 0 {
					box.collect(linesOf(t, raw))
				}
			} else if lines := linesOf(t, raw); size(lines) >= 40 && size(lines) < 1500 {
				texts++
				box.texts = append(box.texts, lines)
			}
		}
	}
	return box
}

// collect takes words of a text.
func (b *letterBox) collect(lines []string) {
	for _, w := range strings.Fields(strings.Join(lines, " ")) {
		if len(w) > 2 && len(w) < 12 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
			b.words = append(b.words, w)
		}
	}
}

// linesOf returns the visible lines of the text of a message.
func linesOf(t *testing.T, raw []byte) (lines []string) {
	t.Helper()
	m, err := reader.Read(t.Context(), raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(m.Parts) - 1; i >= 0 && lines == nil; i-- {
		if p := &m.Parts[i]; p.IsText() && !p.Attachment {
			text, err := m.Visible(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				if s := strings.TrimSpace(strings.ToValidUTF8(string(line), "")); s != "" && s[0] != '>' {
					if strings.HasPrefix(s, "--") || strings.HasPrefix(s, "__") {
						break // added by a list or a mail program
					}
					lines = append(lines, s)
				}
			}
		}
	}
	return lines
}

// TestDisguises measures how much disguised spam is recognised after one report, by its text
// alone, and how much ham is taken for it. With BULKHEAD_FULL=1 it makes the table of
// docs/signatures.md, from 75 messages of each collection.
func TestDisguises(t *testing.T) {
	if testing.Short() {
		t.Skip("reads thousands of messages")
	}
	most := 15
	if os.Getenv("BULKHEAD_FULL") == "1" {
		most = 75
	}
	rng := rand.New(rand.NewPCG(20, 26))
	box := readCorpus(t, rng, most)
	whole, without := newReader(t, len(box.texts)), newReader(t, len(box.texts))
	without.parts = false
	for i, lines := range box.texts {
		for _, r := range []*textReader{whole, without} {
			r.report(t, i, []byte(plain(lines)))
		}
	}
	a := &disguiser{rng, box.words}
	for _, d := range disguises {
		n, before := 0, 0
		for _, lines := range box.texts {
			raw := []byte(d.make(a, lines))
			n += whole.recognises(t, raw)
			before += without.recognises(t, raw)
		}
		all := len(box.texts)
		low, high := interval.Wilson(n, all)
		t.Logf("| %s | %.0f %% | **%.0f %%** | %.0f to %.0f %% |", d.name, 100*float64(before)/float64(all),
			100*float64(n)/float64(all), 100*low, 100*high)
		if high < d.least {
			t.Errorf("%s: %d of %d recognised, want %.0f %%", d.name, n, all, 100*d.least)
		}
	}
	n, before := 0, 0
	for _, raw := range box.ham {
		n += whole.recognises(t, raw)
		before += without.recognises(t, raw)
	}
	t.Logf("%d messages reported; of %d ham %d are taken for one of them, %d without parts", len(box.texts), len(box.ham),
		n, before)
	if n > before+len(box.ham)/100 {
		t.Errorf("%d of %d ham are taken for spam, %d without parts", n, len(box.ham), before)
	}
}

// A textReader is a node that knows messages by their text.
type textReader struct {
	w     *world
	parts bool
}

func newReader(t *testing.T, texts int) *textReader {
	t.Helper()
	w, err := open(t.Context(), 0, 8*texts, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(t.Context()) })
	return &textReader{w, true}
}

func (r *textReader) signatures(t *testing.T, raw []byte) []bulkhead.Signature {
	t.Helper()
	sigs, err := signature.Compute(t.Context(), raw, signature.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(sigs, func(s bulkhead.Signature) bool {
		if s.Scheme() == bulkhead.Sketch || s.Scheme() == bulkhead.Part {
			return !r.parts
		}
		return s.Scheme().Facet() != bulkhead.TextFacet
	})
}

func (r *textReader) report(t *testing.T, n int, raw []byte) {
	t.Helper()
	rep := bulkhead.Report{Signatures: r.signatures(t, raw), Vote: bulkhead.Spam, Reporter: r.w.user("user", n)}
	if len(rep.Signatures) == 0 {
		return
	}
	if _, err := r.w.Report(t.Context(), rep); err != nil {
		t.Fatal(err)
	}
}

func (r *textReader) recognises(t *testing.T, raw []byte) int {
	t.Helper()
	sigs := r.signatures(t, raw)
	if len(sigs) == 0 {
		return 0
	}
	v, err := r.w.Check(t.Context(), bulkhead.Query{Signatures: sigs})
	if err != nil {
		t.Fatal(err)
	}
	if v.Class >= bulkhead.ClassSuspected {
		return 1
	}
	return 0
}
