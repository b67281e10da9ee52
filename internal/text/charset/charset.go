// Package charset finds the charset that a message means by a name, and decodes what golang.org/x/text does
// not. Its functions may be called concurrently.
package charset

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Name returns the form of a charset's name that the tables here have: in lower case, without
// quotation marks, blanks and the language of RFC 2231.
func Name(name string) string {
	name, _, _ = strings.Cut(strings.Trim(name, " \t\"'"), "*")
	return strings.ToLower(name)
}

// aliases are names that senders use and that neither the WHATWG nor IANA lists, in the form of
// plainAlias, and the label of the charset that is meant.
//
// Sources: the encodings of Python and Perl, the code pages of Windows, the charsets of Java.
var aliases = map[string]string{
	"gb2312": "gb18030", "gbk": "gb18030", "xgbk": "gb18030", "cngb": "gb18030", "gb231280": "gb18030",
	"euccn": "gb18030", "eucgb2312cn": "gb18030", "936": "gb18030", "ms936": "gb18030", "gb180302000": "gb18030",
	"ksc56011987": "euc-kr", "ksc5601": "euc-kr", "euckr": "euc-kr", "949": "euc-kr", "ms949": "euc-kr",
	"uhc": "euc-kr", "51949": "euc-kr", "johab": "euc-kr",
	"932": "shift_jis", "ms932": "shift_jis", "mskanji": "shift_jis", "943": "shift_jis", "943c": "shift_jis",
	"sjis": "shift_jis", "xmscp932": "shift_jis", "windows932": "shift_jis", "31j": "shift_jis",
	"shiftjisx0213": "shift_jis",
	"shiftjis2004":  "shift_jis", "eucjp": "euc-jp", "ujis": "euc-jp", "51932": "euc-jp", "eucjpms": "euc-jp",
	"eucjis2004": "euc-jp", "iso2022jp1": "iso-2022-jp", "iso2022jp2": "iso-2022-jp", "iso2022jp3": "iso-2022-jp",
	"iso2022jpext": "iso-2022-jp", "50220": "iso-2022-jp", "50221": "iso-2022-jp", "50222": "iso-2022-jp",
	"950": "big5", "ms950": "big5", "big5eten": "big5", "big5hkscs": "big5", "eucthw": "big5", "1950": "big5",
	"hz": "hz-gb-2312", "hzgb": "hz-gb-2312",
	"65001": "utf-8", "utf8mb4": "utf-8", "utf8n": "utf-8", "unicode11utf8": "utf-8", "utf8strict": "utf-8",
	"874": "windows-874", "tis620": "windows-874", "iso885911": "windows-874", "thai": "windows-874",
	"koi8": "koi8-r", "koi8ru": "koi8-u", "20866": "koi8-r", "21866": "koi8-u",
	"10000": "macintosh", "macroman": "macintosh", "mac": "macintosh", "10007": "x-mac-cyrillic",
	"maccyrillic": "x-mac-cyrillic", "macukraine": "x-mac-cyrillic",
	"28591": "windows-1252", "28592": "iso-8859-2", "28595": "iso-8859-5", "28597": "iso-8859-7",
	"28598": "iso-8859-8", "28599": "windows-1254", "28605": "iso-8859-15", "20127": "windows-1252",
	"msansi": "windows-1252", "ansi": "windows-1252", "msee": "windows-1250", "mscyrl": "windows-1251",
	"msgreek": "windows-1253", "msturk": "windows-1254", "mshebr": "windows-1255", "msarab": "windows-1256",
	"winbaltrim": "windows-1257", "646": "windows-1252", "usascii": "windows-1252", "iso646us": "windows-1252",
}

// codePages are the charsets that IBM and Microsoft number, by these numbers.
var codePages = map[string]encoding.Encoding{
	"37": charmap.CodePage037, "1140": charmap.CodePage1140, "1047": charmap.CodePage1047, "500": charmap.CodePage037,
	"437": charmap.CodePage437, "850": charmap.CodePage850, "852": charmap.CodePage852, "855": charmap.CodePage855,
	"858": charmap.CodePage858, "860": charmap.CodePage860, "862": charmap.CodePage862, "863": charmap.CodePage863,
	"865": charmap.CodePage865, "866": charmap.CodePage866, "1250": charmap.Windows1250, "1251": charmap.Windows1251,
	"1252": charmap.Windows1252, "1253": charmap.Windows1253, "1254": charmap.Windows1254, "1255": charmap.Windows1255,
	"1256": charmap.Windows1256, "1257": charmap.Windows1257, "1258": charmap.Windows1258,
}

