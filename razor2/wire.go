package razor2

import (
	"strings"
)

// Values is one line of the protocol: keys and values in order. Source:
// docs/specs/razor2.md#sis.
type Values []Pair

// A Pair is one key and its value, unescaped.
type Pair struct{ Key, Value string }

// maxPairs is the number of pairs of a line that are read. Clients send six at most.
const maxPairs = 32

// ParseValues reads a line without its end. No line is malformed: a piece without "="
// is a key with an empty value, a second "=" ends the value, and an invalid escape
// stays as it is. Pieces after the 32nd are ignored.
func ParseValues(line string) Values {
	v := make(Values, 0, 6)
	for piece := range strings.SplitSeq(line, "&") {
		if len(v) == maxPairs {
			break
		}
		key, value, _ := strings.Cut(piece, "=")
		value, _, _ = strings.Cut(value, "=")
		v = append(v, Pair{unescape(key), unescape(value)})
	}
	return v
}

// Get returns the value of key, the last one if there are several, "" if there
// is none.
func (v Values) Get(key string) string {
	for i := len(v) - 1; i >= 0; i-- {
		if v[i].Key == key {
			return v[i].Value
		}
	}
	return ""
}

// Has reports whether v contains key.
func (v Values) Has(key string) bool {
	for _, p := range v {
		if p.Key == key {
			return true
		}
	}
	return false
}

// String returns the line, without its end, that ParseValues reads.
func (v Values) String() string { return string(v.append(nil)) }

func (v Values) append(b []byte) []byte {
	for i, p := range v {
		if i > 0 {
			b = append(b, '&')
		}
		b = appendEscaped(b, p.Key)
		b = append(b, '=')
		b = appendEscaped(b, p.Value)
	}
	return b
}

const upperHex = "0123456789ABCDEF"

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

// plain reports whether c is not escaped: the client's own characters and ":", which it
// sends unescaped in host:port.
func plain(c byte) bool {
	switch {
	case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("-_.!~'():", c) >= 0
}

func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, ok1 := unhex(s[i+1])
			lo, ok2 := unhex(s[i+2])
			if ok1 && ok2 {
				b = append(b, hi<<4|lo)
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// A reply is the answer to one request: rows sent in one write. The client takes the first 1,024
// bytes that it reads for the whole reply.
type reply struct {
	rows int
	buf  []byte // "-" and the rows; "-" is left out for a single one
}

func (r *reply) reset() { r.rows, r.buf = 0, append(r.buf[:0], '-') }

// row adds a row that needs no escaping.
func (r *reply) row(text string) {
	r.rows++
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, "\r\n"...)
}

func (r *reply) values(v ...Pair) {
	r.rows++
	r.buf = Values(v).append(r.buf)
	r.buf = append(r.buf, "\r\n"...)
}

// bytes returns the reply as it is sent: docs/specs/razor2.md#reply-framing.
func (r *reply) bytes() []byte {
	if r.rows == 1 {
		return r.buf[1:]
	}
	r.buf = append(r.buf, ".\r\n"...)
	return r.buf
}
