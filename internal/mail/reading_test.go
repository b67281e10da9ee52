package mail

import (
	charsets "github.com/bulkhead-mail/bulkhead/internal/text/charset"

	"bytes"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	xencoding "golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestCharsetNames checks that text is read under each name that programs give its charset.
func TestCharsetNames(t *testing.T) {
	for _, c := range []struct {
		text  string
		in    xencoding.Encoding
		names []string
	}{
		{"日本語のテキスト", japanese.ShiftJIS, []string{"cp932", "CP-932", "ms932", "windows-31j", "Windows-932", "x-sjis",
			"sjis", "MS_Kanji", "shift-jis", "\"cp932\"", "csWindows31J", "x-ms-cp932"}},
		{"日本語のテキスト", japanese.EUCJP, []string{"euc-jp", "eucjp", "x-euc-jp", "ujis", "cp51932"}},
		{"日本語のテキスト", japanese.ISO2022JP, []string{"iso-2022-jp", "ISO-2022-JP-2", "csISO2022JP", "cp50221", "iso2022jp"}},
		{"한국어 본문", korean.EUCKR, []string{"euc-kr", "cp949", "ms949", "uhc", "ks_c_5601-1987", "windows-949", "ksc5601"}},
		{"中文文本", simplifiedchinese.GBK, []string{"gb2312", "gbk", "cp936", "ms936", "x-gbk", "euc-cn", "GB18030"}},
		{"中文文本", simplifiedchinese.HZGB2312, []string{"hz-gb-2312", "hz"}},
		{"中文文本", traditionalchinese.Big5, []string{"big5", "cp950", "big5-hkscs", "x-x-big5", "big5-eten", "ms950"}},
		{"שלום לכם", charmap.CodePage862, []string{"dos-862", "cp862", "ibm862", "IBM-862", "862", "csPC862LatinHebrew"}},
		{"Hello, world: 42", charmap.CodePage037, []string{"cp037", "ibm037", "ibm-037", "cp500", "ebcdic-cp-us"}},
		{"Grüße aus Köln", charmap.CodePage850, []string{"cp850", "dos-850", "ibm850", "oem850"}},
		{"Grüße aus Köln", charmap.Windows1252, []string{"windows-1252", "cp1252", "latin1", "iso8859-1", "l1", "8859-1",
			"windows1252", "win-1252", "ansi", "x-cp1252", "iso_8859-1:1987", "cp-1252"}},
		{"Grüße aus Köln", charmap.Macintosh, []string{"macintosh", "x-mac-roman", "mac-roman", "mac"}},
		{"Привет всем", charmap.Windows1251, []string{"windows-1251", "cp1251", "win1251", "x-cp1251", "ms-cyrl"}},
		{"Привет всем", charmap.KOI8R, []string{"koi8-r", "koi8", "koi8r", "cskoi8r", "cp20866"}},
		{"Привет всем", charmap.CodePage866, []string{"cp866", "ibm866", "dos-866", "866"}},
		{"Zażółć gęślą", charmap.ISO8859_2, []string{"iso-8859-2", "latin2", "latin-2", "iso8859_2", "l2", "cp28592"}},
		{"สวัสดี", charmap.Windows874, []string{"tis-620", "windows-874", "cp874", "iso-8859-11", "dos-874"}},
		{"Grüße aus Köln", xencoding.Nop, []string{"utf-8", "utf8", "cp65001", "utf8mb4", "unicode-1-1-utf-8", "UTF_8"}},
	} {
		data, err := c.in.NewEncoder().Bytes([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range c.names {
			if got := decodeText(data, name); got != c.text {
				t.Errorf("%s: %q, want %q", name, got, c.text)
			}
		}
	}
}

// TestWideText checks UTF-16 and UTF-32 with and without marks, and UTF-7.
func TestWideText(t *testing.T) {
	const text = "Grüße: a page of Ω words, 42 of them"
	wide := func(order binary.ByteOrder, mark bool) []byte {
		var b []byte
		units := utf16.Encode([]rune(text))
		if mark {
			units = append([]uint16{0xfeff}, units...)
		}
		for _, u := range units {
			b = append(b, 0, 0)
			order.PutUint16(b[len(b)-2:], u)
		}
		return b
	}
	little, big := wide(binary.LittleEndian, false), wide(binary.BigEndian, false)
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"utf-16", little}, {"utf-16", big}, {"utf-16", wide(binary.LittleEndian, true)},
		{"UTF16", wide(binary.BigEndian, true)}, {"utf-16le", little}, {"utf-16be", big}, {"unicode", little},
		{"ucs-2", little}, {"iso-10646-ucs-2", little}, {"utf-16le", wide(binary.LittleEndian, true)},
		{"utf-8", wide(binary.LittleEndian, true)}, {"", wide(binary.BigEndian, true)},
		{"iso-8859-1", []byte("\xef\xbb\xbf" + text)},
		{"utf-7", []byte("Gr+APwA3w-e: a page of +A6k- words, 42 of them")},
		{"unicode-1-1-utf-7", []byte("Gr+APwA3w-e: a page of +A6k words, 42 of them")},
	} {
		if got := strings.TrimPrefix(decodeText(c.data, c.name), "\ufeff"); got != text {
			t.Errorf("%s %.8x: %q", c.name, c.data, got)
		}
	}
	for written, want := range map[string]string{"1 +- 1": "1 + 1", "a+b": "a+b", "+": "+", "+AO": "+AO", "x+!": "x+!",
		"a\xa0": "a\ufffd"} {
		if got := decodeText([]byte(written), "utf-7"); got != want {
			t.Errorf("UTF-7 %q: %q, want %q", written, got, want)
		}
	}
}

// TestShifted checks the charsets of Korea and China that have seven bits, which browsers do not read.
func TestShifted(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"iso-2022-kr", "\x1b$)C\x0eGQ19>n\x0f text", "한국어 text"},
		{"ISO-2022-KR", "\x1b$)C\r\nonly ASCII", "\r\nonly ASCII"},
		{"csISO2022KR", "\x1b$)C\x0eGQ19\n>n", "한국\n>n"},
		{"iso-2022-cn", "\x1b$)A\x0eVPND\x0f text", "中文 text"},
		{"iso-2022-kr", "\x1b$)", "\x1b$)"},
	} {
		if got := decodeText([]byte(c.data), c.name); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestEncodedWords checks the forms of encoded words that mail programs read.
func TestEncodedWords(t *testing.T) {
	for field, want := range map[string]string{
		"=?UTF-8?B?U2FtcGxlIEJhbms===?=":                        "Sample Bank",
		"=?UTF-8?B?UGxlYXNlIHNjaGVkdWxlIGEgcmVkZWxpdmVyeS4==?=": "Please schedule a redelivery.",
		"=?UTF-8?B?U2FtcGxlIEJhbms?=":                           "Sample Bank",
		"=?iso-8859-1*de?Q?gr=F6sser?=":                         "grösser",
		"=?utf-8*en-GB?q?a_b?=":                                 "a b",
		"=?utf-8?Q?a b?= c":                                     "a b c",
		"=?utf-8?q?a?= =?utf-8?q?b?=":                           "ab",
		"=?utf-8?q?a?=\r\n =?utf-8?b?Yg?= c":                    "ab c",
		"=?utf-8?Q?=C3?= =?utf-8?Q?=BC?=":                       "ü",
		"=?cp932?B?k/qWew==?=":                                  "日本",
		"=?utf-16?B?YQBiAA==?=":                                 "ab",
		"=?utf-7?Q?Gr+APwA3w-e?=":                               "Grüße",
		"=?no-such?Q?a?=":                                       "=?no-such?Q?a?=",
		"=?utf-8?X?a?=":                                         "=?utf-8?X?a?=",
		"=?utf-8?Q?a":                                           "=?utf-8?Q?a",
		"a=?utf-8?Q?b?=c":                                       "abc",
		"=?":                                                    "=?", "=?=?utf-8?Q?a?=": "=?a", "": "",
	} {
		if got := decodeWords(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

// TestPartNames checks that a page is recognised by its name in each form that programs write.
func TestPartNames(t *testing.T) {
	const want = "Confirmação.html"
	latin, _ := charmap.ISO8859_1.NewEncoder().String(want)
	b64 := base64.StdEncoding.EncodeToString([]byte(want))
	for _, field := range []string{
		`attachment; filename="` + want + `"`,
		`attachment; filename=` + want,
		`attachment; filename="` + latin + `"`,
		`attachment; filename="=?UTF-8?B?` + b64 + `?="`,
		`attachment; filename==?UTF-8?B?` + b64 + `?=`,
		`attachment; filename="=?utf-8?Q?Confirma=C3=A7=C3=A3o.html?="`,
		`attachment; filename="=?iso-8859-1*pt?Q?Confirma=E7=E3o.html?="`,
		"attachment; filename=\"=?UTF-8?B?" + base64.StdEncoding.EncodeToString([]byte(want[:7])) + "?=\r\n =?UTF-8?B?" +
			base64.StdEncoding.EncodeToString([]byte(want[7:])) + "?=\"",
		"attachment;\r\n filename==?UTF-8?B?" + base64.StdEncoding.EncodeToString([]byte(want[:7])) + "?=\r\n =?UTF-8?B?" +
			base64.StdEncoding.EncodeToString([]byte(want[7:])) + "?=",
		`attachment; filename*=UTF-8''Confirma%C3%A7%C3%A3o.html`,
		`attachment; filename*=iso-8859-1'pt'Confirma%E7%E3o.html`,
		`attachment; filename*="utf-8''Confirma%C3%A7%C3%A3o.html"`,
		`attachment; filename="plain.txt"; filename*=utf-8''Confirma%C3%A7%C3%A3o.html`,
		`attachment; filename*0*=utf-8''Confirma%C3; filename*1*=%A7%C3%A3o; filename*2=".html"`,
		`attachment; filename*2=".html"; filename*1*=%A7%C3%A3o; filename*0*=utf-8''Confirma%C3`,
		`attachment; filename*0="=?utf-8?Q?Confirma=C3=A7=C3"; filename*1="=A3o.html?="`,
		`attachment; FILENAME = "` + want + `" ; size=12`,
		`attachment; size=12; filename="` + want + `"; filename="other.txt"`,
		`attachment; filename="` + want,
	} {
		for _, header := range []string{
			"Content-Type: application/octet-stream\r\nContent-Disposition: " + field,
			"Content-Type: application/octet-stream;" + strings.ReplaceAll(strings.ToLower(field[len("attachment;"):]),
				"filename", "name"),
		} {
			if !strings.HasPrefix(header, "Content-Type: application/octet-stream\r\n") && field != strings.ToLower(field) {
				continue // lower case changes the encoded text
			}
			m := mailtest.Must(Read(t.Context(), []byte("Subject: x\r\n"+header+"\r\n\r\n<p>text</p>")))
			if got := m.Parts[0].Name; got != want {
				t.Errorf("%s: %q", header, got)
			}
		}
	}
}

// uuencoded returns the lines of data, without what ends a line and is a space.
func uuencoded(data []byte, zero byte, trimmed bool) string {
	var b strings.Builder
	for piece := range slices.Chunk(data, 45) {
		char := func(v byte) byte {
			if v == 0 {
				return zero
			}
			return v + ' '
		}
		line := []byte{char(byte(len(piece)))}
		padded := append(bytes.Clone(piece), 0, 0)
		for i := 0; i < len(piece); i += 3 {
			a, b, c := padded[i], padded[i+1], padded[i+2]
			line = append(line, char(a>>2), char(a<<4&63|b>>4), char(b<<2&63|c>>6), char(c&63))
		}
		if trimmed {
			line = bytes.TrimRight(line, " ")
		}
		b.Write(append(line, '\r', '\n'))
	}
	return b.String()
}

// TestTransferEncodings checks transfer encodings that the standard does not define.
func TestTransferEncodings(t *testing.T) {
	data := []byte("<p>A page\x00 of some length, with two lines\n and zeros\x00\x00\x00.</p>")
	for _, zero := range []byte{' ', '`'} {
		for _, trimmed := range []bool{false, true} {
			for _, name := range []string{"x-uuencode", "uuencode", "x-uue", "X-UUE (a comment)"} {
				raw := "Subject: x\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: " + name +
					"\r\n\r\n\r\nbegin 644 a.html\r\n" + uuencoded(data, zero, trimmed) + "`\r\nend\r\n"
				m := mailtest.Must(Read(t.Context(), []byte(raw)))
				if got := m.Parts[0].Data; !bytes.Equal(got, data) {
					t.Errorf("%s, zero %q, trimmed %t: %q", name, zero, trimmed, got)
				}
			}
		}
	}
	m := mailtest.Must(Read(t.Context(), []byte("Subject: x\r\nContent-Transfer-Encoding: x-yenc\r\n\r\n=ybegin "+
		"line=128\r\n")))
	if !slices.ContainsFunc(m.Damage, func(d string) bool { return strings.Contains(d, "yEnc") }) {
		t.Errorf("yEnc is not noted: %q", m.Damage)
	}
}

// signedData returns a message that S/MIME has signed and contains, with the content in pieces of
// indefinite length if pieces.
func signedData(t *testing.T, content []byte, pieces bool) []byte {
	t.Helper()
	must := func(v any, params string) []byte {
		b, err := asn1.MarshalWithParams(v, params)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	wrap := func(tag byte, content []byte) []byte {
		b := must(asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSequence, IsCompound: true, Bytes: content}, "")
		if pieces {
			b = append(append([]byte{0, 0x80}, content...), 0, 0)
		}
		b[0] = tag
		return b
	}
	octets := must(content, "")
	if pieces {
		octets = []byte{0x24, 0x80}
		for piece := range slices.Chunk(content, 100) {
			octets = append(octets, must(piece, "")...)
		}
		octets = append(octets, 0, 0)
	}
	data := must(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}, "")
	signed := must(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}, "")
	inner := wrap(0x30, append(data, wrap(0xa0, octets)...))
	whole := slices.Concat(must(1, ""), []byte{0x31, 0}, inner, []byte{0x31, 0})
	return wrap(0x30, append(signed, wrap(0xa0, wrap(0x30, whole))...))
}

// TestContainers checks that messages within attachments are read, whatever their type.
func TestContainers(t *testing.T) {
	const message = "From: x@spam.example\r\nSubject: y\r\nMIME-Version: 1.0\r\nContent-Type: " +
		"text/html\r\n\r\n<p>inner words</p>"
	part := func(kind, name string, data []byte) []byte {
		return []byte("Subject: x\r\nContent-Type: " + kind + "; name=\"" + name +
			"\"\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
			base64.StdEncoding.EncodeToString(data))
	}
	for name, raw := range map[string][]byte{
		"by name":    part("application/octet-stream", "x.EML", []byte(message)),
		"by content": part("application/octet-stream", "", []byte(message)),
		"by mark":    part("application/octet-stream", "a.eml", []byte("\xef\xbb\xbf"+message)),
		"for Word":   part("application/msword", "a.doc", []byte(message[len("From: x@spam.example\r\nSubject: y\r\n"):])),
		"as text":    part("text/plain", "a.eml", []byte(message)),
		"rfc822":     part("message/rfc822", "", []byte(message)),
		"envelope":   part("application/octet-stream", "a.eml", []byte("From x@y Mon Nov  2 10:00:00 2026\r\n"+message)),
		"signed": part("application/pkcs7-mime; smime-type=signed-data", "smime.p7m", signedData(t,
			[]byte(message), false)),
		"signed, BER":   part("application/x-pkcs7-mime", "smime.p7m", signedData(t, []byte(message), true)),
		"signed, octet": part("application/octet-stream", "smime.p7m", signedData(t, []byte(message), false)),
		"digest": []byte("Subject: x\r\nContent-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\n" + message +
			"\r\n--b--\r\n"),
	} {
		m := mailtest.Must(Read(t.Context(), raw))
		if len(m.Parts) != 1 || !m.Parts[0].HTML || strings.TrimSpace(string(mailtest.Must(m.Visible(t.Context(), 0)))) !=
			"inner words" {
			t.Errorf("%s: %+v", name, m.Parts)
		}
	}
	for name, raw := range map[string][]byte{
		"no header": part("application/octet-stream", "x.eml", []byte("some words: and others\r\nmore")),
		"encrypted": part("application/pkcs7-mime", "smime.p7m",
			[]byte("\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03")),
		"two fields": part("application/octet-stream", "", []byte("a: b\r\nc: d\r\ne: f\r\n\r\n")),
	} {
		if m := mailtest.Must(Read(t.Context(), raw)); len(m.Parts) != 1 || m.Parts[0].Embedded {
			t.Errorf("%s: %+v", name, m.Parts)
		}
	}
	// A message in a message in a message: as deep as others, and no deeper.
	raw := []byte(message)
	for range 4 * maxDepth {
		raw = part("application/octet-stream", "x.eml", raw)
		raw = append([]byte("From: a@b.example\r\nTo: c@d.example\r\n"), raw...)
		if len(raw) > 1<<20 {
			break
		}
	}
	if m := mailtest.Must(Read(t.Context(), raw)); len(m.Parts) != 1 {
		t.Errorf("%d parts", len(m.Parts))
	}
}

// TestCalendarFiles checks that the links of a calendar entry are found whatever its type.
func TestCalendarFiles(t *testing.T) {
	const entry = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Meeting\r\nDESCRIPTION:join at " +
		"https://a.example/p\r\nEND:VEVENT\r\n"
	for _, kind := range []string{"text/calendar", "text/x-vcalendar", "application/ics; name=invite.ics",
		"application/octet-stream; name=a.ics",
		"application/octet-stream", "application/calendar; name=x.vcs"} {
		raw := fmt.Sprintf("Subject: x\r\nContent-Type: %s\r\n\r\n%s", kind, entry)
		m := mailtest.Must(Read(t.Context(), []byte(raw)))
		all := mailtest.Must(m.WithInside(t.Context()))
		found := false
		for _, m := range all {
			for i := range m.Parts {
				text := mailtest.Must(m.Visible(t.Context(), i))
				found = found || m.Parts[i].IsText() && strings.Contains(string(text), "https://a.example/p") &&
					!strings.Contains(string(text), "VEVENT")
			}
		}
		if !found {
			t.Errorf("%s: the entry is not read", kind)
		}
	}
}

// FuzzContainers checks that nothing within an attachment makes the reader fail.
func FuzzContainers(f *testing.F) {
	f.Add([]byte("\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02\xa0\x80\x30" +
		"\x80\x02\x01\x01\x31\x00\x30\x80\x06\x01\x01\xa0\x80\x24\x80\x04\x02a:"))
	f.Add([]byte("begin 644 x\n#86)C\n`\nend"))
	f.Add([]byte("+AOQ-+"))
	f.Fuzz(func(t *testing.T, data []byte) {
		unsigned(data, nil)
		decodeUUE(data, nil)
		if text, _ := charsets.Unshifted(data, "iso-2022-kr"); len(text) > len(data) {
			t.Fatalf("%q becomes %d bytes", data, len(text))
		}
		if text := charsets.FromUTF7(data, 1<<20, func(int) bool { return false }); len(text) > 3*len(data)+4 {
			t.Fatalf("%q becomes %d bytes", data, len(text))
		}
		decodeWords(string(data))
		parameter(string(data), "filename")
		charsets.Sniffed(data, "utf-16")
	})
}

// TestFirstLines checks that a message reads the same behind what programs write before it.
func TestFirstLines(t *testing.T) {
	const message = "From: a@b.example\nSubject: x\n\nthe text\n"
	for _, raw := range []string{"\xef\xbb\xbf" + message, "\r\n\r\n" + message, "\n\xef\xbb\xbf" + message,
		">From a@b.example Mon Nov  2 10:00:00 2026\n" + message, "\n\nFrom - Mon Nov  2 10:00:00 2026\n" + message,
		fmt.Sprintf("%d\n%s<?xml version=\"1.0\"?><plist/>", len(message), message), fmt.Sprintf("%d   \n%s",
			2*len(message), message),
	} {
		m := mailtest.Must(Read(t.Context(), []byte(raw)))
		if m.From != "a@b.example" || m.Subject != "x" || m.Parts[0].Text != "the text\n" || m.Damage != nil {
			t.Errorf("%q: from %q, subject %q, text %q, %q", raw, m.From, m.Subject, m.Parts[0].Text, m.Damage)
		}
	}
}

// TestAddressComments checks that comments and blanks within addresses are no part of them.
func TestAddressComments(t *testing.T) {
	for field, want := range map[string]string{
		"(comment) a@b.example": "a@b.example", "a(c)@b.example": "a@b.example", "a@(c)b.example": "a@b.example",
		"a @ b.example": "a@b.example", "a@b.example (comment (nested) x)": "a@b.example",
		"Ann (the \"boss\") <a@b.example>": "a@b.example", "\"x (y)\" <a@b.example> (c@d.example)": "a@b.example",
		"Ann <a@b.example> (via (the) List)": "a@b.example", "Ann (c) <(d)a@b.example(e)>": "a@b.example",
		"a@b.example (\\) c@d.example)": "a@b.example", "Ann Lee <a@b.example>": "a@b.example",
	} {
		m := mailtest.Must(Read(t.Context(), []byte("From: "+field+"\nSubject: x\n\nx\n")))
		if m.From != want || m.author != want {
			t.Errorf("%s: from %q, author %q, want %q", field, m.From, m.author, want)
		}
	}
	m := mailtest.Must(Read(t.Context(), []byte("From: a@b.example, (c) d@e.example\nSubject: x\n\nx\n")))
	if m.From != "a@b.example" || m.author != "" {
		t.Errorf("two addresses: from %q, author %q", m.From, m.author)
	}
}

// TestOddForms reads forms of a text that mail programs read although few programs write them.
func TestOddForms(t *testing.T) {
	const want = "Grüße aus Köln: a page of words"
	for _, raw := range []string{
		"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: (as text) base64 (RFC 2045)\n\n" +
			base64.StdEncoding.EncodeToString([]byte(want)),
		"Content-Type: multipart/mixed; boundary=b\n\n--b\rContent-Type: text/plain; charset=utf-8\r\r" + want + "\r--b--\r",
		"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n" +
			strings.Replace(strings.ReplaceAll(want, "ü", "=C3=BC"), "page", "=\rpa=\rge", 1),
	} {
		m, err := Read(t.Context(), []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(m.Parts[0].Text); len(m.Parts) != 1 || got != want {
			t.Errorf("%q: %q", raw, got)
		}
	}
}
