package mail

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

func read(t testing.TB, raw string) *Message {
	t.Helper()
	m, err := Read(t.Context(), []byte(raw))
	if err != nil {
		t.Fatalf("Read(%.60q): %v", raw, err)
	}
	return m
}

func TestReadFields(t *testing.T) {
	m := read(t, "From bounce@example.com Mon Jan  1 00:00:00 2024\r\n"+
		"Return-Path: <list-bounce@example.net>\r\n"+
		"From: =?utf-8?q?Ann_M=C3=BCller?= <Ann@Example.com>\r\n"+
		"Sender: list@example.net\r\n"+
		"To: \"Bob, the builder\" <bob@example.org>,\r\n\t carol@example.org\r\n"+
		"List-Id: All widgets\r\n <widgets.example.net>\r\n"+
		"Message-ID: <1@example.com>\r\n"+
		"Subject: =?iso-8859-1?Q?Gr=FC=DFe?= an\r\n alle\r\n\r\nhello\r\n")
	got := []string{m.Envelope, m.ReturnPath, m.From, m.Sender, m.ListID, m.MessageID, m.Subject,
		m.SenderAddress(), m.Parts[0].Text}
	want := []string{"bounce@example.com", "list-bounce@example.net", "Ann@Example.com", "list@example.net",
		"widgets.example.net",
		"1@example.com", "Grüße an alle", "list-bounce@example.net", "hello\r\n"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if m.Damage != nil {
		t.Errorf("damage %q, want none", m.Damage)
	}
	if s := m.Source(); s.ClaimedSender != "list-bounce@example.net" || s.ClaimedListID != "widgets.example.net" ||
		s.Sender+s.ListID != "" {
		t.Errorf("Source = %+v", s)
	}
}

func TestFirstAddress(t *testing.T) {
	for field, want := range map[string]string{
		"":                                 "",
		"ann@example.com":                  "ann@example.com",
		"Ann <ann@example.com>":            "ann@example.com",
		"\"Ann\" <ann@example.com":         "",
		"Ann [x] <ann@example.com>":        "ann@example.com",
		"ann@example.com (Ann":             "ann@example.com",
		"undisclosed-recipients:;":         "",
		"a@example.com, b@example.com":     "a@example.com",
		"Ann @ work <ann@example.com>, \"": "ann@example.com",
		"<>":                               "",
	} {
		if got, _ := first(field); got != want && want != "" || strings.ContainsAny(got, "<> ") {
			t.Errorf("first(%q) = %q, want %q", field, got, want)
		}
	}
}

// describe writes the parts of a message on one line.
func describe(m *Message) string {
	var parts []string
	for _, p := range m.Parts {
		s := p.Type
		if p.Attachment {
			s += " attached"
		}
		if p.Embedded {
			s += " embedded"
		}
		if p.IsText() {
			s += fmt.Sprintf(" %q", p.Text)
		} else {
			s += fmt.Sprintf(" %d bytes", len(p.Data))
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// TestReadDamaged lists what breaks other readers.
func TestReadDamaged(t *testing.T) {
	head := "MIME-Version: 1.0\n"
	for _, tt := range []struct{ name, raw, want, damage string }{
		{"bad header line", "X-Scanner No - fine\nContent-Type: text/html\n\n<p>a", `text/html "<p>a"`, "no field"},
		{"no empty line", "Subject: x\nhello there\nbye\n", `text/plain "hello there\nbye\n"`, "no empty line"},
		{"lone CRs", "Subject: x\rContent-Type: text/html\r\rhello\r", `text/html "hello\n"`, "carriage returns"},
		{"empty boundary",
			head + "Content-Type: multipart/mixed; boundary=\"\"\n\n--\nContent-Type: text/html\n\na\n",
			`text/plain "--\nContent-Type: text/html\n\na\n"`, "without its boundary"},
		{"no boundary", head + "Content-Type: multipart/mixed\n\n--zz\nContent-Type: text/html\n\na\n--zz--\n",
			`text/html "a"`, `found "zz"`},
		{"wrong boundary",
			head + "Content-Type: multipart/mixed; boundary=yy\n\n--zz\nContent-Type: text/html\n\na\n--zz--\n",
			`text/html "a"`, `found "zz"`},
		{"no final boundary", head + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\na\n--b\n\nc\n",
			`text/plain "a"; text/plain "c\n"`, "final boundary"},
		{"boundary text in a line",
			head + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx --b y\n--bb\n--b--\n",
			`text/plain "x --b y\n--bb"`, ""},
		{"trailing blanks", head + "Content-Type: multipart/mixed; boundary=\"b\"\n\n--b  \n\na\n--b-- \n",
			`text/plain "a"`, ""},
		{"unquoted parameter", head + "Content-Type: multipart/mixed; boundary=a=b/c; x\n\n--a=b/c\n\na\n--a=b/c--\n",
			`text/plain "a"`, ""},
		{"broken base64", head + "Content-Transfer-Encoding: base64\n\naGVs*bG8g\nd29ybGQ\n",
			`text/plain "hello world"`, "1 bytes outside"},
		{"joined base64", head + "Content-Transfer-Encoding: base64\n\naGk=\naGk=\n", `text/plain "hihi"`, ""},
		{"broken quoted-printable", head + "Content-Transfer-Encoding: Quoted-Printable\n\na=3Db =zz =\nc =4",
			`text/plain "a=b =zz c =4"`, ""},
		{"unknown encoding", head + "Content-Transfer-Encoding: x-odd\n\nabc", `text/plain "abc"`, ""},
		{"unknown charset", head + "Content-Type: text/plain; charset=DEFAULT_CHARSET\n\ncaf\xe9", `text/plain "café"`, ""},
		{"quoted charset", head + "Content-Type: text/plain; charset=\"'iso-8859-2'\"\n\n\xb1", `text/plain "ą"`, ""},
		{"wrong UTF-8", head + "Content-Type: text/plain; charset=utf-8\n\ncaf\xe9", `text/plain "café"`, ""},
		{"GB2312", head + "Content-Type: text/plain; charset=gb2312\n\n\xc4\xe3\xba\xc3", `text/plain "你好"`, ""},
		{"ISO-2022-JP", head + "Content-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B$3\x1b(B", `text/plain "こ"`, ""},
		{"UTF-16", head +
			"Content-Type: text/plain; charset=utf-16le\nContent-Transfer-Encoding: base64\n\naABpAA==\n",
			`text/plain "hi"`, ""},
		{"NUL bytes", head + "\na\x00b\x00", `text/plain "ab"`, ""},
		{"type without a slash", "Content-Type: text\n\na", `text/plain "a"`, ""},
		{"message", head + "Content-Type: message/rfc822\n\nSubject: y\nContent-Type: text/html\n\na",
			`text/html embedded "a"`, ""},
		{"encoded message",
			head + "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogeAoKYQ==\n",
			`text/plain embedded "a"`, ""},
		{"digest", head + "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: y\n\na\n--b--\n",
			`text/plain embedded "a"`, ""},
		{"attachment",
			head + "Content-Type: multipart/mixed; boundary=b\n\n--b\n" +
				"Content-Disposition: ATTACHMENT; filename=x.bin\nContent-Type: application/x\n\nabc\n--b--\n",
			"application/x attached 3 bytes", ""},
		{"leading empty lines", "\n\nSubject: x\n\na", `text/plain "a"`, ""},
		{"no header", "\n", `text/plain ""`, ""},
		{"binary", "\xff\xfe\x00\x01", `text/plain "ÿþ\x01"`, "no empty line"},
	} {
		m := read(t, tt.raw)
		if got := describe(m); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if damage := strings.Join(m.Damage, "; "); !strings.Contains(damage, tt.damage) ||
			(tt.damage == "") != (damage == "") {
			t.Errorf("%s: damage %q, want %q", tt.name, damage, tt.damage)
		}
	}
}

// TestBombs checks that messages made to cost a reader more than their sender are cut to the
// reader's limits.
func TestBombs(t *testing.T) {
	for name, raw := range mailtest.Bombs() {
		m := read(t, string(raw))
		if len(m.Parts) == 0 || len(m.Parts) > maxParts || len(m.Damage) > maxDamage {
			t.Errorf("%s: %d parts, %d damages", name, len(m.Parts), len(m.Damage))
		}
	}
}

// TestLiteral: what of a text is mended, and what is left as it is.
func TestLiteral(t *testing.T) {
	long := strings.Repeat("word ", 200)
	for _, test := range []struct{ header, body, text, literal string }{
		{"Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable", "a \nb=\nc =\nd\t\r\n",
			"a\nbc d\r\n", "a \nbc d\t\r\n"},
		{"Content-Type: text/plain; charset=iso-8859-1", "\x92\xe9", "\u2019é", "\u0092é"},
		{"Content-Type: text/plain; charset=windows-1252", "\x92\xe9", "\u2019é", "\u2019é"},
		{"Content-Type: text/plain; charset=windows-1252", "\x92\x81", "\u2019\ufffd", "\u2019\u0081"},
		{"Content-Type: text/plain", "\x92\x81", "\u2019\ufffd", "\u2019\u0081"},
		{"Content-Type: text/plain", "caf\xe9", "café", "café"}, {"Content-Type: text/plain", long + long + "\xe9" +
			long + long, long + long + "é" + long + long, long + long + "é" + long + long},
		{"Content-Type: text/plain", long + "\xe9" + long + long, long + "é" + long + long,
			long + "\xe9" + long + long}, {"Content-Type: text/plain; charset=us-ascii", long + "\xe9" + long + long,
			long + "é" + long + long, long + "?" + long + long},
		{"Content-Type: text/plain; charset=utf-8", long + "\xe9éé" + long + long, long + "\ufffdéé" + long + long,
			long + "?éé" + long + long},
		{"Content-Type: text/plain; charset=nonesuch", long + "\xe9" + long + long, long + "é" + long + long,
			long + "\xe9" + long + long},
		{"Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable", "a=0D=0A ", "a\r\n", "a\r\n "},
		// One of the three places that are looked at decides, or two of them.
		{"Content-Type: text/plain", "\xe9" + long + "\x92" + long + long, "é" + long + "\u2019" + long + long,
			"é" + long + "\u0092" + long + long},
		{"Content-Type: text/plain", "\x92" + long + "\xe9\x93" + long, "\u2019" + long + "é\u201c" + long,
			"\u2019" + long + "é\u201c" + long},
		{"Content-Type: text/plain", "\x92" + long + "\xe9" + long + "\xe9", "\u2019" + long + "é" + long + "é",
			"\u0092" + long + "é" + long + "é"},
		{"Content-Type: text/plain", "ar\xfeivi \xddzmir \xe7ok", "arþivi Ýzmir çok", "arşivi İzmir çok"},
		{"Content-Type: text/plain", "\xdea\xf0 og \xe1", "Það og á", "Það og á"},
	} {
		m := mailtest.Must(Read(t.Context(), []byte(test.header+"\n\n"+test.body)))
		part := &m.Parts[0]
		literal, known, err := part.Literal(t.Context())
		if part.Text != test.text || literal != test.literal || err != nil || !known && utf8.ValidString(literal) {
			t.Errorf("%s, %.20q: %.2000q, literally %.2000q, %v, %v", test.header, test.body, part.Text, literal, known, err)
		}
	}
	for raw, want := range map[string]string{
		"Subject: a \n\nb": "a ", "subject: a\t \r\nTo: b\n\n": "a\t ",
		"To: x \nSubject: a \n b\t\nCc: y \n\n": "a  b\t", "Subject: a\n\n": "a", "To: x\n\nSubject: b \n\n": "",
		"Subject: a\n \n\nb": "a", "Subject: caf\xe9s \xa3\xa35\n\n": "caf\ufffds \ufffd\ufffd5",
		"Subject: =?iso-8859-1?q?caf=E9?= \n\n": "café ",
	} {
		m := mailtest.Must(Read(t.Context(), []byte(raw)))
		if got := m.LiteralSubject(); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	for encoding, want := range map[string]bool{"base64": true, " BASE64 ; x": true, "8bit": false, "": false} {
		m := mailtest.Must(Read(t.Context(), []byte("Content-Transfer-Encoding: "+encoding+"\n\nYQ==\n")))
		if got := m.Parts[0].how == inBase64; got != want {
			t.Errorf("%q: base64 %v", encoding, got)
		}
	}
}
