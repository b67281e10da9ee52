package dcc

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// A vector is a line of testdata/vectors/dcc/checksums.tsv.
type vector struct {
	name    string
	want    map[Type]string // "-" for a sum that is absent
	fuz1For [2]string       // by Rules
	message []byte
}

func vectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile(sharedtest.Vector(t, "dcc", "checksums.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		f := strings.Split(in.Text(), "\t")
		if len(f) != 10 {
			t.Fatalf("vector line has %d columns: %.60q", len(f), in.Text())
		}
		message, err := base64.StdEncoding.DecodeString(f[9])
		if err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, vector{
			name: f[0], message: message,
			want: map[Type]string{
				TypeEnvFrom: f[1], TypeFrom: f[2], TypeMessageID: f[3], TypeReceived: f[4], TypeBody: f[5],
			},
			fuz1For: [2]string{Rules1: f[6], Rules2: f[7]},
		})
	}
	if len(vectors) != 20 {
		t.Fatalf("%d vectors, want 20", len(vectors))
	}
	return vectors
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		for rules, fuz1 := range v.fuz1For {
			got := sumsOf(mailtest.Must(Sums(t.Context(), v.message, Options{Rules: Rules(rules)})))
			v.want[TypeFuz1] = fuz1
			for typ, want := range v.want {
				have, ok := got[typ]
				if !ok {
					have = "-"
				}
				if have != want {
					t.Errorf("%s, rules %d: %s = %s, want %s", v.name, rules, typ, have, want)
				}
			}
		}
	}
}

// TestFuz1Letters has what a real client 1.3.158 leaves of made-up bodies, as
// seen from the sums it prints for real ones of the same form.
func TestFuz1Letters(t *testing.T) {
	const start, end = "Please look at our new pages today\n", "and tell us\n"
	const nested = "Content-Type: multipart/alternative;\n boundary=\"in\"\n\nThis is the inner preamble.\n" +
		"--in\nContent-Type: text/plain\n\nAll people of the village\n--in--\n\n"
	tests := []struct{ name, header, body, letters string }{
		{"newline that ends a path", "", "http://www.example.com/a/b\nDate: not given\n", "httpexamplecomdatenotgiven"},
		{"greeting behind a host", "", "http://www.example.com\nDate: not given\n", "httpexamplecom"},
		{"reference in a path", "", "http://example.com/x?type=a&StoryID=1543&amp;b=c now\n", "httpexamplecomstoryidampnow"},
		{"long reference in a path", "", "http://example.com/x?a&VerifyRegistrationShowNow=dropped now\n",
			"httpexamplecomverifyregistrationshownownow"},
		{"quotes end a path", "", "open(\"http://example.com/girls\")now, 'http://example.com/girls'now\n",
			"openhttpexamplecomnowhttpexamplecomnow"},
		{"the other quote does not", "", "<a href=\"http://example.com/it's\">now\n", "ahrefhttpexamplecomnow"},
		{"no-break space ends a path", "", "http://example.com/girls\xa0now\n", "httpexamplecomnow"},
		{"multipart within a multipart", "Content-Type: multipart/mixed; boundary=out\n",
			"Outer preamble\n--out\n" + nested + "--out\nContent-Type: text/plain\n\nFooter of the list\n--out--\n",
			"thisistheinnerpreambleallpeopleofthevillagefooterofthelist"},
		{"multipart without a boundary", "Content-Type: multipart/mixed; boundary= \"out\"\n",
			"--out\nContent-Type: text/plain\n\nAll people of the village come here\n--out--\n", ""},
	}
	for _, tt := range tests {
		body, letters := start+tt.body+end, "pleaselookatournewpagestoday"+tt.letters+"andtellus"
		if tt.header != "" { // start and end would be its preamble and epilogue
			body, letters = tt.body, tt.letters
		}
		want := ""
		if letters != "" {
			sum := md5.Sum([]byte(letters))
			want = hex.EncodeToString(sum[:])
		}
		got := sumsOf(mailtest.Must(Sums(t.Context(), []byte("From: a@example.com\n"+tt.header+"\n"+body),
			Options{Rules: Rules1})))[TypeFuz1]
		if got != want {
			t.Errorf("%s: Fuz1 = %q, want %q, that of %s", tt.name, got, want, letters)
		}
	}
}