// plainAlias returns a name without what only separates its letters and digits.
func plainAlias(name string) string { return separators.Replace(name) }

var separators = strings.NewReplacer("-", "", "_", "", " ", "", ".", "", ":", "", "/", "")

// Named returns the encoding of a charset, nil for an unknown one. Names are read as mail
// programs read them: by the labels of the WHATWG, by the names of IANA, and by common aliases.
// Without a byte order mark, UTF-16 is big-endian, as in ICU; [Sniffed] knows better.
func Named(name string) encoding.Encoding {
	name = Name(name)
	plain := plainAlias(name)
	if e := unicodeNamed(plain); e != nil {
		return e
	}
	number := plain
	for _, prefix := range [...]string{"windows", "ibm", "cp", "dos", "oem", "win", "cswindows", "csibm", "ccsid", "x"} {
		if rest, ok := strings.CutPrefix(plain, prefix); ok && rest != "" {
			number = rest
			break
		}
	}
	if label, ok := aliases[number]; ok {
		name = label
	} else if label, ok := aliases[plain]; ok {
		name = label
	} else if e := codePages[strings.TrimLeft(number, "0")]; e != nil {
		return e
	}
	for _, known := range []func(string) (encoding.Encoding, error){
		ianaindex.MIME.Encoding, func(n string) (encoding.Encoding, error) { return ianaindex.MIME.Encoding("cs" + n) },
		htmlindex.Get,
	} {
		if e, err := known(name); err == nil && e != nil && e != encoding.Replacement {
			return e
		}
	}
	for _, family := range [...][2]string{{"iso8859", "iso-8859-"}, {"8859", "iso-8859-"}, {"latin", "latin"}} {
		if rest, ok := strings.CutPrefix(plain, family[0]); ok {
			if e, err := htmlindex.Get(family[1] + rest); err == nil {
				return e
			}
		}
	}
	return nil
}

// unicodeNamed returns the encoding of Unicode with a plain name, nil for another.
func unicodeNamed(plain string) encoding.Encoding {
	switch plain {
	case "utf16", "ucs2", "iso10646ucs2", "unicode", "csunicode", "utf16be", "unicodefffe", "unicodebig", "1201",
		"cp1201", "ucs2be":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case "utf16le", "unicodefeff", "1200", "cp1200", "ucs2le", "unicodelittle":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case "utf32", "ucs4", "iso10646ucs4", "utf32be", "12001", "cp12001":
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM)
	case "utf32le", "12000", "cp12000":
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)
	}
	return nil
}

// IsUTF7 reports whether a name stands for UTF-7.
func IsUTF7(name string) bool {
	switch plainAlias(name) {
	case "utf7", "unicode11utf7", "unicode20utf7", "csutf7", "csunicode11utf7", "xunicode20utf7", "cp65000", "65000":
		return true
	}
	return false
}

// Stateful reports whether bytes below 0x80 are not ASCII in the charset.
func Stateful(name string) bool {
	switch name {
	case "", "utf-8", "us-ascii", "iso-8859-1", "windows-1252":
		return false // as nearly always
	}
	for _, prefix := range [...]string{"iso-2022", "csiso2022", "hz", "utf-16", "utf16", "ucs", "utf-32", "utf32",
		"utf-7", "utf7", "unicode", "csunicode", "iso-10646", "utf_16", "utf_32", "utf_7", "csutf7", "iso2022",
		"iso_2022", "cp12", "cp502", "cp65000", "x-unicode"} {
		if strings.HasPrefix(name, prefix) {
			return !strings.HasPrefix(name, "cp125") && !strings.Contains(name, "utf-8") && !strings.Contains(name, "utf8")
		}
	}
	switch encodingOfPage(name) {
	case charmap.CodePage037, charmap.CodePage1047, charmap.CodePage1140:
		return true
	}
	return false
}

// encodingOfPage returns the encoding of an EBCDIC code page, nil for another charset. It costs
// little for the names that are frequent.
func encodingOfPage(name string) encoding.Encoding {
	if !strings.HasPrefix(name, "cp") && !strings.HasPrefix(name, "ibm") && !strings.HasPrefix(name, "ebcdic") {
		return nil
	}
	return Named(name)
}

