package mail

import (
	"bytes"
	"context"
	"hash/maphash"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of reading as rspamd does. Content beyond them is left out.
const (
	maxNesting = 64   // multiparts and messages, also beside each other: rspamd counts both
	maxBounds  = 4096 // lines of one message that look like boundaries
)

// LiteralParts returns the leaves of the MIME tree as rspamd divides a message, with fewer
// repairs than Read. A boundary line is taken literally, so a blank after it makes it a different
// line. Without a blank line the whole message is header. Content that no boundary ends may be
// lost, or be there twice. Encodings that are not named, or named wrongly, are guessed. A part
// whose type cannot be determined has the type "", with its content in both Text and Data. It
// fails only when ctx ends, with an error that wraps that of ctx.
//
// Source: docs/specs/rspamd-fuzzy.md#division.
func (m *Message) LiteralParts(ctx context.Context) ([]Part, error) {
	d := divider{m: m, pace: pace.New(ctx), room: max(minDecoded, 2*len(m.Raw)), parts: make([]Part, 0, len(m.Parts))}
	d.message(bytes.TrimLeft(m.Raw, " \t\n\v\f\r"), nil)
	for i, children := range d.children {
		d.parts[i].Siblings = 0
		if children != nil {
			d.parts[i].Siblings = *children - 1
		}
	}
	return d.parts, pace.Ended(d.pace)
}

// A divider divides a message as rspamd does.
type divider struct {
	m        *Message
	pace     *pace.Pace
	room     int // bytes that may yet be looked at
	seed     maphash.Seed
	key      []byte // room for a line in lower case
	parts    []Part
	children []*int // of each part how many the multipart has that it belongs to, nil if to none
	next     int    // of m.Parts, where the next part is looked for
	nested   int
	over     bool
}

// A level is a message, at the top or within a part.
type level struct {
	text   []byte
	bounds []bound
	at     int // what is before it was divided
}

// A bound is a line that begins with two hyphens.
type bound struct {
	at, content int    // where it begins; where what follows does
	name, whole uint64 // hashes of what is behind the hyphens: without two more at the end; with them, if there are any
	closing     bool
}

// opens makes b, which seems to close something, no such one if the boundary with that key ends in hyphens. It reports
// whether b is that boundary.
func (b *bound) opens(key uint64) bool {
	if b.closing && b.whole == key {
		b.closing, b.name = false, b.whole
	}
	return b.name == key
}

// A parent is what a part lies in.
type parent struct {
	encoding encoding
	children *int // nil for a message
}

// spend reports whether n bytes more may be looked at.
func (d *divider) spend(n int) bool {
	if d.room -= n; d.room < 0 || len(d.parts) >= maxParts || d.nested > maxNesting || d.pace.Over(n) {
		d.over = true
	}
	return !d.over
}

// message divides a message, which lies in another one if in is not nil.
func (d *divider) message(text []byte, in *parent) {
	if !d.spend(len(text)) {
		return
	}
	l := level{text: text}
	head, body := headerEnd(text)
	if head <= 0 || head >= len(text) {
		if in == nil && fieldName(text[:min(len(text), maxFirst)]) != nil {
			return // a header and nothing else
		}
		head, body = 0, 0
	}
	fields := readContent(text[:head])
	if fields.kind == "" {
		fields.kind, fields.assumed = "text/plain", true
	}
	if in == nil {
		l.at = body
	}
	if fields.composite() {
		d.bounds(&l, max(body-1, 0))
	}
	d.entity(&l, &fields, body, len(text), in)
	// Content that no multipart has taken becomes parts without a multipart.
	at := l.at
	for i := range l.bounds {
		if b := &l.bounds[i]; b.content > at && !b.closing {
			end := len(text)
			if i+1 < len(l.bounds) {
				end = l.bounds[i+1].at
			}
			if end > b.content && !d.part(&l, b.content, end, nil) {
				return
			}
		}
	}
}

// maxFirst is how many bytes are looked at for the name of a field, if no header ends.
const maxFirst = 76

// bounds finds what may be boundaries of l, from a place on.
func (d *divider) bounds(l *level, from int) {
	if d.seed == (maphash.Seed{}) {
		d.seed = maphash.MakeSeed()
	}
	for len(l.bounds) < maxBounds {
		i := bytes.Index(l.text[from:], []byte("--"))
		if i < 0 {
			return
		}
		at := from + i
		if at == 0 || l.text[at-1] != '\n' && l.text[at-1] != '\r' {
			for from = at + 2; from < len(l.text) && l.text[from] == '-'; from++ {
			}
			continue
		}
		line := l.text[at+2:]
		for _, end := range [...]byte{'\n', '\r'} {
			if i := bytes.IndexByte(line, end); i >= 0 {
				line = line[:i]
			}
		}
		if from = at + 2 + len(line); len(bytes.Trim(line, "-")) == 0 {
			continue
		}
		b := bound{at: at, content: len(l.text) - len(trimLine(l.text[from:]))}
		d.key = appendLower(d.key[:0], line)
		b.name = maphash.Bytes(d.seed, d.key)
		if name, closing := bytes.CutSuffix(d.key, []byte("--")); closing {
			b.closing, b.name, b.whole = true, maphash.Bytes(d.seed, name), b.name
			b.content = from - len("--")
		}
		l.bounds = append(l.bounds, b)
	}
}

// trimLine returns text without the end of a line at its start.
func trimLine(text []byte) []byte {
	return bytes.TrimPrefix(bytes.TrimPrefix(text, []byte("\r")), []byte("\n"))
}

func appendLower(dst, text []byte) []byte {
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// part divides what stands from start to end of l, behind a boundary. It belongs to no multipart
// if in is nil. It reports whether the text after it has to be divided as well.
func (d *divider) part(l *level, start, end int, in *parent) bool {
	if !d.spend(end - start) {
		return false
	}
	text := l.text[start:end]
	head, body := 0, 0
	if text[0] != '\n' && text[0] != '\r' {
		if head, body = headerEnd(text); head <= 0 || head >= len(text) {
			head, body = 0, 0
		}
	} else if in == nil && !hasWord(text) {
		return false
	}
	if in != nil {
		*in.children++
	}
	fields := readContent(text[:head])
	d.entity(l, &fields, start+body, end, in)
	return !d.over
}

// hasWord reports whether text has an ASCII letter or digit.
func hasWord(text []byte) bool {
	for _, c := range text {
		if scan.IsLetter(c) || '0' <= c && c <= '9' {
			return true
		}
	}
	return false
}

// entity divides what stands from start to end of l, of which fields speak.
func (d *divider) entity(l *level, fields *content, start, end int, in *parent) {
	body := l.text[start:end]
	how := fields.encoding
	inherited := !fields.encoded && in != nil && in.encoding != unknown
	if inherited {
		how = in.encoding
	}
	switch {
	case strings.HasPrefix(fields.kind, "multipart/"):
		d.nested++ // for good: rspamd counts those that are beside each other
		d.multipart(l, fields.boundary, start, end, &parent{how, new(int)})
	case fields.composite():
		if decodes(how) {
			p := Part{body: body, how: how}
			body = p.decoded(d.pace)
		}
		if len(body) > 0 {
			d.unknown(d.append(nil), fields, body, unknown)
		}
		d.nested++
		d.message(body, &parent{how, nil})
		d.nested--
	default:
		if guess := guessEncoding(body); how == unknown {
			how = guess
		} else if (how == inBase64 || how == inQuoted) && (guess == in8bit || inherited) {
			how = guess
		}
		d.leaf(fields, body, how, in)
	}
}

// multipart divides a multipart at its boundary, or at the first line that looks like one if it names none.
func (d *divider) multipart(l *level, boundary []byte, start, end int, of *parent) {
	l.at = start
	first, key := -1, uint64(0)
	if len(boundary) > 0 {
		d.key = appendLower(d.key[:0], boundary)
		first, key = 0, maphash.Bytes(d.seed, d.key)
	}
	for i := range l.bounds {
		if b := &l.bounds[i]; b.content < start {
			continue
		} else if first < 0 {
			key = b.name
		} else if !b.opens(key) {
			continue
		}
		first = i
		break
	}
	if first < 0 {
		return
	}
	from := -1 // where the present part begins
	for i := first; i < len(l.bounds); i++ {
		b := &l.bounds[i]
		if b.at > end {
			return
		}
		if b.name != key && !(b.closing && b.whole == key) {
			continue
		}
		if from >= 0 && from < b.at && !d.part(l, from, b.at, of) {
			return
		}
		if from < b.at {
			from = b.content
			l.at = from
		}
		if b.opens(key); b.closing && (i+1 == len(l.bounds) || !l.bounds[i+1].opens(key)) {
			return
		}
	}
	if from >= 0 && from < end {
		d.part(l, from, end, of)
	}
}

// leaf appends a part that is not divided.
func (d *divider) leaf(fields *content, body []byte, how encoding, in *parent) {
	if len(body) == 0 {
		return // empty parts have no signature
	}
	if fields.assumed && how == in8bit && scan.ASCIIPrefix(body) < len(body) && utf8.Valid(body) {
		fields.kind = "" // though no others look more like text
	}
	var children *int
	if in != nil {
		children = in.children
	}
	if part := d.append(children); !d.known(part, fields, body, how) {
		d.unknown(part, fields, body, how)
	}
}

// append appends an empty part to the parts of the message, for the caller to fill.
func (d *divider) append(children *int) *Part {
	d.parts, d.children = append(d.parts, Part{}), append(d.children, children)
	return &d.parts[len(d.parts)-1]
}

// known makes p the part of the message that has that body and is read in the same way. It reports
// false if there is none; it looks at the next few. Read decodes uuencode in another way.
func (d *divider) known(p *Part, fields *content, body []byte, how encoding) bool {
	const few = 8
	inner := trimLineEnd(body)
	for i := d.next; i < min(d.next+few, len(d.m.Parts)); i++ {
		of := &d.m.Parts[i]
		if !sameMemory(of.body, body) || len(of.body) != len(body) && len(of.body) != len(inner) {
			continue
		}
		d.next = i + 1
		if of.Type != fields.kind || how == inUUE || !strings.EqualFold(of.charset, fields.charset) ||
			of.how != how && (decodes(of.how) || decodes(how)) {
			return false
		}
		*p = *of
		p.body, p.cut = body, how != inBase64 && len(of.body) < len(body)
		if how == inQuoted && p.cut && bytes.HasSuffix(inner, []byte("=")) {
			p.cut, p.odd = false, true
		}
		if !p.IsText() && (p.odd || p.cut) {
			p.Data = p.decoded(d.pace)
		}
		p.Attachment = p.Attachment || p.named
		return true
	}
	return false
}

// unknown makes p a part that the message does not have in that way.
func (d *divider) unknown(p *Part, fields *content, body []byte, how encoding) {
	*p = Part{Type: fields.kind, HTML: fields.kind == "text/html", body: body, how: how, charset: fields.charset,
		odd: true}
	data := p.decoded(d.pace)
	if p.IsText() || p.Type == "" {
		const most = 3 // bytes of UTF-8 for one of a charset
		text := asUTF8(data, p.charset, most*len(data), d.pace)
		p.Text, p.guessed = asString(text), isGuess(p.charset) && !sameMemory(text, data)
	}
	if !p.IsText() {
		p.Data = data
		if len(fields.header) > 0 {
			r := reader{m: new(Message), pace: d.pace}
			h, _ := r.header(fields.header)
			p.describe(h)
		}
		p.Attachment = p.Attachment || p.named
	}
}

// headerEnd returns where the header at the start of text ends, and the body begins; -1 if no header ends. A line of
// white space ends none.
func headerEnd(text []byte) (end, body int) {
	for at := 0; ; {
		line, _ := scan.FirstLine(text[at:])
		at += line
		// After a line end comes another line end, white space up to the next one, or a line.
		for at < len(text) && (text[at] == '\n' || text[at] == '\r') {
			first := text[at]
			if at++; at == len(text) {
				break
			}
			switch c := text[at]; {
			case first == '\r' && c == '\r' && (at+1 == len(text) || text[at+1] != '\n'):
				return at, at + 1
			case c == '\n' && (first == '\n' || text[at-1] == '\r' && at > 1 && text[at-2] == '\r'):
				return at, at + 1
			case first == '\n' && c == '\r':
				next := at
				for next < len(text) && text[next] == '\r' {
					next++
				}
				if next < len(text) && text[next] == '\n' {
					return at, next + 1
				}
				at = next
			}
			for at < len(text) && isWhite(text[at]) {
				at++
			}
		}
		if at >= len(text) {
			return -1, -1
		}
	}
}

// A content is what a header says of its body.
type content struct {
	header   []byte
	kind     string // in lower case, with a stroke; "" if there is none
	assumed  bool   // that is no more than a guess
	charset  string
	boundary []byte
	encoding encoding
	encoded  bool // there is a field that says how
}

// composite reports whether the body has parts, or is a message.
func (c *content) composite() bool {
	return strings.HasPrefix(c.kind, "multipart/") || strings.HasPrefix(c.kind, "message/")
}

// readContent reads a header.
func readContent(header []byte) content {
	c := content{header: header}
	for at := 0; at < len(header); {
		line := header[at:]
		size := len(line)
		for _, end := range [...]byte{'\n', '\r'} {
			if i := bytes.IndexByte(line, end); i >= 0 {
				line, size = line[:i], i+1
			}
		}
		at += size
		const common = "Content-T"
		if !scan.HasPrefixFold(line, common) {
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		// Lines that begin with white space go on.
		value = value[:len(value):len(value)]
		for at < len(header) {
			next := at
			for next < len(header) && isSpace(header[next]) {
				next++
			}
			if next == at || !isWhite(header[next-1]) {
				break
			}
			line := header[next:]
			if i := bytes.IndexAny(line, "\r\n"); i >= 0 {
				line = line[:i]
			}
			value = append(append(value, ' '), line...)
			if at = next + len(line); at < len(header) {
				at++
			}
		}
		value = bytes.TrimSpace(bytes.ReplaceAll(value, []byte{0}, nil))
		switch {
		case strings.EqualFold(string(name), "Content-Type"):
			c.readType(value)
		case strings.EqualFold(string(name), "Content-Transfer-Encoding"):
			if c.encoded = true; c.encoding == unknown {
				c.encoding = encodingOf(value)
			}
		}
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// readType reads a Content-Type. Of several, the first counts, or the last multipart.
func (c *content) readType(field []byte) {
	rest := skipSpace(field)
	i := bytes.IndexAny(rest, "/; \t\n\v\f\r")
	if i < 0 {
		i = len(rest)
	}
	kind := appendLower(nil, rest[:i])
	if rest = rest[i:]; len(kind) == 0 {
		return
	}
	kind = append(kind, '/')
	if bytes.HasPrefix(rest, []byte("/")) {
		rest = skipSpace(rest[1:])
		if i = bytes.IndexAny(rest, "; \t\n\v\f\r"); i < 0 {
			i = len(rest)
		}
		kind = appendLower(kind, rest[:i])
		rest = rest[i:]
	}
	if c.kind != "" && !bytes.HasPrefix(kind, []byte("multipart/")) {
		return
	}
	switch c.kind = string(kind); {
	case c.kind == "html/":
		c.kind = "text/html"
	case c.kind == "application/":
		c.kind += "octet-stream"
	case c.kind == "message/delivery-status", strings.HasPrefix(c.kind, "message/") && strings.Contains(c.kind,
		"notification"):
		c.kind = "text/plain" // as it is read
	}
	c.charset, c.boundary = "", nil
	if bytes.IndexByte(rest, '*') >= 0 {
		if _, params, err := mime.ParseMediaType(string(field)); err == nil {
			c.charset, c.boundary = params["charset"], []byte(params["boundary"])
			return
		}
	}
	rest = bytes.TrimLeft(rest, "; \t\n\v\f\r")
	for len(rest) > 0 {
		var name, value []byte
		if name, value, rest = cutParam(rest); len(value) == 0 {
			continue
		}
		if bytes.EqualFold(name, []byte("charset")) && c.charset == "" {
			c.charset = string(value)
		} else if bytes.EqualFold(name, []byte("boundary")) && c.boundary == nil {
			c.boundary = value
		}
	}
}

// skipSpace returns text without the white space and the comments that it begins with.
func skipSpace(text []byte) []byte {
	for len(text) > 0 && (isSpace(text[0]) || text[0] == '(') {
		if text[0] != '(' {
			text = text[1:]
			continue
		}
		open, i := 0, 0
		for ; i < len(text); i++ {
			if text[i] == '(' {
				open++
			} else if text[i] == ')' {
				if open--; open == 0 {
					i++
					break
				}
			}
		}
		text = text[i:]
	}
	return text
}

// cutParam returns the parameter at the start of text, and what follows. A parameter without a
// value is skipped.
func cutParam(text []byte) (name, value, rest []byte) {
	i := 0
	for i < len(text) && text[i] != '=' && !isSpace(text[i]) {
		i++
	}
	name = text[:i]
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	if i == len(text) || text[i] != '=' {
		return nil, nil, text[i:]
	}
	for i++; i < len(text) && isSpace(text[i]); i++ {
	}
	start := i
	for ; i < len(text) && text[i] != ';' && text[i] != '(' && !isSpace(text[i]); i++ {
		if text[i] != '"' {
			continue
		}
		for start, i = i+1, i+1; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		if i >= len(text) {
			return nil, nil, nil
		}
		value, rest = text[start:i], text[i+1:]
		return name, value, skipSpace(bytes.TrimPrefix(rest, []byte(";")))
	}
	value, rest = text[start:i], text[i:]
	return name, value, skipSpace(bytes.TrimPrefix(rest, []byte(";")))
}

// An encoding is a transfer encoding, as rspamd distinguishes them.
type encoding uint8

const (
	unknown encoding = iota
	in7bit
	in8bit
	inQuoted
	inBase64
	inUUE
	inYEnc // which only [Read] distinguishes, to note that it does not decode it
)

// decodes reports whether there is something to decode.
func decodes(how encoding) bool { return how >= inQuoted && how != inYEnc }

// encodingOf returns the encoding that a field names.
func encodingOf(field []byte) encoding {
	switch string(appendLower(nil, bytes.Trim(field, " \t;,.+-#!`~'"))) {
	case "7bit":
		return in7bit
	case "8bit", "binary":
		return in8bit
	case "quoted-printable":
		return inQuoted
	case "base64", "base-64":
		return inBase64
	case "uuencode", "x-uuencode", "x-uue":
		return inUUE
	}
	return unknown
}

// guessEncoding guesses an encoding by the first 128 bytes of a body.
func guessEncoding(body []byte) encoding {
	const enough, short = 128, 80
	text := body
	for len(text) > 0 && isSpace(text[0]) {
		text = text[1:]
	}
	for _, begin := range [...]string{"begin ", "begin-base64 "} {
		if after, found := bytes.CutPrefix(text, []byte(begin)); found && len(text) > len("begin-base64 ")+1 {
			if after = bytes.TrimLeft(after, " \t\n\v\f\r"); len(after) > 0 && '0' <= after[0] && after[0] <= '9' {
				return inUUE
			}
		}
	}
	skipped := len(body) - len(text)
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	padding := 0
	for len(text) > 2 && padding < 2 && text[len(text)-1] == '=' {
		text = text[:len(text)-1]
		padding++
	}
	text = text[:min(len(text), enough)]
	upper, lower, escapes, equals, wide, base64 := 0, 0, 0, 0, false, true
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '=':
			base64 = false
			equals++
			if i++; i+2 < len(text) && isHexDigit(text[i]) && isHexDigit(text[i+1]) {
				escapes++
				i++
			}
			i--
		case c >= utf8.RuneSelf:
			wide, base64 = true, false
		case 'A' <= c && c <= 'Z':
			upper++
		case 'a' <= c && c <= 'z':
			lower++
		case c != '/' && c != '+' && (c < '0' || c > '9'):
			base64 = false
		}
	}
	switch {
	case base64 && (padding > 0 || (len(body) > short || (skipped+len(text))%4 == 0) && upper > 1 && lower > 1):
		return inBase64
	case wide:
		return in8bit
	case equals > 2 && escapes > 2:
		return inQuoted
	}
	return in7bit
}

func isHexDigit(c byte) bool {
	_, ok := scan.Hex(c)
	return ok
}

// literalQuoted decodes quoted-printable as rspamd does: what is wrong behind an equals sign stays,
// and so does white space at the ends of lines.
func literalQuoted(body []byte, p *pace.Pace) []byte {
	dst := make([]byte, 0, len(body))
	for {
		i := bytes.IndexByte(body, '=')
		if i < 0 || i+1 == len(body) || p.Over(i+1) {
			return append(dst, body...)
		}
		dst = append(dst, body[:i]...)
		switch body = body[i+1:]; {
		case body[0] == '\r':
			body = trimLine(body)
		case body[0] == '\n':
			body = body[1:]
		case !isHexDigit(body[0]):
			dst = append(dst, '=', body[0])
			body = body[1:]
		case len(body) == 1:
			return dst
		default:
			high, _ := scan.Hex(body[0])
			if low, ok := scan.Hex(body[1]); ok {
				dst = append(dst, high<<4|low)
			} else {
				dst = append(dst, '=', body[0], body[1])
			}
			body = body[2:]
		}
	}
}

// literalBase64 decodes base64 as rspamd does, which starts a group of four anew only behind the first of two "=".
func literalBase64(body []byte, p *pace.Pace) []byte {
	dst := make([]byte, 0, len(body)/4*3+3)
	bits, n := uint32(0), 0
	for i := 0; i < len(body); i++ {
		if i%pace.Step == 0 && p.Over(min(len(body)-i, pace.Step)) {
			break
		}
		v := scan.Base64[body[i]]
		if v >= 64 {
			if v == scan.Base64Pad && n == 2 {
				n = 0
				i++ // whatever it is
			}
			continue
		}
		bits = bits<<6 | uint32(v)
		if n++; n > 1 {
			dst = append(dst, byte(bits>>(2*(4-n))))
		}
		n %= 4
	}
	return dst
}

// literalUUE decodes uuencode as rspamd does. A body that is not uuencode stays as it is, except
// that a long one is cut at the end.
func literalUUE(body []byte, p *pace.Pace) []byte {
	room := max(16, len(body)/4*3+12)
	as := body[:min(len(body), room)]
	text := bytes.TrimLeft(body, "\r\n")
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(text) < len("begin-base64 ")+1 || p.Over(len(body)) {
		return as
	}
	if bytes.HasPrefix(first, []byte("begin-base64 ")) {
		return literalBase64(rest, p)
	}
	if !bytes.HasPrefix(first, []byte("begin ")) {
		return as
	}
	dst := make([]byte, 0, room)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			continue
		}
		size := int(line[0]-' ') & 0x3F
		if size == 0 {
			break
		}
		var bits uint32
		for i, c := range line[1:] {
			if c < ' ' || c > ' '+0x40 {
				return as
			}
			bits = bits<<6 | uint32(c-' ')&0x3F
			if i%4 > 0 && size > 0 {
				dst = append(dst, byte(bits>>(2*(3-i%4))))
				size--
			}
		}
	}
	return dst
}