func sumsOf(sums []Sum) map[Type]string {
	m := make(map[Type]string)
	for _, s := range sums {
		m[s.Type] = hex.EncodeToString(s.Sum[:])
	}
	return m
}

func TestIPSum(t *testing.T) {
	for _, addr := range []string{"192.0.2.7", "::ffff:192.0.2.7"} {
		sum := IPSum(netip.MustParseAddr(addr))
		if got, want := hex.EncodeToString(sum[:]), "bb1027c0791faac6194840a772f73220"; got != want {
			t.Errorf("IPSum(%s) = %s, want %s", addr, got, want)
		}
	}
}

const letterText = "Dear reader,\n\n" +
	"The ferry to the island leaves at nine on every day of the week\n" +
	"but Sunday, and returns at six; tickets are sold on board and at the pier.\n"

// TestEncodings: what a mail program does to a body on its way changes no
// body sum.
func TestEncodings(t *testing.T) {
	const head = "From: a@example.com\nContent-Type: text/plain\n"
	quoted := strings.NewReplacer("=", "=3D", "leaves", "lea=\nves", "tickets", "ticket=73").Replace(letterText)
	b64 := base64.StdEncoding.EncodeToString([]byte(letterText))
	plain := sumsOf(mailtest.Must(Sums(t.Context(), []byte(head+"\n"+letterText), Options{})))
	for _, typ := range []Type{TypeBody, TypeFuz1} {
		if plain[typ] == "" {
			t.Fatalf("no %s sum of the plain letter", typ)
		}
		for name, message := range map[string]string{
			"crlf":             strings.ReplaceAll(head+"\n"+letterText, "\n", "\r\n"),
			"quoted-printable": head + "Content-Transfer-Encoding: Quoted-Printable\n\n" + quoted,
			"base64":           head + "Content-Transfer-Encoding: base64\n\n" + b64[:40] + "\r\n" + b64[40:] + "\n",
			"spaces":           head + "\n" + strings.ReplaceAll(letterText, " ", " \t "),
		} {
			if got := sumsOf(mailtest.Must(Sums(t.Context(), []byte(message), Options{})))[typ]; got != plain[typ] {
				t.Errorf("%s: %s = %s, plain %s", name, typ, got, plain[typ])
			}
		}
	}
}

func TestFuz1LeavesOut(t *testing.T) {
	fuz1 := func(body string, rules Rules) string {
		return sumsOf(mailtest.Must(Sums(t.Context(), []byte("From: a@example.com\n\n"+body),
			Options{Rules: rules})))[TypeFuz1]
	}
	const tail = "The ferry to the island leaves at nine on every day of the week\n"
	tests := []struct{ name, a, b string }{
		{"greeting", "\nDear Mrs Smith,\n" + tail, "\nHello John\n" + tail},
		{"digits", "order 12345 " + tail, "order 99 " + tail},
		{"path", "see http://example.com/a/b?c=1 now " + tail, "see http://example.com/zz now " + tail},
		{"outer labels", "\nsee http://x1.example.com/ now " + tail, "\nsee http://www.abc.example.com/ now " + tail},
		{"user data", "\nsee http://joe:secret@example.com/ now " + tail, "\nsee http://example.com/ now " + tail},
		{"quoted path", "\n<a href=\"http://example.com/joe smith>\">" + tail,
			"\n<a href=\"http://example.com/ smith>\">" + tail},
	}
	for _, tt := range tests {
		for rules := range []Rules{Rules2, Rules1} {
			a, b := fuz1(tt.a, Rules(rules)), fuz1(tt.b, Rules(rules))
			if a == "" || a != b {
				t.Errorf("%s, rules %d: %q and %q give %s and %s", tt.name, rules, tt.a, tt.b, a, b)
			}
		}
	}
	if fuz1(tail, Rules2) == fuz1("other words "+tail, Rules2) {
		t.Error("different texts have the same Fuz1")
	}
}