// Sniffed returns the charset of data that is named, as a browser determines it. A byte order mark
// outweighs the name. UTF-16 without a mark is little-endian, unless the positions of zero bytes prove
// the contrary.
//
// Source: WHATWG Encoding, BOM sniff and the labels of UTF-16LE.
func Sniffed(data []byte, name string) string {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) && utf8.Valid(data):
		return "utf-8"
	case bytes.HasPrefix(data, []byte("\xff\xfe")) && wideASCII(data):
		return "utf-16le"
	case bytes.HasPrefix(data, []byte("\xfe\xff")) && wideASCII(data):
		return "utf-16be"
	}
	if !Stateful(name) {
		return name
	}
	switch plainAlias(name) {
	case "utf16", "ucs2", "iso10646ucs2", "unicode", "csunicode":
	default:
		return name
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return name
	}
	const enough = 1024 // bytes
	zeros := [2]int{}   // at even and at odd positions
	for i, c := range data[:min(len(data), enough)] {
		if c == 0 {
			zeros[i%2]++
		}
	}
	if zeros[0] > zeros[1] {
		return "utf-16be"
	}
	return "utf-16le"
}

// wideASCII reports whether data may be UTF-16 with some ASCII in it, whatever it is called.
func wideASCII(data []byte) bool {
	const shortest, sample = 16, 1024 // bytes
	head := data[:min(len(data), sample)]
	return len(data) >= shortest && len(data)%2 == 0 && 8*bytes.Count(head, []byte{0}) >= len(head)
}

// Unshifted returns text in ISO-2022-KR or ISO-2022-CN in a charset that golang.org/x/text decodes, and the name of
// that; other text as it is. Browsers do not read these two, but mail programs do.
//
// Sources: RFC 1557; RFC 1922, without the characters of CNS 11643.
func Unshifted(data []byte, name string) (text []byte, as string) {
	const shiftOut, shiftIn, escape = 0x0e, 0x0f, 0x1b
	switch plainAlias(Name(name)) {
	case "iso2022kr", "csiso2022kr", "50225":
		as = "euc-kr"
	case "iso2022cn", "csiso2022cn", "iso2022cnext", "50227":
		as = "gb18030"
	default:
		return data, name
	}
	text = make([]byte, 0, len(data))
	high := byte(0)
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == shiftOut:
			high = 0x80
		case c == shiftIn:
			high = 0
		case c == '\n':
			high = 0
			text = append(text, c)
		case c == escape && i+3 < len(data) && data[i+1] == '$':
			i += 3 // which charset is shifted to
		case c <= ' ':
			text = append(text, c)
		default:
			text = append(text, c|high)
		}
	}
	return text, as
}

// FromUTF7 decodes UTF-7, cut to limit bytes or slightly less. A "+" that begins nothing valid stays. It
// ends early if over, which it calls with numbers of bytes, returns true.
//
// Source: RFC 2152.
func FromUTF7(data []byte, limit int, over func(n int) bool) []byte {
	out := make([]byte, 0, min(len(data), limit))
	for len(data) > 0 && len(out) < limit-utf8.UTFMax && !over(1) {
		i := bytes.IndexByte(data, '+')
		if i < 0 {
			i = len(data)
		}
		i = min(i, limit-len(out))
		out = append(out, data[:i]...)
		if data = data[i:]; len(data) == 0 || data[0] != '+' {
			continue
		}
		n := 1
		for n < len(data) && isBase64(data[n]) {
			n++
		}
		run := data[1:n]
		if over(n) {
			break
		}
		text, ok := shifted(run)
		switch ends := n < len(data) && data[n] == '-'; {
		case len(run) == 0 && ends: // "+-" is a plus
			out = append(out, '+')
			n++
		case !ok:
			out = append(out, cut(data[:n], limit-len(out))...)
		default:
			out = append(out, cut(text, limit-len(out))...)
			if ends {
				n++
			}
		}
		data = data[n:]
	}
	return out
}

func isBase64(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/'
}

// shifted decodes a run of modified base64 as UTF-16. It reports false if there are no whole units.
func shifted(run []byte) (text []byte, ok bool) {
	raw := make([]byte, base64.RawStdEncoding.DecodedLen(len(run)))
	n, err := base64.RawStdEncoding.Decode(raw, run)
	if err != nil || n < 2 {
		return nil, false
	}
	units := make([]uint16, n/2)
	for i := range units {
		units[i] = uint16(raw[2*i])<<8 | uint16(raw[2*i+1])
	}
	return []byte(string(utf16.Decode(units))), true
}

// Legible reports whether a charset of that name can be decoded.
func Legible(name string) bool {
	return IsUTF7(Name(name)) || Named(name) != nil
}

// cut cuts text to at most n bytes, not within a character.
func cut(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
