package razor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// asked returns what the client would ask for of a file, in order.
func asked(file []byte) []string {
	var asked []string
	for _, mail := range Mails(file) {
		for _, p := range mailtest.Must(Parts(context.Background(), mail)) {
			asked = append(asked, "e4 "+Text(p.E4.Sum()))
			for _, s := range p.E8 {
				asked = append(asked, "e8 "+Text(s.Sum()))
			}
		}
	}
	return asked
}

// TestClient compares with what razor-check 2.85 printed for made-up mails
// of many kinds of damage; testdata/vectors/razor2/damaged.jsonl holds both.
func TestClient(t *testing.T) {
	f, err := os.Open(sharedtest.Vector(t, "razor2", "damaged.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	total := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		var v struct {
			Mail       []byte
			Signatures []string
		}
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		total += len(v.Signatures)
		if got := asked(v.Mail); !slices.Equal(got, v.Signatures) {
			t.Errorf("signatures of %.300q:\n got %q\nwant %q", v.Mail, got, v.Signatures)
		}
	}
	if total < 100 {
		t.Errorf("only %d signatures compared", total)
	}
}

// TestVectors takes the mails of docs/specs/razor2.md#vectors and what the
// client asks for them.
func TestVectors(t *testing.T) {
	table, err := os.ReadFile(sharedtest.Vector(t, "razor2", "signatures.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			t.Fatalf("vector line has %d columns: %q", len(f), line)
		}
		want[f[0]] = append(want[f[0]], "e"+f[2]+" "+f[3])
	}
	if len(want) != 3 {
		t.Fatalf("vectors for %d mails, want 3", len(want))
	}
	for name, signatures := range want {
		mail, err := os.ReadFile(sharedtest.Vector(t, "razor2", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := asked(mail); !slices.Equal(got, signatures) {
			t.Errorf("%s: got %q, want %q", name, got, signatures)
		}
	}
}

// TestDrand computes the constants of engine 4 from its seed.
func TestDrand(t *testing.T) {
	x := uint64(7542)<<16 + 0x330E
	draw := func() float64 {
		x = (0x5DEECE66D*x + 11) % (1 << 48)
		return float64(x) / (1 << 48)
	}
	step := 100.0 / 6
	for i := range 6 {
		if got := float64(draw()*step) + float64(float64(i)*step); got != percentP[i] {
			t.Errorf("P[%d] = %v, want %v", i, percentP[i], got)
		}
	}
	for i := range 4 {
		want := float64(draw()*50) + float64(i%2)*50
		if got := append(percentQ[:], percentR[:]...)[i]; got != want {
			t.Errorf("Q, R[%d] = %v, want %v", i, got, want)
		}
	}
}

func TestText(t *testing.T) {
	tests := []struct{ digits, want string }{
		{"", ""},
		{"1", "gA"},
		{"8", "EA"},
		{"abc", "XT"},
		{"123", "hM"},
		{"0123456789abcdef", "CEwqbhldO38A"},
		{"da39a3ee5e6b4b0d3255bfef95601890afd80709", "tclcd6dtLQvEqt9_mmCBkF-xDgkA"},
		{"f6c16de2ca6e137f1416acac5c9ee5e4a3cfe76e", "9jhrdDVnjO-ChlNTo5d6clw_fmcA"},
	}
	for _, tt := range tests {
		if got := TextHex(tt.digits); got != tt.want {
			t.Errorf("TextHex(%q) = %q, want %q", tt.digits, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	valid := map[bulkhead.Scheme]string{
		bulkhead.RazorE4: "7p6JNvfDEfoYAybuYapBiCjFEC0A",
		bulkhead.RazorE8: "OK-8mIdLyA0A",
	}
	for scheme, text := range valid {
		sig, err := Parse(scheme, text)
		if err != nil {
			t.Fatalf("Parse(%s, %q): %v", scheme, text, err)
		}
		if got := Text(sig.Sum()); got != text {
			t.Errorf("%q parsed and printed is %q", text, got)
		}
		for _, bad := range []string{
			"", text[1:], text + "A", text[:len(text)-1] + "B", text[:len(text)-2] + "BA",
			text[:3] + "*" + text[4:], text[:3] + "\n" + text[4:], text[:len(text)-2] + "==",
		} {
			if sig, err := Parse(scheme, bad); err == nil || sig.Valid() {
				t.Errorf("Parse(%s, %q) = %v, %v; want an error alone", scheme, bad, sig, err)
			}
		}
	}
	if _, err := Parse(bulkhead.RazorE8, valid[bulkhead.RazorE4]); err == nil {
		t.Error("an engine-4 signature was taken for engine 8")
	}
	if _, err := Parse(bulkhead.PyzorDigest, valid[bulkhead.RazorE4]); err == nil {
		t.Error("a scheme that is not Razor's was taken")
	}
}

func TestShorten(t *testing.T) {
	tests := []struct{ host, want string }{
		{"www.x.co.uk", "x.co.uk"}, {"co.uk", "co.uk"}, {"q.lkd.co.im", "lkd.co.im"},
		{"a.b.sf.ca.us", "b.sf.ca.us"}, {"x.us.com", "us.com"}, {"a.b.example", "a.b.example"},
		{"a.b.kr", "a.b.kr"}, {"x.a.co.kr", "a.co.kr"}, {"x.y.edu.au", "edu.au"}, {"notedu.au", "edu.au"},
		{"x.com.au", "x.com.au"}, {"x.y.au", "y.au"}, {"..co.uk", "co.uk"}, {"com", "com"}, {"", ""}, {".com", ".com"},
		{"a.b.voila.fr", "voila.fr"}, {"a.b.site.voila.fr", "b.site.voila.fr"},
	}
	for _, tt := range tests {
		if got := Shorten(tt.host); got != tt.want {
			t.Errorf("Shorten(%q) = %q, want %q", tt.host, got, tt.want)
		}
	}
}

// TestEmpty: what unrelated mails have in common is never a signature.
func TestEmpty(t *testing.T) {
	const header = "From: a@sender.example\nContent-Type: text/html\n\n"
	for _, body := range []string{"\n\n\n", " \t\n", "<html><body></body></html>\n", "<b></b>\n", "Hi\n",
		"Sent from my phone\n"} {
		if got := mailtest.Must(Signatures(t.Context(), []byte(header+body))); len(got) != 0 {
			t.Errorf("Razor of body %q = %v, want none", body, got)
		}
	}
	parts := mailtest.Must(Parts(t.Context(), []byte(header+"<html><body></body></html>\n")))
	if len(parts) != 1 || !parts[0].Empty || Text(parts[0].E4.Sum()) != "tclcd6dtLQvEqt9_mmCBkF-xDgkA" {
		t.Errorf("parts of a mail of nothing but tags = %+v, want one, marked empty", parts)
	}
}

func TestBothForms(t *testing.T) {
	mail := []byte("From: a@sender.example\n\nFrom the first line on this mail differs between the two.\n")
	got := mailtest.Must(Signatures(t.Context(), mail))
	for _, form := range [][]byte{mail, Mails(mail)[0]} {
		if want := mailtest.Must(Parts(t.Context(), form))[0].E4; !slices.Contains(got, want) {
			t.Errorf("Razor = %v lacks %v, of %q", got, want, form)
		}
	}
	if len(got) != 2 {
		t.Errorf("Razor = %d signatures, want 2", len(got))
	}
}

// TestMessage: a mail put together from what a report sends of it has the
// Pyzor digest of the mail itself.
func TestMessage(t *testing.T) {
	const text = "This is the text of the mail, long enough.\nAnd it has a second line.\n"
	mails := map[string]string{
		"single": "From: a@sender.example\nSubject: x\n\n" + text,
		"encoded": "From: a@sender.example\nContent-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n" +
			"<p>" + text + "=41=\n</p>\n",
		"multipart": "Content-Type: multipart/mixed;\n boundary=\"b\"\n\npreamble\n--b\n\n" + text +
			"\n--b\nContent-Type: text/html\n\n<p>" + text + "\n--b--\n",
		"nested": "Content-Type: multipart/mixed; boundary=b\n\n" +
			"--b\nContent-Type: multipart/alternative; boundary=c\n\n" +
			"--c\nContent-Type: text/plain\n\n" + text +
			"\n--c\nContent-Type: text/html\n\n<p>html " + text + "\n--c--\n" +
			"--b\nContent-Type: image/gif\n" +
			"Content-Transfer-Encoding: base64\n\naGVsbG8gd29ybGQ=\n--b--\n",
		"CRLF":        strings.ReplaceAll("From: a@sender.example\n\n"+text, "\n", "\r\n"),
		"no boundary": "Content-Type: multipart/mixed\n\n" + text,
	}
	for name, mail := range mails {
		header, _, _ := cut([]byte(mail))
		var parts [][]byte
		var s splitter
		s.split([]byte(mail), 0, func(p rawPart) {
			if prepared, ok := p.prepare(new([front + maxBody]byte), nil); ok {
				parts = append(parts, prepared)
			}
		})
		unix, _ := unixLines(nil, header, len(header), nil)
		got := Message(unix, parts)
		want, _, _ := pyzor.Lines(t.Context(), []byte(mail))
		if lines, _, _ := pyzor.Lines(t.Context(), got); !slices.Equal(lines, want) || len(want) == 0 {
			t.Errorf("%s: lines %q, want %q, of\n%s", name, lines, want, got)
		}
	}
}

func TestMails(t *testing.T) {
	tests := []struct {
		file string
		want []string
	}{
		{"", nil},
		{"A: b\n\nFrom x\n>>From y\n> From z\n", []string{"A: b\n\n>From x\n>>>From y\n> From z\n"}},
		{"From a\nA: b\n\nx\nFrom c\n\ny", []string{"From a\nA: b\n\nx\n", "From c\n\ny"}},
		{"From a\nFrom b\n", []string{"From a\n", "From b\n"}},
	}
	for _, tt := range tests {
		var got []string
		for _, m := range Mails([]byte(tt.file)) {
			got = append(got, string(m))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Mails(%q) = %q, want %q", tt.file, got, tt.want)
		}
	}
}

func TestEntitiesAreNoPrefixes(t *testing.T) {
	for _, a := range entities {
		for _, b := range entities {
			if a != b && strings.HasPrefix(a.name, b.name) {
				t.Errorf("entity %q begins with %q", a.name, b.name)
			}
		}
	}
	if got := len(entities); got != 5+95 {
		t.Errorf("%d entities, want 100", got)
	}
}

// TestBombs: the work on hostile mail stays bounded.
func TestBombs(t *testing.T) {
	deep := strings.Repeat("Content-Type: multipart/mixed; boundary=b\n\n--b\n", 20000)
	wide := "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\nhello\n", 50000)
	tags := "Content-Type: text/html\n\n" + strings.Repeat("<a", 30000)
	links := "A: b\n\n" + strings.Repeat("http://h.example/ ", 4000)
	for name, mail := range map[string]string{"deep": deep, "wide": wide, "tags": tags, "links": links} {
		if n := len(mailtest.Must(Parts(t.Context(), []byte(mail)))); n > maxParts {
			t.Errorf("%s: %d parts, limit %d", name, n, maxParts)
		}
		if n := len(mailtest.Must(Signatures(t.Context(), []byte(mail)))); n > maxMail {
			t.Errorf("%s: %d signatures, limit %d", name, n, maxMail)
		}
	}
}

func FuzzSignatures(f *testing.F) {
	f.Add([]byte("From: a@sender.example\n\nHello http://www.shop.example/ <b>x</b>\n"))
	f.Add([]byte("Content-Type: multipart/x; boundary=\"b\"\n\n--b\nContent-Transfer-Encoding: base64\n\n" +
		"aGVsbG8=\n--b--\n"))
	f.Add([]byte("Content-Transfer-Encoding: quoted-printable\n\n<a href=3D\"https://x.co.uk\">=\n&eacute;"))
	f.Add([]byte("From a\nA: b\n\n0\nFrom b\n\n\x00<"))
	f.Fuzz(func(t *testing.T, mail []byte) {
		before := bytes.Clone(mail)
		for _, sig := range mailtest.Must(Signatures(t.Context(), mail)) {
			got, err := Parse(sig.Scheme(), Text(sig.Sum()))
			if err != nil || got != sig {
				t.Errorf("%v printed and parsed is %v, %v", sig, got, err)
			}
		}
		Prepared(mail)
		if !bytes.Equal(before, mail) {
			t.Error("the mail was changed")
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("7p6JNvfDEfoYAybuYapBiCjFEC0A")
	f.Add("OK-8mIdLyA0A")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		for _, scheme := range []bulkhead.Scheme{bulkhead.RazorE4, bulkhead.RazorE8} {
			if sig, err := Parse(scheme, text); err == nil && Text(sig.Sum()) != text {
				t.Errorf("%q parsed and printed is %q", text, Text(sig.Sum()))
			}
		}
	})
}

func BenchmarkSignatures(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	mail := []byte("From: a@sender.example\nContent-Type: text/html\n\n")
	for len(mail) < 20000 {
		mail = append(mail, "<p>lorem ipsum <a href=\"http://www.shop.example/\">x</a>\n"[rnd.IntN(10):]...)
	}
	b.SetBytes(int64(len(mail)))
	b.ReportAllocs()
	for b.Loop() {
		Signatures(b.Context(), mail)
	}
}

// TestNestedMemory: multiparts within each other do not copy the mail for each
// level.
func TestNestedMemory(t *testing.T) {
	var head strings.Builder
	for i := range maxDepth {
		fmt.Fprintf(&head, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
	}
	mail := []byte(head.String() + "Content-Type: text/plain\n\n" + strings.Repeat("The ferry leaves at nine.\n", 20_000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parts := mailtest.Must(Parts(t.Context(), mail))
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / uint64(len(mail)); n > 4 || len(parts) != 1 {
		t.Errorf("%d parts, which took %d times the memory of the mail", len(parts), n)
	}
}
