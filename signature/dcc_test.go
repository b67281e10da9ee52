package signature

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

	"github.com/bulkhead-mail/bulkhead/internal/sharedtest"
)

// A dccVector is a line of testdata/vectors/dcc/checksums.tsv.
type dccVector struct {
	name    string
	want    map[DCCType]string // "-" for a sum that is absent
	fuz1For [2]string          // by DCCRules
	message []byte
}

func dccVectors(t *testing.T) []dccVector {
	t.Helper()
	data, err := os.ReadFile(sharedtest.Vector(t, "dcc", "checksums.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []dccVector
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
		vectors = append(vectors, dccVector{
			name: f[0], message: message,
			want: map[DCCType]string{
				DCCTypeEnvFrom: f[1], DCCTypeFrom: f[2], DCCTypeMessageID: f[3], DCCTypeReceived: f[4], DCCTypeBody: f[5],
			},
			fuz1For: [2]string{DCCRules1: f[6], DCCRules2: f[7]},
		})
	}
	if len(vectors) != 20 {
		t.Fatalf("%d vectors, want 20", len(vectors))
	}
	return vectors
}

func TestDCCVectors(t *testing.T) {
	for _, v := range dccVectors(t) {
		for rules, fuz1 := range v.fuz1For {
			got := sumsOf(must(DCC(t.Context(), v.message, DCCOptions{Rules: DCCRules(rules)})))
			v.want[DCCTypeFuz1] = fuz1
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

// TestDCCFuz1Letters has what a real client 1.3.158 leaves of made-up bodies, as
// seen from the sums it prints for real ones of the same form.
func TestDCCFuz1Letters(t *testing.T) {
	const start, end = "Please look at our new pages today\n", "and tell us\n"
	const nested = "Content-Type: multipart/alternative;\n boundary=\"in\"\n\nThis is the inner preamble.\n" +
		"--in\nContent-Type: text/plain\n\nAll people of the village\n--in--\n\n"
	tests := []struct{ name, header, body, letters string }{
		{"newline that ends a path", "", "http://www.example.com/a/b\nDate: not given\n", "httpexamplecomdatenotgiven"},
		{"greeting behind a host", "", "http://www.example.com\nDate: not given\n", "httpexamplecom"},
		{"reference in a path", "", "http://example.com/x?type=a&StoryID=1543&amp;b=c now\n", "httpexamplecomstoryidampnow"},
		{"long reference in a path", "", "http://example.com/x?a&VerifyRegistrationShowNow=dropped now\n", "httpexamplecomverifyregistrationshownownow"},
		{"quotes end a path", "", "open(\"http://example.com/girls\")now, 'http://example.com/girls'now\n", "openhttpexamplecomnowhttpexamplecomnow"},
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
		got := sumsOf(must(DCC(t.Context(), []byte("From: a@example.com\n"+tt.header+"\n"+body), DCCOptions{Rules: DCCRules1})))[DCCTypeFuz1]
		if got != want {
			t.Errorf("%s: Fuz1 = %q, want %q, that of %s", tt.name, got, want, letters)
		}
	}
}

func sumsOf(sums []DCCSum) map[DCCType]string {
	m := make(map[DCCType]string)
	for _, s := range sums {
		m[s.Type] = hex.EncodeToString(s.Sum[:])
	}
	return m
}

func TestDCCIPSum(t *testing.T) {
	for _, addr := range []string{"192.0.2.7", "::ffff:192.0.2.7"} {
		sum := DCCIPSum(netip.MustParseAddr(addr))
		if got, want := hex.EncodeToString(sum[:]), "bb1027c0791faac6194840a772f73220"; got != want {
			t.Errorf("DCCIPSum(%s) = %s, want %s", addr, got, want)
		}
	}
}

const dccLetter = "Dear reader,\n\nThe ferry to the island leaves at nine on every day of the week\nbut Sunday, and returns at six; tickets are sold on board and at the pier.\n"

// TestDCCEncodings: what a mail program does to a body on its way changes no
// body sum.
func TestDCCEncodings(t *testing.T) {
	const head = "From: a@example.com\nContent-Type: text/plain\n"
	quoted := strings.NewReplacer("=", "=3D", "leaves", "lea=\nves", "tickets", "ticket=73").Replace(dccLetter)
	b64 := base64.StdEncoding.EncodeToString([]byte(dccLetter))
	plain := sumsOf(must(DCC(t.Context(), []byte(head+"\n"+dccLetter), DCCOptions{})))
	for _, typ := range []DCCType{DCCTypeBody, DCCTypeFuz1} {
		if plain[typ] == "" {
			t.Fatalf("no %s sum of the plain letter", typ)
		}
		for name, message := range map[string]string{
			"crlf":             strings.ReplaceAll(head+"\n"+dccLetter, "\n", "\r\n"),
			"quoted-printable": head + "Content-Transfer-Encoding: Quoted-Printable\n\n" + quoted,
			"base64":           head + "Content-Transfer-Encoding: base64\n\n" + b64[:40] + "\r\n" + b64[40:] + "\n",
			"spaces":           head + "\n" + strings.ReplaceAll(dccLetter, " ", " \t "),
		} {
			if got := sumsOf(must(DCC(t.Context(), []byte(message), DCCOptions{})))[typ]; got != plain[typ] {
				t.Errorf("%s: %s = %s, plain %s", name, typ, got, plain[typ])
			}
		}
	}
}

func TestDCCFuz1LeavesOut(t *testing.T) {
	fuz1 := func(body string, rules DCCRules) string {
		return sumsOf(must(DCC(t.Context(), []byte("From: a@example.com\n\n"+body), DCCOptions{Rules: rules})))[DCCTypeFuz1]
	}
	const tail = "The ferry to the island leaves at nine on every day of the week\n"
	tests := []struct{ name, a, b string }{
		{"greeting", "\nDear Mrs Smith,\n" + tail, "\nHello John\n" + tail},
		{"digits", "order 12345 " + tail, "order 99 " + tail},
		{"path", "see http://example.com/a/b?c=1 now " + tail, "see http://example.com/zz now " + tail},
		{"outer labels", "\nsee http://x1.example.com/ now " + tail, "\nsee http://www.abc.example.com/ now " + tail},
		{"user data", "\nsee http://joe:secret@example.com/ now " + tail, "\nsee http://example.com/ now " + tail},
		{"quoted path", "\n<a href=\"http://example.com/joe smith>\">" + tail, "\n<a href=\"http://example.com/ smith>\">" + tail},
	}
	for _, tt := range tests {
		for rules := range []DCCRules{DCCRules2, DCCRules1} {
			a, b := fuz1(tt.a, DCCRules(rules)), fuz1(tt.b, DCCRules(rules))
			if a == "" || a != b {
				t.Errorf("%s, rules %d: %q and %q give %s and %s", tt.name, rules, tt.a, tt.b, a, b)
			}
		}
	}
	if fuz1(tail, DCCRules2) == fuz1("other words "+tail, DCCRules2) {
		t.Error("different texts have the same Fuz1")
	}
}

func TestDCCHeaderSums(t *testing.T) {
	const message = "From bounce@lists.example Mon Jan  1 00:00:00 2024\nReceived: from b\nreceived: from a\n by c\n" +
		"Message-ID: <1@x>\nMessage-ID: <2@x>\nX-Kind: Bulk\n\nbody\n"
	sums := sumsOf(must(DCC(t.Context(), []byte(message), DCCOptions{Substitute: "x-kind"})))
	for typ, value := range map[DCCType]string{
		DCCTypeEnvFrom: "bounce@lists.example", DCCTypeReceived: "from a by c", DCCTypeMessageID: "2@X",
	} {
		sum := DCCValueSum("", value)
		if got, want := sums[typ], hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s = %s, want the sum of %q, %s", typ, got, value, want)
		}
	}
	if sum := DCCValueSum("X-Kind", "bulk"); sums[DCCTypeSubstitute] != hex.EncodeToString(sum[:]) {
		t.Errorf("substitute = %s, want %x", sums[DCCTypeSubstitute], sum)
	}
	if _, ok := sums[DCCTypeBody]; ok {
		t.Error("a body of 4 bytes has a Body sum")
	}
}

func TestDCCSumSignature(t *testing.T) {
	for _, s := range must(DCC(t.Context(), []byte("From: a@example.com\nReceived: x\n\n"+dccLetter), DCCOptions{Client: netip.MustParseAddr("192.0.2.1"), Sender: "<>"})) {
		sig, err := s.Signature()
		if err != nil || sig.Scheme() != s.Type.Scheme() || !bytes.Equal(sig.Sum(), s.Sum[:]) {
			t.Errorf("%v: signature %v, %v", s, sig, err)
		}
	}
	if _, err := (DCCSum{Type: DCCTypeRepBulk}).Signature(); err == nil {
		t.Error("a reputation sum has a signature")
	}
}

// FuzzDCC: any bytes have sums, the same ones each time, in ascending order.
func FuzzDCC(f *testing.F) {
	f.Add([]byte("From: a@example.com\n\n" + dccLetter))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: base64\n\nZGVhcg==ZZ\n--b\nContent-Type: multipart/x; boundary=\"c\"\n\n--c\n--c--\n--b--\nend"))
	f.Add([]byte("Content-Transfer-Encoding: quoted-printable\nContent-Type: text/html; charset=iso-8859-2\n\n<a href=3D\"http://a.b.c.example/&amp;x=41=\r\n=zz&#105;&bogus http://j@h\xc3\xa9.example.org"))
	f.Add([]byte("\n>Fro\n>From \n>"))
	f.Add([]byte("Content-Type: multipart/mixed; \xff\xfe\xfd; boundary=b\n\n--b\n\nx\n--b--\n"))
	words := fuz2Table(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for rules := range []DCCRules{DCCRules2, DCCRules1} {
			opt := DCCOptions{Rules: DCCRules(rules), Words: words}
			sums := must(DCC(t.Context(), raw, opt))
			if again := must(DCC(t.Context(), raw, opt)); len(again) != len(sums) {
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

func FuzzReadDCCWords(f *testing.F) {
	f.Add("[english]\nword\n# c\n[polish]\nżaba\n")
	f.Add("word")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ReadDCCWords(strings.NewReader(text))
		if (w == nil) != (err != nil) {
			t.Fatalf("ReadDCCWords = %v, %v", w, err)
		}
	})
}

// TestDCCContentTypeNotUTF8: bytes that are no UTF-8 in front of a boundary move
// nothing.
func TestDCCContentTypeNotUTF8(t *testing.T) {
	for _, value := range []string{"multipart/mixed; x=\xff\xfe; boundary=", "multipart/mixed; \xff; boundary=b", "multipart/mixed; \u212a\u212a; boundary=\"b\""} {
		header := []byte("Content-Type: " + value)
		want := ""
		if strings.ContainsRune(value[len("multipart/mixed; "):], 'b') && !strings.HasSuffix(value, "=") {
			want = "b"
		}
		if e := parseDCCEntity(header, nil); string(e.boundary) != want {
			t.Errorf("%q: boundary %q, want %q", header, e.boundary, want)
		}
		DCC(t.Context(), append(header, "\n\n--b\n\nx\n"...), DCCOptions{})
	}
}
