package mail

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestLiteralParts: messages are divided as rspamd 3.4 divides them, with all that it does not mend.
func TestLiteralParts(t *testing.T) {
	const multi = "Content-Type: multipart/mixed; boundary=b\n\n"
	const text, page = "Content-Type: text/plain\n\n", "Content-Type: text/html\n\n"
	const inner = "Content-Type: multipart/mixed; boundary=c\n\n"
	const message = "Content-Type: message/rfc822\n\n"
	for _, test := range []struct {
		raw  string
		want []string // type, Siblings, content
	}{
		{text + "one\n", []string{"text/plain 0 one\n"}},
		{multi + "--b\n" + text + "one\n--b\n" + page + "two\n--b--\n", []string{"text/plain 1 one\n", "text/html 1 two\n"}},
		// Boundaries are read without regard to case, and what is behind them counts.
		{multi + "--B\n" + text + "one\n--b--\n", []string{"text/plain 0 one\n"}},
		{multi + "--b\n" + text + "one\n--b \n" + page + "two\n--b--\n",
			[]string{"text/plain 0 one\n--b \nContent-Type: text/html\n\ntwo\n"}},
		{strings.Replace(multi, "=b", "=b--", 1) + "--b--\n" + text + "one\n--b--\n" + page + "two\n--b----\n",
			[]string{"text/plain 1 one\n", "text/html 1 two\n"}},
		// If no boundary is there, each line that looks like one begins a part that belongs to nothing, up to the next.
		{multi + "--x\n" + text + "one\n--y\n" + page + "two\n", []string{"text/plain 0 one\n", "text/html 0 two\n"}},
		{multi + "--x\n" + text + "one\n--y--\n" + page + "two\n", []string{"text/plain 0 one\n"}},
		{strings.Replace(multi, "; boundary=b", "", 1) + "--x\n" + text + "one\n--x--\n", []string{"text/plain 0 one\n"}},
		// A multipart that does not end ends with the one around it, without its last part.
		{multi + "--b\n" + inner + "--c\n" + text + "one\n--c\n" + text + "two\n--b\n" + page + "three\n--b--\n",
			[]string{"text/plain 0 one\n", "text/html 1 three\n"}},
		{multi + "--b\n" + text + "one\n", []string{"text/plain 0 one\n"}},
		// Text after the closing boundary is a part if it looks like one. A part with an empty header has no known type.
		{multi + "--b\n" + text + "one\n--b--\n--z\n" + page + "two\n", []string{"text/plain 0 one\n", "text/html 0 two\n"}},
		{multi + "--b\n\none\n--b--\n", []string{" 0 \none\n"}},
		{multi + "--b\nX: y\n\none\n--b--\n", []string{" 0 one\n"}},
		// Lines of white space end no header, and lone CRs do.
		{"Content-Type: text/html\n \nX: y\n\none\n", []string{"text/html 0 one\n"}},
		{"X: y\r\rContent-Type: text/html\n\none\n", []string{"text/plain 0 Content-Type: text/html\n\none\n"}},
		{"Content-Type: text/html\r\n\r\none\n", []string{"text/html 0 one\n"}},
		{"Subject: x\nContent-Type:\n\ttext/html;\n charset=x\n\none", []string{"text/html 0 one"}},
		{"Subject: a header alone\n", nil},
		{"no header at all", []string{"text/plain 0 no header at all"}},
		// Types that lack something, or are there twice.
		{"Content-Type: text\n\none", []string{"text/ 0 one"}},
		{"Content-Type: html\n\none", []string{"text/html 0 one"}},
		{"Content-Type: (see (below)) TEXT/HTML (x); charset=x\n\none", []string{"text/html 0 one"}},
		{"Content-Type: ;\n\none", []string{"text/plain 0 one"}},
		{"Content-Type: text/html\nContent-Type: text/plain\n\none", []string{"text/html 0 one"}},
		{"Content-Type: text/html\n" + multi + "--b\n" + text + "one\n--b--", []string{"text/plain 0 one\n"}},
		{"Content-Type : text/html\n\none", []string{"text/plain 0 one"}},
		{"Content-Type: multipart/mixed; x; boundary = \"b\\\"c\"; y\n\n--b\\\"c\n" + text + "one\n--b\\\"c--",
			[]string{"text/plain 0 one\n"}},
		{"Content-Type: multipart/mixed; boundary=\"b\n\n--x\n" + text + "one\n--b\n", []string{"text/plain 0 one\n--b\n"}},
		{"Content-Type: multipart/mixed; boundary*=us-ascii''b%21\n\n--b!\n" + text + "one\n--b!--",
			[]string{"text/plain 0 one\n"}},
		{"X: no type\n\n\xc3\xa4", []string{" 0 \xc3\xa4"}},
		{"X: no type\n\n\xe4", []string{"text/plain 0 \xe4"}},
		// Messages, which are parts themselves.
		{message + text + "one\n", []string{"message/rfc822 0 " + text + "one\n", "text/plain 0 one\n"}},
		{"Content-Type: message/delivery-status\n\none", []string{"text/plain 0 one"}},
		{multi + "--b\n" + message + text + "one\n--b--\n", []string{"message/rfc822 0 " + text + "one\n",
			"text/plain 0 one\n"}},
		// Transfer encodings.
		{"Content-Transfer-Encoding: .BASE64;\n\nb25l", []string{"text/plain 0 one"}},
		{"Content-Transfer-Encoding: quoted-printable; x=y\n\none=20two=", []string{"text/plain 0 one=20two="}},
		{"Content-Transfer-Encoding: quoted-printable\n\none=20two=\n", []string{"text/plain 0 one two"}},
		{"Content-Transfer-Encoding: quoted-printable\n\na=4Zb==20c= \nd=\re=0", []string{"text/plain 0 a=4Zb==20c= \nde"}},
		{"Content-Transfer-Encoding: quoted-printable\n\none=20two \xe4", []string{"text/plain 0 one=20two \xe4"}},
		{"Content-Transfer-Encoding: base64\n\nb25l \xe4", []string{"text/plain 0 b25l \xe4"}},
		{"Content-Transfer-Encoding: base64\n\nb25\nsIA==b25l", []string{"text/plain 0 onl one"}},
		{"Content-Transfer-Encoding: base64\n\nb24=b25l", []string{"text/plain 0 on\x1b\xdb\x99"}},
		{"X: y\n\nb25lIGFuZCB0d28=\n", []string{"text/plain 0 one and two"}},
		{"X: y\n\nOneTwo\n", []string{"text/plain 0 OneTwo\n"}},
		{"X: y\n\n" + strings.Repeat("b25lVHdv", 11), []string{"text/plain 0 " + strings.Repeat("oneTwo", 11)}},
		{"X: y\n\na=20b=20c=20d", []string{"text/plain 0 a b c d"}},
		{strings.Replace(multi, "\n\n", "\nContent-Transfer-Encoding: base64\n\n", 1) + "--b\n" + text +
			"b25lIGFuZCB0d28=\n--b\n" + text + "one two\n--b--", []string{"text/plain 1 one and two", "text/plain 1 one two\n"}},
		{"Content-Transfer-Encoding: x-uuencode\n\nbegin 644 one\n#;VYE\n`\nend\n", []string{"text/plain 0 one"}},
		{"Content-Transfer-Encoding: uuencode\n\n" + strings.Repeat("one two ", 10),
			[]string{"text/plain 0 " + strings.Repeat("one two ", 9)}},
		{"X: y\n\nbegin 644 one.txt\n#;VYE\n`\nend\n", []string{"text/plain 0 one"}},
	} {
		m := mailtest.Must(Read(t.Context(), []byte(test.raw)))
		var got []string
		for _, p := range mailtest.Must(m.LiteralParts(t.Context())) {
			got = append(got, fmt.Sprintf("%s %d %s", p.Type, p.Siblings, mailtest.Must(p.Source(t.Context()))))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q is divided into %q, want %q", test.raw, got, test.want)
		}
	}
}