func TestHeaderSums(t *testing.T) {
	const message = "From bounce@lists.example Mon Jan  1 00:00:00 2024\nReceived: from b\nreceived: from a\n by c\n" +
		"Message-ID: <1@x>\nMessage-ID: <2@x>\nX-Kind: Bulk\n\nbody\n"
	sums := sumsOf(mailtest.Must(Sums(t.Context(), []byte(message), Options{Substitute: "x-kind"})))
	for typ, value := range map[Type]string{
		TypeEnvFrom: "bounce@lists.example", TypeReceived: "from a by c", TypeMessageID: "2@X",
	} {
		sum := ValueSum("", value)
		if got, want := sums[typ], hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s = %s, want the sum of %q, %s", typ, got, value, want)
		}
	}
	if sum := ValueSum("X-Kind", "bulk"); sums[TypeSubstitute] != hex.EncodeToString(sum[:]) {
		t.Errorf("substitute = %s, want %x", sums[TypeSubstitute], sum)
	}
	if _, ok := sums[TypeBody]; ok {
		t.Error("a body of 4 bytes has a Body sum")
	}
}

func TestSumSignature(t *testing.T) {
	for _, s := range mailtest.Must(Sums(t.Context(), []byte("From: a@example.com\nReceived: x\n\n"+letterText),
		Options{Client: netip.MustParseAddr("192.0.2.1"), Sender: "<>"})) {
		sig, err := s.Signature()
		if err != nil || sig.Scheme() != s.Type.Scheme() || !bytes.Equal(sig.Sum(), s.Sum[:]) {
			t.Errorf("%v: signature %v, %v", s, sig, err)
		}
	}
	if _, err := (Sum{Type: TypeRepBulk}).Signature(); err == nil {
		t.Error("a reputation sum has a signature")
	}
}

// FuzzSums: any bytes have sums, the same ones each time, in ascending order.
func FuzzSums(f *testing.F) {
	f.Add([]byte("From: a@example.com\n\n" + letterText))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=b\n\n--b\n" +
		"Content-Transfer-Encoding: base64\n\nZGVhcg==ZZ\n--b\n" +
		"Content-Type: multipart/x; boundary=\"c\"\n\n--c\n--c--\n--b--\nend"))
	f.Add([]byte("Content-Transfer-Encoding: quoted-printable\nContent-Type: text/html; charset=iso-8859-2\n\n" +
		"<a href=3D\"http://a.b.c.example/&amp;x=41=\r\n=zz&#105;&bogus http://j@h\xc3\xa9.example.org"))
	f.Add([]byte("\n>Fro\n>From \n>"))
	f.Add([]byte("Content-Type: multipart/mixed; \xff\xfe\xfd; boundary=b\n\n--b\n\nx\n--b--\n"))
	words := fuz2Table(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for rules := range []Rules{Rules2, Rules1} {
			opt := Options{Rules: Rules(rules), Words: words}
			sums := mailtest.Must(Sums(t.Context(), raw, opt))
			if again := mailtest.Must(Sums(t.Context(), raw, opt)); len(again) != len(sums) {
				t.Fatalf("%d sums, then %d", len(sums), len(again))
			}
			for i := 1; i < len(sums); i++ {
				if sums[i].Type <= sums[i-1].Type {
					t.Fatalf("types not ascending: %v", sums)
				}
			}
		}
	})
}

func FuzzReadWords(f *testing.F) {
	f.Add("[english]\nword\n# c\n[polish]\nżaba\n")
	f.Add("word")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ReadWords(strings.NewReader(text))
		if (w == nil) != (err != nil) {
			t.Fatalf("ReadWords = %v, %v", w, err)
		}
	})
}

// TestContentTypeNotUTF8: bytes that are no UTF-8 in front of a boundary move
// nothing.
func TestContentTypeNotUTF8(t *testing.T) {
	for _, value := range []string{"multipart/mixed; x=\xff\xfe; boundary=", "multipart/mixed; \xff; boundary=b",
		"multipart/mixed; \u212a\u212a; boundary=\"b\""} {
		header := []byte("Content-Type: " + value)
		want := ""
		if strings.ContainsRune(value[len("multipart/mixed; "):], 'b') && !strings.HasSuffix(value, "=") {
			want = "b"
		}
		if e := parseEntity(header, nil); string(e.boundary) != want {
			t.Errorf("%q: boundary %q, want %q", header, e.boundary, want)
		}
		Sums(t.Context(), append(header, "\n\n--b\n\nx\n"...), Options{})
	}
}
