package signature

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/emersion/go-message/charset"
	"golang.org/x/text/encoding/charmap"
)

// decodeTransfer undoes a Content-Transfer-Encoding. Damaged encodings give
// what can be had; an unknown one gives the body as it is.
func (m *Message) decodeTransfer(encoding string, body []byte) []byte {
	encoding, _, _ = strings.Cut(encoding, ";")
	switch strings.Trim(encoding, " \t\"'") {
	case "base64":
		data := make([]byte, base64.StdEncoding.DecodedLen(len(body)))
		if n, err := base64.StdEncoding.Decode(data, body); err == nil {
			return data[:n]
		}
		data, bad := decodeBase64(data[:0], body)
		if bad > 0 {
			m.damage("base64 with %d bytes outside of its alphabet", bad)
		}
		return data
	case "quoted-printable":
		return decodeQuotedPrintable(body)
	}
	return body
}

const (
	base64Skip = 0xFF // white space
	base64Bad  = 0xFE
	base64Pad  = 0xFD
)

// base64Value maps a byte to its six bits or one of the constants above.
var base64Value = func() (table [256]byte) {
	for i := range table {
		table[i] = base64Bad
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = byte(i)
	}
	table['='] = base64Pad
	for _, c := range []byte(" \t\r\n") {
		table[c] = base64Skip
	}
	return table
}()

// decodeBase64 appends to dst what can be decoded of body: foreign bytes are
// skipped and counted, padding ends a run and another may follow, an unfinished
// last group gives its whole bytes.
func decodeBase64(dst, body []byte) (data []byte, bad int) {
	var bits uint32
	n := 0
	flush := func() {
		switch n {
		case 2:
			dst = append(dst, byte(bits>>4))
		case 3:
			dst = append(dst, byte(bits>>10), byte(bits>>2))
		}
		bits, n = 0, 0
	}
	for _, c := range body {
		switch v := base64Value[c]; v {
		case base64Skip:
		case base64Pad:
			flush()
		case base64Bad:
			bad++
		default:
			bits = bits<<6 | uint32(v)
			if n++; n == 4 {
				dst = append(dst, byte(bits>>16), byte(bits>>8), byte(bits))
				bits, n = 0, 0
			}
		}
	}
	flush()
	return dst, bad
}

// decodeQuotedPrintable decodes body. White space at line ends goes, as RFC 2045
// section 6.7 (3) asks; an equals sign that begins no escape stays as it is.
func decodeQuotedPrintable(body []byte) []byte {
	dst := make([]byte, 0, len(body))
	for len(body) > 0 {
		line, end := body, []byte(nil)
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, end, body = body[:i], body[i:i+1], body[i+1:]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line, end = line[:n-1], []byte("\r\n")
			}
		} else {
			body = nil
		}
		line = bytes.TrimRight(line, " \t")
		if n := len(line); n > 0 && line[n-1] == '=' {
			line, end = line[:n-1], nil
		}
		for {
			i := bytes.IndexByte(line, '=')
			if i < 0 {
				break
			}
			dst = append(dst, line[:i]...)
			line = line[i:]
			if len(line) >= 3 && unhex(line[1]) < 16 && unhex(line[2]) < 16 {
				dst = append(dst, unhex(line[1])<<4|unhex(line[2]))
				line = line[3:]
			} else {
				dst = append(dst, '=')
				line = line[1:]
			}
		}
		dst = append(append(dst, line...), end...)
	}
	return dst
}

// unhex returns the value of a hexadecimal digit, 16 or more for another byte.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// decodeText returns data, which is in the named charset, as UTF-8 without NUL
// bytes. Where the name is missing, unknown or plainly wrong, bytes that are
// valid UTF-8 are taken for it and all others for windows-1252.
func decodeText(data []byte, name string) string {
	name = strings.ToLower(strings.Trim(name, " \t\"'"))
	if stateful(name) {
		return convert(data, name)
	}
	if bytes.IndexByte(data, 0) >= 0 && !strings.HasPrefix(name, "utf-16") && !strings.HasPrefix(name, "utf-32") {
		data = bytes.ReplaceAll(data, []byte{0}, nil)
	}
	switch name {
	case "", "us-ascii", "ascii", "utf-8", "utf8", "unknown-8bit", "x-unknown":
		if utf8.Valid(data) {
			return string(data)
		}
		if strings.HasPrefix(name, "utf") && mostlyUTF8(data) {
			return strings.ToValidUTF8(string(data), "\uFFFD")
		}
		return windows1252(data)
	case "iso-8859-1", "latin1", "windows-1252", "cp1252":
		return windows1252(data)
	}
	if isASCII(data) {
		return string(data)
	}
	return convert(data, name)
}

// stateful reports whether bytes below 0x80 are not ASCII in the charset.
func stateful(name string) bool {
	for _, prefix := range []string{"iso-2022", "csiso2022", "hz", "utf-16", "utf16", "ucs-2", "utf-32", "utf-7"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func convert(data []byte, name string) string {
	switch name {
	case "gb2312", "gbk", "x-gbk", "cn-gb", "gb_2312-80":
		name = "gb18030" // the superset that senders mean
	case "ks_c_5601-1987", "ks_c_5601", "euc_kr":
		name = "euc-kr"
	}
	r, err := charset.Reader(name, bytes.NewReader(data))
	if err != nil {
		return decodeText(data, "")
	}
	var text strings.Builder
	text.Grow(len(data))
	if _, err := io.Copy(&text, r); err != nil {
		return decodeText(data, "")
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text.String(), "\uFFFD"), "\x00", "")
}

func windows1252(data []byte) string {
	if isASCII(data) {
		return string(data)
	}
	var text strings.Builder
	text.Grow(len(data) + len(data)/8)
	for _, c := range data {
		text.WriteRune(charmap.Windows1252.DecodeByte(c))
	}
	return text.String()
}

// mostlyUTF8 reports whether data holds more multi-byte sequences than errors.
func mostlyUTF8(data []byte) bool {
	good, bad := 0, 0
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			bad++
		case n > 1:
			good++
		}
		data = data[n:]
	}
	return good > bad
}

func isASCII[T string | []byte](data T) bool {
	i := 0
	for ; i+8 <= len(data); i += 8 {
		if d := data[i : i+8]; (d[0]|d[1]|d[2]|d[3]|d[4]|d[5]|d[6]|d[7])&0x80 != 0 {
			return false
		}
	}
	for ; i < len(data); i++ {
		if data[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
