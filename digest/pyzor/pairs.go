package pyzor

import (
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// A pairTable is a double-byte codec: rows of valid pairs. Their meanings come from a table of
// golang.org/x/text, except the pairs in runs and long.
type pairTable struct {
	base   string
	single string // single bytes above 127, each followed by its meaning
	rows   []row
	runs   []run
	long   map[uint16]string // pairs that mean several characters
}

// A run holds the meanings of successive pairs, one character for each.
type run struct {
	first uint16
	texts string
}

// A row holds the ranges of second bytes, as pairs of first and last, for the lead bytes lo to hi.
type row struct {
	lo, hi byte
	trails string
}

func (t *pairTable) valid(lead, trail byte) bool {
	for _, row := range t.rows {
		if lead < row.lo || lead > row.hi {
			continue
		}
		ranges := []rune(row.trails)
		for i := 0; i < len(ranges); i += 2 {
			if rune(trail) >= ranges[i] && rune(trail) <= ranges[i+1] {
				return true
			}
		}
	}
	return false
}

// meanings holds the meanings of single bytes and of lead bytes with a second byte, from 128 on; ""
// for none. Decoding looks up one of them for every two bytes.
type meanings struct {
	single [0x80]string
	pair   [0x8000]string
}

// ofPair takes a lead byte from 128.
func (m *meanings) ofPair(lead, trail byte) string { return m.pair[int(lead-0x80)<<8|int(trail)] }

// codecs holds the double-byte codecs in the form that decoding uses. Each is built on first use.
var codecs = func() map[string]func() *meanings {
	m := make(map[string]func() *meanings)
	for name := range pairTables {
		m[name] = sync.OnceValue(func() *meanings { return meaningsOf(name) })
	}
	return m
}()

func meaningsOf(name string) *meanings {
	table := pairTables[name]
	decoder := baseOf(table.base).NewDecoder()
	m := new(meanings)
	for lead := 0x80; lead < 0x100; lead++ {
		for trail := range 0x100 {
			at := &m.pair[(lead-0x80)<<8|trail]
			if table.valid(byte(lead), byte(trail)) {
				if b, err := decoder.Bytes([]byte{byte(lead), byte(trail)}); err == nil {
					*at = string(b)
				}
			} else if r := userDefined(name, byte(lead), byte(trail)); r != 0 {
				*at = string(r)
			}
		}
	}
	for _, run := range table.runs {
		for i, r := range []rune(run.texts) {
			m.pair[int(run.first)-0x8000+i] = string(r)
		}
	}
	for code, text := range table.long {
		m.pair[code-0x8000] = text
	}
	single := []rune(table.single)
	for i := 0; i < len(single); i += 2 {
		m.single[single[i]-0x80] = string(single[i+1])
	}
	return m
}

func baseOf(name string) encoding.Encoding {
	switch name {
	case "gbk":
		return simplifiedchinese.GBK
	case "gb18030":
		return simplifiedchinese.GB18030
	case "big5":
		return traditionalchinese.Big5
	case "euckr":
		return korean.EUCKR
	case "eucjp":
		return japanese.EUCJP
	}
	return japanese.ShiftJIS
}

// userDefined returns the private character of a pair in the user-defined
// rows, or 0.
func userDefined(codec string, lead, trail byte) rune {
	l, t := rune(lead), rune(trail)
	switch {
	case codec == "cp932" && lead >= 0xf0 && lead <= 0xf9 && trail >= 0x40 && trail <= 0xfc && trail != 0x7f:
		if trail > 0x7f {
			t--
		}
		return 0xe000 + (l-0xf0)*188 + t - 0x40
	case codec != "gb18030":
	case lead >= 0xaa && lead <= 0xaf && trail >= 0xa1 && trail <= 0xfe:
		return 0xe000 + (l-0xaa)*94 + t - 0xa1
	case lead >= 0xf8 && lead <= 0xfe && trail >= 0xa1 && trail <= 0xfe:
		return 0xe234 + (l-0xf8)*94 + t - 0xa1
	case lead >= 0xa1 && lead <= 0xa7 && trail >= 0x40 && trail <= 0xa0 && trail != 0x7f:
		if trail > 0x7f {
			t--
		}
		return 0xe4c6 + (l-0xa1)*96 + t - 0x40
	}
	return 0
}

// pairs decodes a double-byte charset. A lead byte with a wrong second byte is
// an error by itself; the second is looked at again.
func (s *sink) pairs(b []byte, codec string) {
	m := codecs[codec]()
	longer := codec == "euc_jp" || codec == "gb18030" || codec == "euc_kr" // has longer sequences
	for i := 0; i < len(b); {
		s.at = s.size - len(b) + i
		c := b[i]
		if c < 0x80 {
			n, over := s.ascii(b[i:])
			if over {
				return
			}
			i += n
			continue
		}
		if s.over(1) {
			return
		}
		if text := m.single[c-0x80]; text != "" {
			s.puts(text)
			i++
			continue
		}
		if longer {
			if n := s.longer(b[i:], codec); n != 0 {
				i += n
				continue
			}
		}
		if i+1 == len(b) {
			s.error()
			return
		}
		text := m.ofPair(c, b[i+1])
		if text == "" {
			s.error()
			i++
			continue
		}
		s.puts(text)
		i += 2
	}
}

// longer decodes one sequence of a double-byte charset that is not a pair. It returns its size, 0 if
// b begins with none.
func (s *sink) longer(b []byte, codec string) int {
	switch {
	case codec == "euc_jp" && b[0] == 0x8e:
		if len(b) < 2 {
			s.error()
			return 1
		}
		if b[1] < 0xa1 || b[1] > 0xdf {
			s.error()
			return 1
		}
		s.put(0xff61 + rune(b[1]) - 0xa1)
		return 2
	case codec == "euc_jp" && b[0] == 0x8f:
		if len(b) < 3 {
			s.error()
			return len(b)
		}
		if r := jisX0212(b[1], b[2]); r != 0 {
			s.put(r)
			return 3
		}
		s.error()
		return 1
	case codec == "gb18030" && len(b) >= 2 && b[0] >= 0x81 && b[0] <= 0xfe && b[1] >= 0x30 && b[1] <= 0x39:
		if len(b) < 4 {
			s.error()
			return len(b)
		}
		text, err := simplifiedchinese.GB18030.NewDecoder().Bytes(b[:4])
		if r := []rune(string(text)); err == nil && len(r) == 1 && r[0] != utf8.RuneError {
			s.put(r[0])
			return 4
		}
		s.error()
		return 1
	case codec == "euc_kr" && len(b) >= 2 && b[0] == 0xa4 && b[1] == 0xd4:
		if len(b) < 8 {
			s.error()
			return len(b)
		}
		if r := hangulOf(b[:8]); r != 0 {
			s.put(r)
			return 8
		}
		s.error()
		return 1
	}
	return 0
}

// jisX0212 returns a character of the supplementary Japanese set, or 0.
func jisX0212(a, b byte) rune {
	if a < 0xa1 || a > 0xfe || b < 0xa1 || b > 0xfe {
		return 0
	}
	if a == 0xa2 && b == 0xb7 {
		return '~'
	}
	text, err := japanese.EUCJP.NewDecoder().Bytes([]byte{0x8f, a, b})
	if r := []rune(string(text)); err == nil && len(r) == 1 && r[0] != utf8.RuneError {
		return r[0]
	}
	return 0
}

// hangulOf composes the syllable that eight bytes of EUC-KR spell out: a
// filler and three letters.
func hangulOf(b []byte) rune {
	if b[2] != 0xa4 || b[4] != 0xa4 || b[6] != 0xa4 {
		return 0
	}
	const (
		leads  = "\xa1\xa2\xa4\xa7\xa8\xa9\xb1\xb2\xb3\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe"
		trails = "\xd4\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa9\xaa\xab\xac\xad\xae\xaf" +
			"\xb0\xb1\xb2\xb4\xb5\xb6\xb7\xb8\xba\xbb\xbc\xbd\xbe"
	)
	lead := strings.IndexByte(leads, b[3])
	vowel := int(b[5]) - 0xbf
	trail := strings.IndexByte(trails, b[7])
	if lead < 0 || vowel < 0 || vowel > 20 || trail < 0 {
		return 0
	}
	return 0xac00 + rune(lead*588+vowel*28+trail)
}