// TestLiteralEnds: the line end before a boundary belongs to a text, unless that is in base64, or ends it with a soft
// line end.
func TestLiteralEnds(t *testing.T) {
	for _, test := range [][3]string{{"", "one", "one\n"}, {"", "one\r", "one\r\n"}, {"", "one\n", "one\n\n"},
		{"", "\xe9", "é\n"}, {"quoted-printable", "one=20", "one \n"}, {"quoted-printable", "one=", "one"},
		{"quoted-printable", "one \n", "one \n\n"}, {"base64", "b25l", "one"}} {
		raw := "Content-Type: multipart/mixed; boundary=b\n\n--b\n" +
			"Content-Type: text/plain\nContent-Transfer-Encoding: " +
			test[0] + "\n\n" + test[1] + "\n--b--"
		m := mailtest.Must(Read(t.Context(), []byte(raw)))
		parts := mailtest.Must(m.LiteralParts(t.Context()))
		if len(parts) != 1 {
			t.Fatalf("%d parts", len(parts))
		}
		if got, _, err := parts[0].Literal(t.Context()); got != test[2] || err != nil {
			t.Errorf("%q in %q is %q, want %q, %v", test[1], test[0], got, test[2], err)
		}
	}
}

// TestLiteralCharsets: bytes that their charset has no character for, those of UTF-8 that is torn, and NUL.
func TestLiteralCharsets(t *testing.T) {
	long := strings.Repeat("grün ", 400)
	for _, test := range [][3]string{
		{"iso-8859-2", "a\x86\xb3", "a\u0086ł"}, {"windows-1251", "\x98\xe0", "\u0098а"},
		{"windows-1250", "\x88\xb9", "\u0088ą"}, {"windows-1252", "\x81\x80", "\u0081€"},
		{"iso-8859-7", "\xae\xe1", "\ufffdα"},
		{"iso-8859-1", "a\x00b", "a\x00b"}, {"utf-8", "ä\x00b", "ä\x00b"}, {"utf-8", "grüün\xfc", "grüün\xfc"},
		{"", "grüün\xfc", "grüün\xfc"}, {"utf-8", "gr\xfcn", "grün"}, {"", "\x80 gr\xfcn ü", "€ grün Ã¼"},
		{"", long + "\xfc" + long, long + "\xfc" + long}, {"gb2312", "\x80\xc4\xe3", "€你"},
	} {
		raw := "Content-Type: text/plain; charset=" + test[0] + "\n\n" + test[1]
		m := mailtest.Must(Read(t.Context(), []byte(raw)))
		parts := mailtest.Must(m.LiteralParts(t.Context()))
		if got, _, err := parts[0].Literal(t.Context()); got != test[2] || err != nil {
			t.Errorf("%.20q in %q is %.40q, want %.40q, %v", test[1], test[0], got, test[2], err)
		}
	}
}

