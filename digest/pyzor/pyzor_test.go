package pyzor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// digestText returns the digest as the client prints it, "-" where it breaks.
func digestText(raw []byte) string {
	sum, ok, _ := Sum(context.Background(), raw)
	if !ok {
		return "-"
	}
	return hex.EncodeToString(sum[:])
}

// TestClient compares with the digests that pyzor 1.0.0 on Python 3.11 gave
// for made-up mails of many kinds of damage; testdata/vectors/pyzor/damaged.jsonl holds both.
func TestClient(t *testing.T) {
	f, err := os.Open(sharedtest.Vector(t, "pyzor", "damaged.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	total := 0
	for s := bufio.NewScanner(f); s.Scan(); total++ {
		var v struct {
			Mail   []byte
			Digest string
		}
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if got := digestText(v.Mail); got != v.Digest {
			lines, _, _ := Lines(t.Context(), v.Mail)
			t.Errorf("digest of %.400q = %s, want %s; lines %q", v.Mail, got, v.Digest, lines)
		}
	}
	if total < 100 {
		t.Errorf("only %d mails compared", total)
	}
}

func TestVectors(t *testing.T) {
	dir := sharedtest.Vector(t, "pyzor")
	table, err := os.ReadFile(filepath.Join(dir, "digests.txt"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(table)) {
		var name, digest string
		for _, f := range strings.Fields(line) {
			switch {
			case strings.HasSuffix(f, ".eml"):
				name = f
			case len(f) == 40:
				digest = f
			}
		}
		if name == "" || digest == "" {
			continue
		}
		compared++
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := digestText(raw); got != digest {
			t.Errorf("%s: digest %s, want %s", name, got, digest)
		}
	}
	if compared != 11 {
		t.Errorf("compared %d vectors, want 11", compared)
	}
}

func TestCharsets(t *testing.T) {
	f, err := os.Open("testdata/charsets.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		field := strings.Split(s.Text(), " ")
		b, err := hex.DecodeString(field[1])
		if err != nil || len(field) != 3 {
			t.Fatalf("line %q: %v", s.Text(), err)
		}
		got := "?"
		if text, _, known := decodeNamed(b, field[0], '\uFFFD'); known {
			var runes []string
			for _, r := range text {
				runes = append(runes, fmt.Sprintf("%x", r))
			}
			got = strings.Join(runes, ",")
		}
		if got != field[2] {
			t.Errorf("%s %s = %s, want %s", field[0], field[1], got, field[2])
		}
	}
}

func TestLines(t *testing.T) {
	mail := func(body string) []byte {
		return []byte("Content-Type: text/plain; charset=utf-8\n\n" + body)
	}
	tests := []struct {
		name, body string
		want       []string
	}{
		{"short lines go", "one two\nthree four\n", []string{"threefour"}},
		{"eight characters stay", "1234567\n12345678\n\u00e9\u00e9\u00e9\u00e9 \u00e9\u00e9\u00e9\u00e9\n",
			[]string{"12345678", "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"}},
		{"long words go", "stay with 1234567890 me here\n", []string{"staywithmehere"}},
		{"addresses go", "write a@b.cd now, please\n@ab cd@ stay here\n", []string{"writenow,please", "@abcd@stayhere"}},
		{"links go", "see xhttp:/a b and more 1http:z\n: a: stay here\n", []string{"seebandmore1", ":a:stayhere"}},
		{"all line ends", "line one1\rline two2\r\nline three\vline four\fline five\u2028",
			[]string{"linetwo2", "linethree", "linefour", "linefour", "linefive"}},
		{"six of many",
			"line 0001\nline 0002\nline 0003\nline 0004\nline 0005\nline 0006\nline 0007\nline 0008\nline 0009\nline 0010\n",
			[]string{"line0003", "line0004", "line0005", "line0007", "line0008", "line0009"}},
	}
	for _, tt := range tests {
		got, ok, _ := Lines(t.Context(), mail(tt.body))
		if !ok || fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: lines of %q = %q, want %q", tt.name, tt.body, got, tt.want)
		}
	}
}

// TestEmpty: mails without lines have a digest in common and no signature.
func TestEmpty(t *testing.T) {
	for _, raw := range []string{"", "\n", "Subject: x\n\nhi\n", "Content-Type: text/html\n\n<img src=x>\n"} {
		if got := digestText([]byte(raw)); got != Empty {
			t.Errorf("digest of %q = %s, want that of nothing", raw, got)
		}
		if got := mailtest.Must(Signatures(t.Context(), []byte(raw))); len(got) != 0 {
			t.Errorf("Pyzor(%q) = %v, want no signature", raw, got)
		}
	}
	broken := []byte("Content-Type: text/html\n\nenough text here <![x[y]]>\n")
	if _, ok, _ := Sum(t.Context(), broken); ok || len(mailtest.Must(Signatures(t.Context(), broken))) != 0 {
		t.Error("a digest where the client has none")
	}
}

// TestBombs: the work on hostile mail stays bounded.
func TestBombs(t *testing.T) {
	for name, mail := range map[string]string{
		"deep messages":   strings.Repeat("Content-Type: message/rfc822\n\n", 50000),
		"deep multiparts": strings.Repeat("Content-Type: multipart/mixed; boundary=b\n\n--b\n", 50000),
		"many parts": "Content-Type: multipart/mixed; boundary=b\n\n" +
			strings.Repeat("--b\n\nhello there, you\n", 50000),
		"status blocks":    "Content-Type: message/delivery-status\n\n" + strings.Repeat("A: b\n\n", 50000),
		"open tags":        "Content-Type: text/html\n\n" + strings.Repeat("<a b='", 50000),
		"open comments":    "Content-Type: text/html\n\n" + strings.Repeat("<!-- -", 50000),
		"line ends":        "A: b\n\n" + strings.Repeat("\n", 1<<20),
		"carriage returns": "A: b\n\n" + strings.Repeat("abc\r", 1<<19),
		"semicolons":       "Content-Type: text/plain" + strings.Repeat("; charset*0*=\"", 50000) + "\n\nhello there\n",
	} {
		if text := digestText([]byte(mail)); text == "" {
			t.Errorf("%s: no digest", name)
		}
	}
}

// TestBaseTables prints the tables of golang.org/x/text for the generator
// pyzor_charsets.py, into the file that $BULKHEAD_PYZOR_BASE names. Without it,
// it checks that every pair of the generated table means something.
func TestBaseTables(t *testing.T) {
	path := os.Getenv("BULKHEAD_PYZOR_BASE")
	if path == "" {
		for name := range pairTables {
			known := 0
			for code, text := range codecs[name]().pair {
				if text != "" {
					known++
				}
				if strings.ContainsRune(text, '\uFFFD') {
					t.Errorf("%s: %04x means %q", name, 0x8000+code, text)
				}
			}
			if known < 5000 {
				t.Errorf("%s: %d pairs mean something", name, known)
			}
		}
		return
	}
	var out bytes.Buffer
	for _, name := range []string{"gbk", "gb18030", "big5", "euckr", "eucjp", "sjis"} {
		decoder := baseOf(name).NewDecoder()
		for code := 0x8000; code < 0x10000; code++ {
			text, err := decoder.Bytes([]byte{byte(code >> 8), byte(code)})
			if err != nil || bytes.ContainsRune(text, '\uFFFD') {
				continue
			}
			fmt.Fprintf(&out, "%s %04x", name, code)
			for _, r := range string(text) {
				fmt.Fprintf(&out, " %x", r)
			}
			fmt.Fprintln(&out)
		}
	}
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

func FuzzSignatures(f *testing.F) {
	f.Add([]byte("Content-Type: text/html; charset=gb2312\nContent-Transfer-Encoding: base64\n\n1tDOxA==\n"))
	f.Add([]byte("Content-Type: multipart/digest; boundary*=us-ascii''b\n\n--b\n\nA: b\n\ntext of a line\n--b--\n"))
	f.Add([]byte("Content-Type: message/delivery-status\n\nA: b\n\nC: d\n"))
	f.Add([]byte("Content-Type: text/html\n\n<p>a &amp; b<![endif]--><script>x</script><a b='c'd=e/>"))
	f.Add([]byte("Content-Type: text/plain; charset=iso-2022-jp\nContent-Transfer-Encoding: x-uuencode\n\n" +
		"begin 644 a\n#86)C\n`\nend\n"))
	for _, body := range []string{
		"quoted-printable\n\na=3Db=\nc =\td= e=G1=3d=C3=A4\n=\n", "base64\n\nYWJj ZGVm!Z2hp=amts\nbW5v==\nYQ\n",
		"base64\n\n=YWJj\nYWJjZ\n", "uuencode\n\nbegin 644 a\n#86)C\n*86)C\n&~~~~\n`\nend\nrest\n",
		"7bit\n\n<!DOCTYPE html><html><head><title>a</title><style>b</style></head><body><p class=c d='e' f=\"g\">h</p " +
			"i><br/><!-- j --><!k><?l?><![CDATA[m]]></body></html></x y='z'></1><&#65;&#x42;&amp;&unknown;&lt<a<b</c",
		"8bit\n\n<p>a\xe4b<script>if(a<b){}</script ></p><textarea>&amp;</textarea></style><a href=\"c<d>",
	} {
		for _, kind := range []string{"text/html", "text/plain; charset=iso-8859-1"} {
			f.Add([]byte("Content-Type: " + kind + "\nContent-Transfer-Encoding: " + body))
		}
	}
	f.Add([]byte("Content-Type: multipart/mixed; boundary=\"b\"\n\npreamble\n--b\nContent-Type: multipart/alternative;\n" +
		" boundary*0=c; boundary*1=d\n\n--cd\n\na\n--cd--\n--b\nContent-Type: text/html\n\n<p>e\n--b--\nepilogue\n"))
	f.Add([]byte("Content-Type: multipart/mixed; boundary*=utf-8'en'a%20b\n\n--a b\n\nc\n--a b\n\nno end\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		lines, ok, _ := Lines(t.Context(), raw)
		if len(lines) > 6 {
			t.Errorf("%d lines, limit 6", len(lines))
		}
		sigs := mailtest.Must(Signatures(t.Context(), raw))
		if len(sigs) > 1 || !ok && len(sigs) > 0 {
			t.Errorf("%d signatures, ok %v", len(sigs), ok)
		}
		for _, s := range sigs {
			if s.Scheme() != bulkhead.PyzorDigest || len(s.Sum()) != 20 {
				t.Errorf("signature %v", s)
			}
		}
		if !bytes.Equal(before, raw) {
			t.Error("the mail was changed")
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range []string{"utf-7", "utf-16", "euc-kr", "euc-jp", "iso-2022-kr", "hz", "gb18030", "cp037"} {
		f.Add([]byte("+AGE-\x1b$B0!\xa4\xd4\x8f\xa1\xa1~{VP~}"), c)
	}
	switches := "a\x1b(Bb\x1b)Bc\x1b(Jd\x1b)Je\x1b(I1\x1b$@0!\x1b$(B0!\x1b$)@0!\x0e0!\x0f\x1b$D0!\x1b$(D0!\x1b$C0!" +
		"\x1b$(C0!\x1b$)C\x0e0!\x0f\x1b.A\x1bNa\x1b$(Q\x1b[x\n"
	for _, c := range []string{"iso-2022-jp", "iso-2022-jp-1", "iso-2022-jp-2", "iso-2022-jp-3", "iso-2022-jp-ext",
		"iso-2022-kr", "utf-8", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-7", "big5", "big5-hkscs", "gbk",
		"gb2312", "gb18030",
		"euc-kr", "cp949", "johab", "shift_jis", "shift_jisx0213", "euc-jp", "euc-jis-2004", "cp932", "cp950", "hz",
		"windows-1252", "koi8-r", "ascii", "raw-unicode-escape", "unicode-escape", "no-such"} {
		f.Add([]byte(switches), c)
		f.Add([]byte("+AGEAYgBj-+-+2D3cAA-+\xff~{VP~~~\n~x\x80\x81\x40\xa1\xa1\xff\xfe\xf0\x9f"+
			"\x98\x80\xd8\x3d\xde\x00\xe3\x81"), c)
		f.Add([]byte("\x81\x30\x81\x30\x84\x31\xa4\x37\xfe\xa1\xf9\xd6\x8f\xa2\xaf\x8e\xb1\xc9\xa1\xd8"+
			"\x31\x88\x62\x00\x00\xfe\xff"), c)
	}
	f.Fuzz(func(t *testing.T, b []byte, charset string) {
		text, bad, known := decodeNamed(b, charset, ignoreErrors)
		replaced, bad2, known2 := decodeNamed(b, charset, '\uFFFD')
		if known != known2 || bad != bad2 || len(replaced) != len(text)+bad {
			t.Errorf("%s %x: %d characters and %d errors, %d with replacements", charset, b, len(text), bad, len(replaced))
		}
	})
}

func BenchmarkSignatures(b *testing.B) {
	mail := []byte("From: a@sender.example\nContent-Type: text/html; charset=utf-8\n\n")
	for len(mail) < 20000 {
		mail = append(mail, "<p>lorem ipsum <a href=\"http://www.shop.example/\">dolor</a> sit\n"...)
	}
	b.SetBytes(int64(len(mail)))
	b.ReportAllocs()
	for b.Loop() {
		Signatures(b.Context(), mail)
	}
}

// TestNested: the work on a line does not grow with the multiparts around it
// by more than comparing the line with their boundaries.
func TestNested(t *testing.T) {
	var b strings.Builder
	long := strings.Repeat("x", 60)
	for i := range maxDepth - 1 {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%s%d\n\n--%s%d\n", long, i, long, i)
	}
	allocs := func(lines int) float64 {
		mail := []byte(b.String() + "\n" + strings.Repeat("\n", lines) + strings.Repeat("--no boundary\n", lines))
		return testing.AllocsPerRun(1, func() { mailtest.Must(Signatures(t.Context(), mail)) })
	}
	const lines = 1000
	few, many := allocs(0), allocs(lines)
	if perLine := (many - few) / (2 * lines); perLine > 10 {
		t.Errorf("%.0f allocations for each line within %d multiparts", perLine, maxDepth-1)
	}
}

// TestBounded: neither many header fields nor many parts take much more memory
// than the mail.
func TestBounded(t *testing.T) {
	const fields = 10_000
	mail := []byte(strings.Repeat("a: b\n", fields) +
		"Content-Type: text/html\nContent-Type: text/plain\n\n<p>The ferry leaves at nine in the morning.</p>\n")
	if n := testing.AllocsPerRun(1, func() { mailtest.Must(Signatures(t.Context(), mail)) }); n > fields/10 {
		t.Errorf("%.0f allocations for %d header fields", n, fields)
	}
	if got, want := digestText(mail),
		digestText([]byte("Content-Type: text/html\n\n<p>The ferry leaves at nine in the morning.</p>\n")); got != want {
		t.Errorf("digest %s, want %s: of fields of one name the first counts", got, want)
	}
	parts := func(n int) []byte {
		return []byte("Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\n\n", n-2) +
			"--b\n\nThe ferry leaves at nine in the morning.\n--b--\n")
	}
	if digestText(parts(maxParts)) == "-" {
		t.Errorf("a mail of %d parts has no digest", maxParts)
	}
	if got := digestText(parts(maxParts + 1)); got != "-" {
		t.Errorf("a mail of %d parts has the digest %s", maxParts+1, got)
	}
}

// TestLongLines: of five lines the fourth is hashed twice, however long they are.
func TestLongLines(t *testing.T) {
	for _, words := range []int{3, 12_000} {
		mail, want := "Subject: x\n\n", []string(nil)
		for i := range 5 {
			word := strings.Repeat(string(rune('a'+i)), 6)
			mail += strings.Repeat(word+" ", words) + "\n"
			want = append(want, strings.Repeat(word, words))
		}
		want = slices.Concat(want[1:4], want[3:5])
		if got, ok, err := Lines(t.Context(), []byte(mail)); err != nil || !ok || !slices.Equal(got, want) {
			t.Errorf("%d words a line: %d lines, %v, %v, want %d", words, len(got), ok, err, len(want))
		}
	}
}
