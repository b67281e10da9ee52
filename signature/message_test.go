package signature

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func read(t testing.TB, raw string) *Message {
	t.Helper()
	m, err := ReadMessage(t.Context(), []byte(raw))
	if err != nil {
		t.Fatalf("ReadMessage(%.60q): %v", raw, err)
	}
	return m
}

func TestReadMessageFields(t *testing.T) {
	m := read(t, "From bounce@example.com Mon Jan  1 00:00:00 2024\r\n"+
		"Return-Path: <list-bounce@example.net>\r\n"+
		"From: =?utf-8?q?Ann_M=C3=BCller?= <Ann@Example.com>\r\n"+
		"Sender: list@example.net\r\n"+
		"To: \"Bob, the builder\" <bob@example.org>,\r\n\t carol@example.org\r\n"+
		"List-Id: All widgets\r\n <widgets.example.net>\r\n"+
		"Message-ID: <1@example.com>\r\n"+
		"Subject: =?iso-8859-1?Q?Gr=FC=DFe?= an\r\n alle\r\n\r\nhello\r\n")
	got := []string{m.Envelope, m.ReturnPath, m.From, m.Sender, m.ListID, m.MessageID, m.Subject, m.SenderAddress(), m.Parts[0].Text}
	want := []string{"bounce@example.com", "list-bounce@example.net", "Ann@Example.com", "list@example.net", "widgets.example.net",
		"1@example.com", "Grüße an alle", "list-bounce@example.net", "hello\r\n"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if m.Damage != nil {
		t.Errorf("damage %q, want none", m.Damage)
	}
	if s := m.Source(); s.ClaimedSender != "list-bounce@example.net" || s.ClaimedListID != "widgets.example.net" || s.Sender+s.ListID != "" {
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
		if got := firstAddress(field); got != want && want != "" || strings.ContainsAny(got, "<> ") {
			t.Errorf("firstAddress(%q) = %q, want %q", field, got, want)
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
		if p.embedded {
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

// TestReadMessageDamaged lists what breaks other readers.
func TestReadMessageDamaged(t *testing.T) {
	head := "MIME-Version: 1.0\n"
	for _, tt := range []struct{ name, raw, want, damage string }{
		{"bad header line", "X-Scanner No - fine\nContent-Type: text/html\n\n<p>a", `text/html "<p>a"`, "no field"},
		{"no empty line", "Subject: x\nhello there\nbye\n", `text/plain "hello there\nbye\n"`, "no empty line"},
		{"lone CRs", "Subject: x\rContent-Type: text/html\r\rhello\r", `text/html "hello\n"`, "carriage returns"},
		{"empty boundary", head + "Content-Type: multipart/mixed; boundary=\"\"\n\n--\nContent-Type: text/html\n\na\n", `text/plain "--\nContent-Type: text/html\n\na\n"`, "without its boundary"},
		{"no boundary", head + "Content-Type: multipart/mixed\n\n--zz\nContent-Type: text/html\n\na\n--zz--\n", `text/html "a"`, `found "zz"`},
		{"wrong boundary", head + "Content-Type: multipart/mixed; boundary=yy\n\n--zz\nContent-Type: text/html\n\na\n--zz--\n", `text/html "a"`, `found "zz"`},
		{"no final boundary", head + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\na\n--b\n\nc\n", `text/plain "a"; text/plain "c\n"`, "final boundary"},
		{"boundary text in a line", head + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx --b y\n--bb\n--b--\n", `text/plain "x --b y\n--bb"`, ""},
		{"trailing blanks", head + "Content-Type: multipart/mixed; boundary=\"b\"\n\n--b  \n\na\n--b-- \n", `text/plain "a"`, ""},
		{"unquoted parameter", head + "Content-Type: multipart/mixed; boundary=a=b/c; x\n\n--a=b/c\n\na\n--a=b/c--\n", `text/plain "a"`, ""},
		{"broken base64", head + "Content-Transfer-Encoding: base64\n\naGVs*bG8g\nd29ybGQ\n", `text/plain "hello world"`, "1 bytes outside"},
		{"joined base64", head + "Content-Transfer-Encoding: base64\n\naGk=\naGk=\n", `text/plain "hihi"`, ""},
		{"broken quoted-printable", head + "Content-Transfer-Encoding: Quoted-Printable\n\na=3Db =zz =\nc =4", `text/plain "a=b =zz c =4"`, ""},
		{"unknown encoding", head + "Content-Transfer-Encoding: x-odd\n\nabc", `text/plain "abc"`, ""},
		{"unknown charset", head + "Content-Type: text/plain; charset=DEFAULT_CHARSET\n\ncaf\xe9", `text/plain "café"`, ""},
		{"quoted charset", head + "Content-Type: text/plain; charset=\"'iso-8859-2'\"\n\n\xb1", `text/plain "ą"`, ""},
		{"wrong UTF-8", head + "Content-Type: text/plain; charset=utf-8\n\ncaf\xe9", `text/plain "café"`, ""},
		{"GB2312", head + "Content-Type: text/plain; charset=gb2312\n\n\xc4\xe3\xba\xc3", `text/plain "你好"`, ""},
		{"ISO-2022-JP", head + "Content-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B$3\x1b(B", `text/plain "こ"`, ""},
		{"UTF-16", head + "Content-Type: text/plain; charset=utf-16le\nContent-Transfer-Encoding: base64\n\naABpAA==\n", `text/plain "hi"`, ""},
		{"NUL bytes", head + "\na\x00b\x00", `text/plain "ab"`, ""},
		{"type without a slash", "Content-Type: text\n\na", `text/plain "a"`, ""},
		{"message", head + "Content-Type: message/rfc822\n\nSubject: y\nContent-Type: text/html\n\na", `text/html embedded "a"`, ""},
		{"encoded message", head + "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogeAoKYQ==\n", `text/plain embedded "a"`, ""},
		{"digest", head + "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: y\n\na\n--b--\n", `text/plain embedded "a"`, ""},
		{"attachment", head + "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Disposition: ATTACHMENT; filename=x.bin\nContent-Type: application/x\n\nabc\n--b--\n", "application/x attached 3 bytes", ""},
		{"leading empty lines", "\n\nSubject: x\n\na", `text/plain "a"`, ""},
		{"no header", "\n", `text/plain ""`, ""},
		{"binary", "\xff\xfe\x00\x01", `text/plain "ÿþ\x01"`, "no empty line"},
	} {
		m := read(t, tt.raw)
		if got := describe(m); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if damage := strings.Join(m.Damage, "; "); !strings.Contains(damage, tt.damage) || (tt.damage == "") != (damage == "") {
			t.Errorf("%s: damage %q, want %q", tt.name, damage, tt.damage)
		}
	}
}

// bombs are messages made to cost a reader more than they cost their sender.
func bombs() map[string][]byte {
	nested := func(depth int) []byte {
		var b strings.Builder
		for i := range depth {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
		}
		return []byte(b.String() + "\nbottom\n")
	}
	const size = 1 << 20
	return map[string][]byte{
		"nested multiparts": nested(20_000),
		"same boundary":     []byte(strings.Repeat("Content-Type: multipart/mixed; boundary=b\n\n--b\n", size/46)),
		"nested messages":   []byte(strings.Repeat("Content-Type: message/rfc822\n\n", size/30)),
		"many parts":        []byte("Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\n", size/5)),
		"long header":       []byte("Subject: " + strings.Repeat("x", size) + "\n\nhi"),
		"many fields":       []byte(strings.Repeat("To: a@example.com\n", size/18) + "\nhi"),
		"many folds":        []byte("To: a\n" + strings.Repeat(" b\n", size/3) + "\nhi"),
		"no field at all":   []byte("A: b\n" + strings.Repeat("x\n y\n y\n y\nA: b\n", size/16)),
		"no line end":       bytes.Repeat([]byte("a"), size),
		"carriage returns":  bytes.Repeat([]byte("\r"), size),
		"boundary lines":    []byte("Content-Type: multipart/mixed\n\n" + strings.Repeat("--\n", size/3)),
		"encoded words":     []byte("Subject: " + strings.Repeat("=?utf-8?q?a?= ", size/14) + "\n\nhi"),
		"parameters":        []byte("Content-Type: text/plain" + strings.Repeat("; a=\"", size/5) + "\n\nhi"),
		"addresses":         []byte("From: " + strings.Repeat("(", size) + "\n\nhi"),
		"links":             []byte("A: b\n\n" + strings.Repeat("a://b<", size/6)),
		"one chunk of ats":  []byte("A: b\n\n" + strings.Repeat("a@b.", size/4)),
		"quotes":            []byte("A: b\n\n" + strings.Repeat("From:\nDate:\n", size/12)),
		"attributions":      []byte("A: b\n\n" + strings.Repeat("a:\n", size/3)),
		"greetings":         []byte("A: b\n\n" + strings.Repeat("dear ", size/5)),
		"open tags":         []byte("Content-Type: text/html\n\n" + strings.Repeat("<div style='display:none'><b>", size/29)),
		"attributes":        []byte("Content-Type: text/html\n\n<p" + strings.Repeat(" a=b", size/4)),
		"entities":          []byte("Content-Type: text/html\n\n" + strings.Repeat("&nbsp;&lt", size/9)),
		"blockquotes":       []byte("Content-Type: text/html\n\n" + strings.Repeat("<blockquote>a", size/13)),
		"combining marks":   []byte("A: b\n\na" + strings.Repeat("\u0301\u0323", size/4)),
		"decomposing":       []byte("Content-Type: text/plain; charset=utf-8\n\n" + strings.Repeat("\ufdfa", size/3)),
		"alternatives":      []byte("Content-Type: multipart/alternative; boundary=b\n\n" + strings.Repeat("--b\nContent-Type: text/html\n\n"+strings.Repeat("<p>a b c d</p>", 300), 250)),
	}
}

// TestBombs checks that hostile messages are cut to the reader's limits. All of
// them take time linear in their size: BenchmarkBombs shows it.
func TestBombs(t *testing.T) {
	for name, raw := range bombs() {
		compute(t, raw)
		m := read(t, string(raw))
		if len(m.Parts) == 0 || len(m.Parts) > maxParts || len(m.Damage) > maxDamage {
			t.Errorf("%s: %d parts, %d damages", name, len(m.Parts), len(m.Damage))
		}
		if s := m.skeleton(); s.words.len() > maxWords || s.quoted.len() > maxWords {
			t.Errorf("%s: %d words, %d quoted", name, s.words.len(), s.quoted.len())
		}
	}
}

func BenchmarkBombs(b *testing.B) {
	for name, raw := range bombs() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				compute(b, raw)
			}
		})
	}
}
