package signature

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A pyzorParam is a parameter of Content-Type: a plain value, or one with a
// charset of its own (RFC 2231).
type pyzorParam struct {
	name, value string
	extended    bool
	charset     string // of an extended value, "" for none
}

// parameter returns the first parameter of Content-Type with this name. The
// client breaks if sane is false.
func (p *pyzorPart) parameter(name string) (param pyzorParam, ok, sane bool) {
	value, ok := p.get("content-type")
	if !ok {
		return param, false, true
	}
	params, sane := pyzorExtended(pyzorParams(value))
	if !sane {
		return param, false, false
	}
	for _, param := range params {
		if pyzorLower(param.name) == name {
			param.value = pyzorUnquote(param.value)
			return param, true, true
		}
	}
	return param, false, true
}

// pyzorParams cuts a field at the semicolons outside quotes.
func pyzorParams(field string) []pyzorParam {
	var params []pyzorParam
	for {
		end := pyzorParamEnd(field)
		item := field[:end]
		name, value, found := strings.Cut(item, "=")
		name, value = pyzorTrim(name), pyzorTrim(value)
		if found {
			name = strings.ToLower(name)
		}
		params = append(params, pyzorParam{name: name, value: value})
		if end == len(field) {
			return params
		}
		field = field[end+1:]
	}
}

// pyzorParamEnd returns the index of the first semicolon before which the quotes,
// those behind a backslash excepted, are even in number. A semicolon in front is
// taken without a look at quotes.
func pyzorParamEnd(s string) int {
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

func pyzorQuote(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`)
}

func pyzorUnquote(s string) string {
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

var pyzorContinuation = regexp.MustCompile(`^([0-9A-Za-z_]+)\*(?:([0-9]+)\*?)?$`)

type pyzorSegment struct {
	number  int // -1 for none
	value   string
	encoded bool
}

// pyzorExtended joins the parameters that RFC 2231 spreads over several. It
// reports false where numbered and unnumbered segments of one name meet, which
// the client cannot sort.
func pyzorExtended(params []pyzorParam) ([]pyzorParam, bool) {
	out := params[:1:1]
	segments := make(map[string][]pyzorSegment)
	var names []string
	for _, p := range params[1:] {
		value := pyzorUnquote(p.value)
		m := pyzorContinuation.FindStringSubmatch(p.name)
		if m == nil {
			out = append(out, pyzorParam{name: p.name, value: `"` + pyzorQuote(value) + `"`})
			continue
		}
		if _, ok := segments[m[1]]; !ok {
			names = append(names, m[1])
		}
		number := -1
		if m[2] != "" {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				n = 1 << 62
			}
			number = n
		}
		segments[m[1]] = append(segments[m[1]], pyzorSegment{number, value, strings.HasSuffix(p.name, "*")})
	}
	for _, name := range names {
		p, ok := pyzorJoin(name, segments[name])
		if !ok {
			return nil, false
		}
		out = append(out, p)
	}
	return out, true
}

func pyzorJoin(name string, segments []pyzorSegment) (pyzorParam, bool) {
	numbered := 0
	for _, s := range segments {
		if s.number >= 0 {
			numbered++
		}
	}
	if numbered > 0 && numbered < len(segments) {
		return pyzorParam{}, false
	}
	slices.SortStableFunc(segments, func(a, b pyzorSegment) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.value, b.value))
	})
	p := pyzorParam{name: name}
	var joined strings.Builder
	for _, s := range segments {
		if s.encoded {
			s.value = pyzorPercent(s.value)
			p.extended = true
		}
		joined.WriteString(s.value)
	}
	value := pyzorQuote(joined.String())
	if p.extended {
		if parts := strings.SplitN(value, "'", 3); len(parts) == 3 {
			p.charset, value = parts[0], parts[2]
		}
	}
	p.value = `"` + value + `"`
	return p, true
}

// pyzorPercent resolves %XX, each to the character of that number.
func pyzorPercent(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, ok1 := razorHex(s[i+1])
			lo, ok2 := razorHex(s[i+2])
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

// pyzorNeverBoundary cannot begin a line: lines end with their line feed.
const pyzorNeverBoundary = "\n\n"

// boundary returns the boundary of a multipart, if it names one.
func (p *pyzorPart) boundary(r *pyzorReader) (string, bool) {
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
		if text, _, known := pyzorDecode(pyzorLatin(value), charset, '\uFFFD'); known {
			value = string(text)
		} else {
			value = pyzorUnquote(value)
		}
	} else {
		value = pyzorUnquote(value)
	}
	value = strings.TrimRightFunc(value, pyzorSpace)
	for _, c := range value {
		if c >= 0x80 {
			return pyzorNeverBoundary, true // no byte of a line is this character
		}
	}
	return value, true
}

// pyzorLatin returns the bytes that the characters of s stand for; a character
// above 255 becomes an escape.
func pyzorLatin(s string) []byte {
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
func (p *pyzorPart) charset(r *pyzorReader) string {
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
		if text, bad, known := pyzorDecode(pyzorLatin(value), charset, pyzorIgnore); known && bad == 0 {
			value = string(text)
		}
	}
	for _, c := range value {
		if c >= 0x80 {
			return ""
		}
	}
	return pyzorLower(value)
}
