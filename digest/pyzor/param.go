package pyzor

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A headerParam is a parameter of Content-Type: a plain value, or one with a
// charset of its own (RFC 2231).
type headerParam struct {
	name, value string
	extended    bool
	charset     string // of an extended value, "" for none
}

// parameter returns the first parameter of Content-Type with this name. The
// client breaks if sane is false.
func (p *node) parameter(name string) (param headerParam, ok, sane bool) {
	value, ok := p.get("content-type")
	if !ok {
		return param, false, true
	}
	params, sane := joinExtended(paramsOf(value))
	if !sane {
		return param, false, false
	}
	for _, param := range params {
		if lowerASCII(param.name) == name {
			param.value = unquote(param.value)
			return param, true, true
		}
	}
	return param, false, true
}

// paramsOf cuts a field at the semicolons outside quotes.
func paramsOf(field string) []headerParam {
	var params []headerParam
	for {
		end := paramEnd(field)
		item := field[:end]
		name, value, found := strings.Cut(item, "=")
		name, value = trimSpace(name), trimSpace(value)
		if found {
			name = strings.ToLower(name)
		}
		params = append(params, headerParam{name: name, value: value})
		if end == len(field) {
			return params
		}
		field = field[end+1:]
	}
}

// paramEnd returns the index of the first semicolon before which the quotes,
// those behind a backslash excepted, are even in number. A semicolon in front is
// taken without a look at quotes.
func paramEnd(s string) int {
	quotes := 0
	for i := range len(s) {
		switch s[i] {
		case '"':
			if i == 0 || s[i-1] != '\\' {
				quotes++
			}
		case ';':
			if quotes%2 == 0 {
				return i
			}
		}
	}
	return len(s)
}

func quote(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`)
}

func unquote(s string) string {
	if len(s) < 2 {
		return s
	}
	if s[0] == '"' && s[len(s)-1] == '"' {
		return strings.ReplaceAll(strings.ReplaceAll(s[1:len(s)-1], `\\`, `\`), `\"`, `"`)
	}
	if s[0] == '<' && s[len(s)-1] == '>' {
		return s[1 : len(s)-1]
	}
	return s
}

var continuation = regexp.MustCompile(`^([0-9A-Za-z_]+)\*(?:([0-9]+)\*?)?$`)

type paramSegment struct {
	number  int // -1 for none
	value   string
	encoded bool
}

// joinExtended joins the parameters that RFC 2231 spreads over several. It
// reports false where numbered and unnumbered segments of one name meet, which
// the client cannot sort.
func joinExtended(params []headerParam) ([]headerParam, bool) {
	out := params[:1:1]
	segments := make(map[string][]paramSegment)
	var names []string
	for _, p := range params[1:] {
		value := unquote(p.value)
		m := continuation.FindStringSubmatch(p.name)
		if m == nil {
			out = append(out, headerParam{name: p.name, value: `"` + quote(value) + `"`})
			continue
		}
		if _, ok := segments[m[1]]; !ok {
			names = append(names, m[1])
		}
		number := -1
		if m[2] != "" {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				n = math.MaxInt
			}
			number = n
		}
		segments[m[1]] = append(segments[m[1]], paramSegment{number, value, strings.HasSuffix(p.name, "*")})
	}
	for _, name := range names {
		p, ok := join(name, segments[name])
		if !ok {
			return nil, false
		}
		out = append(out, p)
	}
	return out, true
}

func join(name string, segments []paramSegment) (headerParam, bool) {
	numbered := 0
	for _, s := range segments {
		if s.number >= 0 {
			numbered++
		}
	}
	if numbered > 0 && numbered < len(segments) {
		return headerParam{}, false
	}
	slices.SortStableFunc(segments, func(a, b paramSegment) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.value, b.value))
	})
	p := headerParam{name: name}
	var joined strings.Builder
	for _, s := range segments {
		if s.encoded {
			s.value = unescapePercent(s.value)
			p.extended = true
		}
		joined.WriteString(s.value)
	}
	value := quote(joined.String())
	if p.extended {
		if parts := strings.SplitN(value, "'", 3); len(parts) == 3 {
			p.charset, value = parts[0], parts[2]
		}
	}
	p.value = `"` + value + `"`
	return p, true
}

// unescapePercent resolves %XX, each to the character of that number.
func unescapePercent(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, ok1 := scan.Hex(s[i+1])
			lo, ok2 := scan.Hex(s[i+2])
			if ok1 && ok2 {
				out.WriteRune(rune(hi<<4 | lo))
				i += 2
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// neverBoundary cannot begin a line: lines end with their line feed.
const neverBoundary = "\n\n"

// boundary returns the boundary of a multipart, if it names one.
func (p *node) boundary(r *reader) (string, bool) {
	param, ok, sane := p.parameter("boundary")
	if !sane {
		r.bad = true
	}
	if !ok {
		return "", false
	}
	value := param.value
	if param.extended {
		charset := param.charset
		if charset == "" {
			charset = "us-ascii"
		}
		if text, _, known := decodeNamed(latin1(value), charset, '\uFFFD'); known {
			value = string(text)
		} else {
			value = unquote(value)
		}
	} else {
		value = unquote(value)
	}
	value = strings.TrimRightFunc(value, isSpace)
	for _, c := range value {
		if c >= 0x80 {
			return neverBoundary, true // no byte of a line is this character
		}
	}
	return value, true
}

// latin1 returns the bytes that the characters of s stand for; a character
// above 255 becomes an escape.
func latin1(s string) []byte {
	var b []byte
	for _, c := range s {
		if c < 256 {
			b = append(b, byte(c))
		} else {
			b = append(b, `\u`...)
			b = append(b, strconv.FormatInt(0x10000+int64(c), 16)[1:]...)
		}
	}
	return b
}

// charset returns the charset of a text part, "" for none.
func (p *node) charset(r *reader) string {
	param, ok, sane := p.parameter("charset")
	if !sane {
		r.bad = true
	}
	if !ok {
		return ""
	}
	value := param.value
	if param.extended {
		charset := param.charset
		if charset == "" {
			charset = "us-ascii"
		}
		if text, bad, known := decodeNamed(latin1(value), charset, ignoreErrors); known && bad == 0 {
			value = string(text)
		}
	}
	for _, c := range value {
		if c >= 0x80 {
			return ""
		}
	}
	return lowerASCII(value)
}
