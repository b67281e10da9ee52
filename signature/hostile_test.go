package signature

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color/palette"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/picturetest"
)

// hidingSheet has a page read from a tree.
const hidingSheet = "<style>.x{display:none}</style><p class=x>x"

// hostile makes mails of about size bytes that are meant to be dear.
func hostile(size int) map[string]func() []byte {
	fill := func(head, unit, tail string) []byte {
		n := max(1, (size-len(head)-len(tail))/len(unit))
		return []byte(head + strings.Repeat(unit, n) + tail)
	}
	head := func(kind, charset, encoding string) string {
		return "From: a@example.com\nTo: b@example.com\nMIME-Version: 1.0\nContent-Type: " + kind + "; charset=" +
			charset + "\nContent-Transfer-Encoding: " + encoding + "\n\n"
	}
	plain, page := head("text/plain", "utf-8", "8bit"), head("text/html", "utf-8", "8bit")
	encoded := func(head, inner string) []byte {
		return append([]byte(head), base64.StdEncoding.EncodeToString([]byte(inner))...)
	}
	whole := func(unit string) string { return strings.Repeat(unit, size*3/4/len(unit)) }
	nested := func(depth int, lead, inner string) []byte {
		var b strings.Builder
		for i := range depth {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
		}
		return fill(lead+b.String()+"Content-Type: text/plain\n\n", inner, "")
	}
	wrap := func(depth int) []byte { // messages within each other, each encoded anew
		text := strings.Repeat("one = two words and more\n", size/25)
		for range depth {
			text = "Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable\n\n" +
				strings.ReplaceAll(text, "=", "=3D")
		}
		return []byte(text)
	}
	numbered := func(head, format string, size int) []byte {
		b := []byte(head)
		for i := 0; len(b) < size; i++ {
			b = fmt.Appendf(b, format, i, i)
		}
		return b
	}
	mails := map[string]func() []byte{
		"words":             func() []byte { return fill(plain, "the quick brown fox jumps over the lazy dog\n", "") },
		"ligature line":     func() []byte { return fill(plain, "\ufdfa", "") },
		"ligature words":    func() []byte { return fill(plain, "\ufdfa ", "") },
		"ligature lines":    func() []byte { return fill(plain, "\ufdfa\n", "") },
		"ligature page":     func() []byte { return fill(page, "\ufdfa", "") },
		"marks":             func() []byte { return fill(plain+"a", "\u0323\u0301", "") },
		"marks expanding":   func() []byte { return fill(plain, "\U0001d160", "") },
		"hangul":            func() []byte { return fill(plain, "각", "") },
		"addresses":         func() []byte { return fill(plain, "a@", "") },
		"addresses, dots":   func() []byte { return fill(plain, "a@a.", "") },
		"schemes":           func() []byte { return fill(plain, "a://", "") },
		"one word":          func() []byte { return fill(plain, "a", "") },
		"stems":             func() []byte { return fill(plain, "yay", "") },
		"long stems":        func() []byte { return fill(plain, strings.Repeat("ay", 500)+" ", "") },
		"punctuation":       func() []byte { return fill(plain, "@.: ", "") },
		"single letters":    func() []byte { return fill(plain, "v i ", "") },
		"line ends":         func() []byte { return fill(plain, "\n", "") },
		"carriage returns":  func() []byte { return fill(plain, "\r", "\n") },
		"quotes":            func() []byte { return fill(plain, ">", "") },
		"blanks":            func() []byte { return fill(plain, " ", "x") },
		"From lines":        func() []byte { return fill(plain, "From \n", "") },
		"entities":          func() []byte { return fill(page, "&nGt;", "") },
		"entities, numeric": func() []byte { return fill(page, "&#x1d160;", "") },
		"entities, unknown": func() []byte { return fill(page, "&"+strings.Repeat("a", 31)+" ", "") },
		"page of text":      func() []byte { return fill(page, "word ", "") },
		"page of quotes":    func() []byte { return fill(page, "<blockquote>x<br>", "") },
		"page of tags":      func() []byte { return fill(page, "<b x=y>", "") },
		"page of signs":     func() []byte { return fill(page, "<", "") },
		"one tag":           func() []byte { return fill(page+"<img src='", "data", "'>the picture") },
		"one comment":       func() []byte { return fill(page+"<!--", " - ", "--> text") },
		"one script":        func() []byte { return fill(page+"<script>", "var x = '</b>';", "</script> text") },
		"page, wide":        func() []byte { return fill(page+"\u20ac", "<p>word and ", "") },
		"page, widest":      func() []byte { return fill(page+"\U0001f600", "<p>word and ", "") },
		"page, references":  func() []byte { return fill(page, "&amp;&lt;", "") },
		"windows-1252":      func() []byte { return fill(head("text/plain", "windows-1252", "8bit"), "\x80", "") },
		"koi8-r":            func() []byte { return fill(head("text/plain", "koi8-r", "8bit"), "\xc0\xc1 ", "") },
		"half-width kana":   func() []byte { return fill(head("text/plain", "shift_jis", "8bit"), "\xb1\xb2\xb3", "") },
		"kana page":         func() []byte { return fill(head("text/html", "shift_jis", "8bit"), "\xb1\xb2\xb3", "") },
		"broken gb18030":    func() []byte { return fill(head("text/plain", "gb18030", "8bit"), "\xff\xff", "") },
		"broken utf-8":      func() []byte { return fill(plain+"\u00e4\u00f6\u00fc", "\xff\xc3\xa4\xc3\xa4", "") },
		"utf-16":            func() []byte { return encoded(head("text/plain", "utf-16", "base64"), whole("\x4e\x00")) },
		"utf-16 with NUL": func() []byte {
			return encoded(head("text/plain", "utf-16le", "base64"),
				whole("a\x00\x00\x00"))
		},
		"utf-7":             func() []byte { return fill(head("text/plain", "utf-7", "7bit"), "+AOQ-", "") },
		"iso-2022-jp":       func() []byte { return fill(head("text/plain", "iso-2022-jp", "7bit")+"\x1b$B", "$3", "") },
		"base64 of FDFA":    func() []byte { return encoded(head("text/plain", "utf-8", "base64"), whole("\ufdfa")) },
		"quoted-printable":  func() []byte { return fill(head("text/plain", "utf-8", "quoted-printable"), "=C3=A4", "") },
		"quoted, soft ends": func() []byte { return fill(head("text/plain", "utf-8", "quoted-printable"), "=\n", "") },
		"uuencode": func() []byte {
			return fill(head("text/plain", "utf-8", "x-uuencode")+"begin 644 x\n", "#86)C\n", "`\nend\n")
		},
		"uuencode in a text": func() []byte { return fill(plain+"begin 644 x\n", "#86)C\n", "`\nend\n") },
		"uuencode, files":    func() []byte { return fill(plain, "begin 644 x\n#86)C\n`\nend\n", "") },
		"uuencode, begins":   func() []byte { return fill(plain, "begin 644 x\n", "") },
		"uuencode, a page": func() []byte {
			return fill(plain+"begin 644 x.html\n", "M"+strings.Repeat("86)C", 15)+"\n", "`\nend\n")
		},
		"sheet, written once": func() []byte {
			return fill(page+"<style>p::before{content:'", "word ", "'}</style><p>x")
		},
		"sheet, written often": func() []byte {
			return fill(page+"<style>*::before{content:'word and word'}*::after{content:attr(x)' b '}</style>", "<b x=y>", "")
		},
		"sheet, written by all rules": func() []byte {
			return fill(page+"<style>", "@supports(a:b){*::before{content:'w' attr(x)}}", "</style>"+
				strings.Repeat("<b x='word '>", size/100))
		},
		"sheet, written by attributes": func() []byte {
			return fill(page+"<style>*::before{content:"+strings.Repeat("attr(x)", 60)+"}</style>", "<b x='word and word'>", "")
		},
		"sheet, written by long attributes": func() []byte {
			return fill(page+"<style>*::before{content:"+strings.Repeat("attr(x)", 64)+"}</style>",
				"<b x='"+strings.Repeat("word ", size/40)+"'>", "")
		},
		"turned, one":    func() []byte { return fill(page+"<bdo dir=rtl>", "word and word ", "</bdo>") },
		"turned, words":  func() []byte { return fill(page, "<bdo dir=rtl>w</bdo> ", "") },
		"turned, nested": func() []byte { return fill(page, "<bdo dir=rtl><bdo dir=ltr>w ", "") },
		"turned, links":  func() []byte { return fill(page+"<bdo dir=rtl>", "<a href=x>w</a> ", "") },
		"turned, lines":  func() []byte { return fill(page+"<bdo dir=rtl><bdo dir=ltr><bdo dir=rtl>", "w<br>", "") },
		"fields":         func() []byte { return fill(page, "<input value=w>", "") },
		"fields, styles": func() []byte {
			return fill(page+"<style>input{color:red}</style>", "<input class=a value=w>", "")
		},
		"uuencode, empty": func() []byte { return fill(head("text/plain", "utf-8", "x-uuencode"), "\n", "") },
		"attachment": func() []byte {
			return encoded(head("application/x", "binary", "base64"), whole("abcdefghijklmnopqrstuvwxyz0123456789"))
		},
		"one header":        func() []byte { return fill("Subject: ", "x", "\n\ntext") },
		"one folded header": func() []byte { return fill("Content-Type: text/plain;\n", " x=y;\n", "\ntext") },
		"content headers":   func() []byte { return fill("", "Content-X: y\n", "\ntext") },
		"short headers":     func() []byte { return fill("", "a:\n", "\ntext") },
		"recipients":        func() []byte { return fill("", "To: a@b\n", "\ntext") },
		"no header":         func() []byte { return fill("", "\x01\n", "") },
		"tiny parts": func() []byte {
			return fill("Content-Type: multipart/mixed; boundary=b\n\n",
				"--b\n\na\n", "--b--\n")
		},
		"boundaries":    func() []byte { return fill("Content-Type: multipart/mixed; boundary=b\n\n", "--b\n", "") },
		"no boundaries": func() []byte { return fill("Content-Type: multipart/mixed; boundary=b\n\n", "--c\n", "") },
		"other dashes":  func() []byte { return nested(11, "From: a@example.com\n", "--\n") },
		"nested":        func() []byte { return nested(200, "", "word and word\n") },
		"nested alternatives": func() []byte {
			return fill("Content-Type: multipart/alternative; boundary=b\n\n",
				"--b\nContent-Type: text/html\n\n"+strings.Repeat("<p>words and ", 1500)+"\n", "--b--\n")
		},
		"links":            func() []byte { return fill(page, "<a href=http://a.example>x</a>", "") },
		"links, different": func() []byte { return numbered(page, "<a href=http://d%d.example/%d>x</a>\n", size) },
		"links, plain":     func() []byte { return numbered(plain, "www.d%d.example/%d ", size) },
		"links, names":     func() []byte { return numbered(plain, "http://\u00fc%d.example/\u00fc%d ", size) },
		"links, redirected": func() []byte {
			return fill(page+"<a href='http://a.example/?", "u=http%3A%2F%2Fb.example%2F%3F", "'>x")
		},
		"links, redirects": func() []byte {
			return numbered(page, "<a href=http://a%d.example/http://b.example/http://c%d.example/?u=http://d.example>", size)
		},
		"links, nested":   func() []byte { return fill(plain, "http://", "") },
		"links, defanged": func() []byte { return fill(plain, "a[.]", "") },
		"links, one":      func() []byte { return fill(page+"<a href='http://a.example/", "a.b@c/..//%41", "'>x") },
		"links, empty":    func() []byte { return fill(page, "<a href>", "") },
		"attributes":      func() []byte { return fill(page+"<a ", "b='c' ", ">x") },
		"attributes, tags": func() []byte {
			return fill(page,
				"<a a b c d e f g h i j k l m n o p q r s t u v w x y z>", "")
		},
		"sheet, rules": func() []byte {
			return fill(page+"<style>.a{display:none}", ".a{top:0}", "</style><p class=a>x</p>word")
		},
		"sheet, one class": func() []byte {
			rules := strings.Repeat(".a{top:0;display:none}", size/44)
			return fill(page+"<style>"+rules+"</style>", "<p class=a>x", "")
		},
		"sheet, every element": func() []byte {
			return fill(page+"<style>"+strings.Repeat("*{color:#fff}", 1024)+"</style>", "<p>x", "")
		},
		"sheet, depth": func() []byte {
			return fill(page+hidingSheet+strings.Repeat("<div>", min(390, size/50)), "<i>x</i>", "")
		},
		"sheet, depth and end tags": func() []byte {
			return fill(page+hidingSheet+strings.Repeat("<div>", min(390, size/50)), "</q>", "")
		},
		"sheet, formats opened again": func() []byte {
			return fill(page+hidingSheet+strings.Repeat("<b><i><u><s>", min(25, size/200)), "<p>x</p>", "")
		},
		"sheet, formats with attributes": func() []byte {
			return fill(page+hidingSheet, "<p><b a b c d e f g h i j k l m n o p q r s t u v w x y z>x", "")
		},
		"sheet, rules within": func() []byte {
			return fill(page+"<style>i{display:none}", "a,b{c,&{d{display:block}}}", "</style><i>x</i>word")
		},
		"sheet, doubts": func() []byte {
			return fill(page+"<style>i{display:none}"+strings.Repeat("a:q{display:block}", size/36)+"</style>", "<a>x</a>", "")
		},
		"frames":      func() []byte { return fill(page, `<iframe srcdoc="&lt;p>word and word"></iframe>`, "") },
		"frame, one":  func() []byte { return fill(page+`<iframe srcdoc="`, "&lt;p>word and ", `">`) },
		"frame, data": func() []byte { return fill(page+`<iframe src="data:text/html,`, "%3cp%3eword ", `">`) },
		"RTF":         func() []byte { return fill(head("text/rtf", "utf-8", "7bit")+`{\rtf1 `, `\u228?`, "}") },
		"RTF, fields": func() []byte {
			return fill(head("text/rtf", "utf-8", "7bit")+`{\rtf1 `, `{\fldinst "http://a.b"}`, "}")
		},
		"RTF, a file": func() []byte { return encoded(head("application/rtf", "utf-8", "base64")+"", whole(`{\rtf1 word `)) },
		"enriched":    func() []byte { return fill(head("text/enriched", "utf-8", "7bit"), "<b>a", "") },
		"calendar, mark-up": func() []byte {
			return fill(head("text/calendar", "utf-8", "7bit")+"DESCRIPTION:</p>", `<a href=http://a.b/c>x</a>\n`, "")
		},
		"calendar, words": func() []byte {
			return fill(head("text/calendar", "utf-8", "7bit")+"DESCRIPTION:</p>", `word and \n`, "")
		},
		"controls": func() []byte { return fill(plain, "a\x01", "") },
		"sheet, many rules": func() []byte {
			return fill(page+"<style>"+strings.Repeat("a{color:red}", size/24)+".x{display:none}</style>", "<a>x</a>", "")
		},
		"sheet, bodies": func() []byte { return fill(page+hidingSheet, "<body a=b c=d>x", "") },
		"sheet, page in pieces": func() []byte {
			const least = 450 << 10
			return append(fill(page+hidingSheet+"<table><tr><td>", "<div class=x style=top:0><p>x", ""),
				strings.Repeat("<div class=x><b>x</b></div>", max(0, least-size)/27*min(1, size>>12))...)
		},
		"sheet, deep selectors": func() []byte {
			rules := strings.Repeat(strings.Repeat("div ", 14)+"p b{display:none}", size/140)
			return fill(page+"<style>"+rules+"</style>"+strings.Repeat("<div>", 100), "<b>x</b>", "")
		},
		"sheet, siblings": func() []byte {
			return fill(page+"<style>"+strings.Repeat("i ~ b ~ b ~ b{display:none}", 200)+"</style>", "<b>x</b>", "")
		},
		"sheet, attributes": func() []byte {
			rules := strings.Repeat("[title*=aaaab]{display:none}", 200)
			return fill(page+"<style>"+rules+"</style>", "<p title="+strings.Repeat("a", 200)+">x", "")
		},
		"sheet, brackets": func() []byte { return fill(page+"<style>p{display:none}", "{[(", "</style>word") },
		"styles, different": func() []byte {
			return numbered(page, "<p style='display:none;color:#%d;background:rgb(%d,0,0) url(x)'>x", size)
		},
		"styles, long": func() []byte { return fill(page+"<p style='", "color:red;", "'>word") },
		"styles, within each other": func() []byte {
			return fill(page, strings.Repeat("<div style='color:#fff;display:block'>", 100)+strings.Repeat("</div>", 100), "")
		},
		"anchors":         func() []byte { return fill(page, "<a href=x>y", "") },
		"numbers":         func() []byte { return fill(plain, "555 010 ", "") },
		"numbers, signs":  func() []byte { return fill(plain, "+(", "") },
		"numbers, one":    func() []byte { return fill(plain, "0123456789", "") },
		"numbers, found":  func() []byte { return numbered(plain, "+1555%d%d\n", size) },
		"wallets":         func() []byte { return fill(plain, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb ", "") },
		"wallets, Monero": func() []byte { return fill(plain, "4"+strings.Repeat("z", 94)+" ", "") },
		"accounts":        func() []byte { return fill(plain, "GB82 WEST 1234 5698 7654 33 ", "") },
		"attached page": func() []byte {
			return numbered("Content-Type: text/html\nContent-Disposition: attachment\n\n<script>",
				"location='http://d%d.example/%d';", size)
		},
		"archive of zeros": func() []byte {
			return withFile("", "application/zip", "a.zip", archive("a", strings.Repeat("\x00", 16*size), "b.html",
				strings.Repeat("<a href=http://a.example/>", size/8)))
		},
		"archives": func() []byte {
			file := archive("a", whole("word "))
			for range 4 {
				file = archive("a.zip", string(file), "b.docx",
					string(archive("[Content_Types].xml", "x", "word/document.xml", whole("<w:p>word</w:p>"))))
			}
			return withFile(strings.Repeat("word ", size/6), "application/zip", "a.zip", file)
		},
		"PDF of objects": func() []byte {
			return withFile("", "application/pdf", "a.pdf",
				[]byte("%PDF-1.4\n"+strings.Repeat("1 0 obj stream\nBT (word) Tj /URI (http://a.example/) endstream ", size/90)))
		},
		"pictures": func() []byte {
			m := picturetest.PNG(image.NewPaletted(image.Rect(0, 0, 1024, 1000), palette.Plan9))
			p := picturetest.Noise(rand.New(rand.NewPCG(1, 1)), image.NewRGBA(image.Rect(0, 0, 300, 200)), 60)
			return pictureMail(strings.Repeat("word ", size/10), m, m, m, picturetest.PNG(p), picturetest.JPEG(p, 90))
		},
		"wrapped":         func() []byte { return wrap(10) },
		"delivery status": func() []byte { return fill("Content-Type: message/delivery-status\n\n", "a: b\n\n", "") },
	}
	return mails
}

// peakHeap returns by how many bytes the live heap grows at most while f runs, as each
// collection finds it; there is one for each tenth that the heap grows. Objects that are dead
// and not yet collected do not count, because their number depends on what else the machine does.
func peakHeap(f func()) int {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	read := func() int {
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	before, most := read(), 0
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			most = max(most, read()-before)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return most
}

// TestHostileMemory: whatever a mail holds, computing its signatures takes at most
// three times its size beside it.
func TestHostileMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("computes the signatures of 60 mails of 4 MiB")
	}
	const size = 4 << 20
	mails := hostile(size)
	mailtest.Must(Compute(t.Context(), mails["words"](), Options{Workers: 2})) // tables that are made once
	mailtest.Must(Compute(t.Context(), mails["half-width kana"](), Options{Workers: 2}))
	mailtest.Must(Compute(t.Context(), mails["broken gb18030"](), Options{Workers: 2}))
	for name, make := range mails {
		raw := make()
		start := time.Now()
		peak := peakHeap(func() { mailtest.Must(Compute(t.Context(), raw, Options{Workers: 2})) })
		t.Logf("%-20s %5.1f MB, %5.2f of its size, %4d us/KB", name, float64(peak)/1e6,
			float64(peak)/float64(len(raw)), time.Since(start).Microseconds()/int64(len(raw)>>10))
		most := 3*len(raw) + 1<<20
		// A collection also counts what is allocated while it runs, which on a busy machine is much.
		for again := 0; again < 10 && peak > most+most/10; again++ {
			peak = min(peak, peakHeap(func() { mailtest.Must(Compute(t.Context(), raw, Options{Workers: 2})) }))
		}
		if peak > most+most/10 {
			t.Errorf("%s: %d bytes take %d, %.1f times as much", name, len(raw), peak, float64(peak)/float64(len(raw)))
		}
	}
}

// An endingContext ends when it was asked a number of times.
type endingContext struct {
	context.Context
	asks int
}

func (c *endingContext) Err() error {
	if c.asks--; c.asks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestContextEnds: every computation ends with its context, at whatever point, and
// asks it as often as there is work to do.
func TestContextEnds(t *testing.T) {
	const size = 136 << 10 // more than two steps
	families := map[string]func(ctx context.Context, raw []byte, m *mail.Message) error{
		"mail.Read": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := mail.Read(ctx, raw)
			return err
		},
		"Compute": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := Compute(ctx, raw, Options{})
			return err
		},
		"Razor": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := razor.Signatures(ctx, raw)
			return err
		},
		"RazorParts": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := razor.Parts(ctx, raw)
			return err
		},
		"Pyzor": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := pyzor.Signatures(ctx, raw)
			return err
		},
		"DCC": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := dcc.Sums(ctx, raw, dcc.Options{})
			return err
		},
		"DCCHeader": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := dcc.HeaderSums(ctx, raw, dcc.Options{})
			return err
		},
		"Hashes": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := defaultRspamd.Hashes(ctx, m.Raw, rspamd.Policy{})
			return err
		},
		"Of": func(ctx context.Context, raw []byte, m *mail.Message) error {
			_, err := signaturesOf(ctx, m, Options{})
			return err
		},
	}
	n := 0
	for kind, make := range hostile(size) {
		if n++; testing.Short() && n%4 > 0 {
			continue
		}
		raw := make()
		// A message keeps the visible texts it was asked for: each call has its own.
		fresh := func() *mail.Message { return mailtest.Must(mail.Read(t.Context(), raw)) }
		for name, compute := range families {
			all := &endingContext{t.Context(), 1 << 30}
			if err := compute(all, raw, fresh()); err != nil {
				t.Fatalf("%s of %s: %v", name, kind, err)
			}
			asked := 1<<30 - all.asks
			for _, asks := range slices.Compact([]int{0, asked - 1}) {
				if asks >= asked {
					continue
				}
				ctx := &endingContext{t.Context(), asks}
				if err := compute(ctx, raw, fresh()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s of %s, whose context ends at question %d of %d: %v", name, kind, asks+1, asked, err)
				}
				// Each family has a pace of its own, and looks once more at its beginning.
				if over := asks - ctx.asks; over > asks+8 {
					t.Errorf("%s of %s asked %d times more after the end of its context", name, kind, over-asks)
				}
			}
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, make := range hostile(256 << 10) {
		raw := make()
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				mailtest.Must(Compute(b.Context(), raw, Options{}))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(raw)>>10), "us/KB")
		})
	}
}