// TestLiteralKnown: bytes that are not ASCII, where nothing says what they are, stay and are not known; they are "?" if
// UTF-8 is named.
func TestLiteralKnown(t *testing.T) {
	ascii := strings.Repeat("nothing but words ", 60)
	for charset, want := range map[string]string{"": "\xe9", "x-nonsense": "\xe9", "utf-8": "?", "us-ascii": "?",
		"default": "?"} {
		m := mailtest.Must(Read(t.Context(),
			[]byte("Content-Type: text/plain; charset="+charset+"\n\n"+ascii[:600]+"\xe9"+ascii+ascii)))
		got, known, err := m.Parts[0].Literal(t.Context())
		if got != ascii[:600]+want+ascii+ascii || known != (want == "?") || err != nil {
			t.Errorf("%q: %q, %v, %v", charset, got[590:610], known, err)
		}
	}
}

// FuzzLiteralParts checks what every division of any bytes must satisfy.
func FuzzLiteralParts(f *testing.F) {
	for _, raw := range mailtest.Seeds() {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		m, err := Read(t.Context(), raw)
		if err != nil {
			return
		}
		parts := mailtest.Must(m.LiteralParts(t.Context()))
		if len(parts) > maxParts {
			t.Fatalf("%d parts", len(parts))
		}
		size := 0
		for i := range parts {
			if _, _, err := parts[i].Literal(t.Context()); err != nil {
				t.Fatal(err)
			}
			size += len(parts[i].body)
		}
		if most := 2*len(raw) + minDecoded; size > most {
			t.Fatalf("%d bytes in parts, at most %d", size, most)
		}
		if !bytes.Equal(before, raw) {
			t.Fatal("the raw message was changed")
		}
	})
}
