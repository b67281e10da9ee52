package dcc

import (
	"bytes"
	"strings"
	"sync"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// Limits of the MIME front end of DCC, docs/specs/dcc.md#mime-front-end.
const (
	maxBoundary = 93    // bytes
	maxNesting  = 3     // levels of multipart
	rawChunk    = 20480 // bytes of raw body that dccproc reads at a time
	qpChunk     = 1024  // decoded bytes
	base64Chunk = 1021  // decoded bytes; a chunk has up to 3 more
)

// An entity is the description of a body in the header of its message or part.
type entity struct {
	kind      kind
	encoding  transfer
	latin2    bool // folding table 2
	multipart bool
	boundary  []byte // nil if there is none, or it is unusable
}

type kind uint8

const (
	kindText kind = iota
	kindHTML
	kindBinary
)

type transfer uint8

const (
	transferRaw transfer = iota
	transferQP
	transferBase64
)

func parseEntity(header []byte, p *pace.Pace) entity {
	var e entity
	headerFields(header, p, func(name, value []byte) {
		switch {
		case strings.EqualFold(string(name), "content-transfer-encoding"):
			v := bytes.TrimSpace(value)
			v = lowerASCIIBytes(v[:min(len(v), len("quoted-printable"))])
			switch {
			case string(v) == "quoted-printable":
				e.encoding = transferQP
			case bytes.HasPrefix(v, []byte("base64")):
				e.encoding = transferBase64
			default:
				e.encoding = transferRaw
			}
		case strings.EqualFold(string(name), "content-type"):
			e.contentType(bytes.TrimSpace(value))
		}
	})
	return e
}

func (e *entity) contentType(value []byte) {
	const longest = 64 << 10 // bytes that are read
	value = value[:min(len(value), longest)]
	lower := lowerASCIIBytes(value)
	e.kind, e.latin2, e.multipart, e.boundary = kindText, false, false, nil
	switch {
	case bytes.HasPrefix(lower, []byte("text/html")):
		e.kind = kindHTML
	case bytes.HasPrefix(lower, []byte("multipart")):
		e.multipart = true
		e.boundary = boundaryParameter(value, lower)
	case len(lower) == 0 || lower[0] != 't' && lower[0] != 'm':
		e.kind = kindBinary
	}
	if bytes.HasPrefix(lower, []byte("text/")) {
		if _, charset, ok := bytes.Cut(lower, []byte("charset=")); ok {
			charset = bytes.TrimLeft(charset, `"'`)
			rest, ok := bytes.CutPrefix(charset, []byte("iso-8859-2"))
			e.latin2 = ok && (len(rest) == 0 || rest[0] < '0' || rest[0] > '9')
		}
	}
}

func boundaryParameter(value, lower []byte) []byte {
	at := bytes.Index(lower, []byte("boundary="))
	if at < 0 {
		return nil
	}
	b := value[at+len("boundary="):]
	if len(b) > 0 && (b[0] == '"' || b[0] == '\'') {
		end := bytes.IndexByte(b[1:], b[0])
		if end < 0 {
			return nil
		}
		b = b[1 : 1+end]
	} else if end := bytes.IndexAny(b, "; \t\r\n"); end >= 0 {
		b = b[:end]
	}
	if len(b) == 0 || len(b) > maxBoundary {
		return nil
	}
	return b
}

// A bodyReader feeds the body of one message to the three body sums.
type bodyReader struct {
	body  bodySum
	fuz1  fuz1Sum
	other *fuz1Sum // by the other version of the rules; nil if only one version is wanted
	both  fuz1Sum  // memory of other
	fuz2  fuz2Sum

	unquoted func(body []byte) (text []byte, size int) // see Options

	pace   *pace.Pace
	stack  [][]byte // open boundaries, the outermost first
	offset int      // in the raw body
}

// readers reuses the memory of readers.
var readers = sync.Pool{New: func() any { return new(bodyReader) }}

// back returns c to readers.
func (c *bodyReader) back() {
	*c = bodyReader{}
	readers.Put(c)
}

func (c *bodyReader) init(opt Options, p *pace.Pace) {
	c.pace = p
	c.body.init()
	c.fuz1.init(opt.Rules)
	if opt.BothRules {
		c.other = &c.both
		c.other.init(Rules1 - opt.Rules)
	}
	c.fuz2.init(opt.Words)
}

// letters adds text to Fuz1.
func (c *bodyReader) letters(p []byte) {
	c.fuz1.chunk(p)
	if c.other != nil {
		c.other.chunk(p)
	}
}

// message reads the whole body of a message with the given header.
func (c *bodyReader) message(header, body []byte) {
	top := parseEntity(header, c.pace)
	switch {
	case top.boundary != nil:
		c.stack = append(c.stack, top.boundary)
		c.multipart(body)
	case top.multipart:
		c.aside(body) // all of it is preamble
	default:
		c.entity(top, body)
	}
	// The end of the message is also the end of a line.
	c.letters([]byte{'\n'})
	c.fuz1.flush()
	if c.other != nil {
		c.other.flush()
	}
	c.fuz2.chunk([]byte{'\n'})
	c.body.flush()
}

// A place is the part of a multipart body that a line belongs to.
type place uint8

const (
	placeAside   place = iota // outermost preamble, or an epilogue
	placeHeaders              // header of an entity
	placeInside               // body of an entity, or the preamble of a nested multipart
)

// multipart reads a body whose outermost boundary is on the stack.
func (c *bodyReader) multipart(body []byte) {
	part := placeAside
	var entity entity
	start := 0 // of the piece in place part
	finish := func(end int) {
		piece := body[start:end]
		switch {
		case part == placeInside:
			c.entity(entity, piece)
		case len(piece) > 0:
			c.aside(piece)
		}
	}
	exempt := false // the line after a boundary is never a boundary itself
	for i := 0; i < len(body); {
		next := len(body)
		if nl := bytes.IndexByte(body[i:], '\n'); nl >= 0 {
			next = i + nl + 1
		}
		line := body[i:next]
		if c.pace.Over(len(line)) {
			return
		}
		level, closing := c.boundary(line)
		switch {
		case level >= 0 && !exempt:
			finish(i)
			c.boundaryLine(line, closing)
			start, exempt = next, true
			if c.stack = c.stack[:level+1]; closing {
				c.stack, part = c.stack[:level], placeAside
			} else {
				part = placeHeaders
			}
		default:
			exempt = false
			if part == placeHeaders && len(bytes.TrimRight(line, "\r\n")) == 0 {
				entity = parseEntity(body[start:i], c.pace)
				finish(next)
				start, part = next, placeInside
				if entity.boundary != nil && len(c.stack) < maxNesting {
					c.stack = append(c.stack, entity.boundary)
				}
			}
		}
		i = next
	}
	finish(len(body))
}

// boundary returns the index in the stack of the boundary that a line is, or -1 if it is none. closing reports
// whether it ends the multipart.
func (c *bodyReader) boundary(line []byte) (level int, closing bool) {
	rest, ok := bytes.CutPrefix(line, []byte("--"))
	if !ok {
		return -1, false
	}
	rest = bytes.TrimRight(rest, " \t\r\n")
	for level := len(c.stack) - 1; level >= 0; level-- {
		if tail, ok := bytes.CutPrefix(rest, c.stack[level]); ok {
			switch string(tail) {
			case "":
				return level, false
			case "--":
				return level, true
			}
		}
	}
	return -1, false
}

// aside adds a piece outside of all parts to the Body sum, and one line end to the fuzzy sums.
func (c *bodyReader) aside(piece []byte) {
	for rest := piece; len(rest) > 0; {
		n := min(len(rest), rawChunk)
		if c.pace.Over(n) {
			return
		}
		c.body.write(rest[:n])
		rest = rest[n:]
	}
	c.offset += len(piece)
	c.letters([]byte{'\n'})
	c.fuz2.chunk([]byte{'\n'})
}

func (c *bodyReader) boundaryLine(line []byte, closing bool) {
	if !closing {
		c.aside(line)
		return
	}
	end := bytes.LastIndex(line, []byte("--"))
	c.aside(line[:end])
	c.aside(line[end:])
}

// entity decodes the body of one entity and adds it to the sums.
func (c *bodyReader) entity(e entity, raw []byte) {
	c.fuz2.entity(e.kind == kindHTML, e.latin2)
	var qp qpDecoder
	var b64 base64Decoder
	var known []byte // decoded text of raw[:last], if it is known
	last, emitted := len(raw), 0
	if e.encoding == transferQP && c.unquoted != nil {
		var size int
		known, size = c.unquoted(raw)
		last -= size
	}
	emit := func(p []byte) {
		emitted += len(p)
		c.body.write(p)
		c.letters(p)
		if e.kind != kindBinary {
			c.fuz2.chunk(p)
		}
	}
	for len(raw) > 0 {
		if len(raw) > last && len(qp.held) == 0 && c.bodyAlone() {
			for rest := known[emitted:]; len(rest) > 0; {
				n := min(len(rest), pace.Step)
				if c.pace.Over(n) {
					return
				}
				emit(rest[:n])
				rest = rest[n:]
			}
			c.offset += len(raw) - last
			raw = raw[len(raw)-last:]
			continue
		}
		n := min(len(raw), rawChunk-c.offset%rawChunk)
		if c.pace.Over(n) {
			return
		}
		switch e.encoding {
		case transferQP:
			qp.decode(raw[:n], emit)
		case transferBase64:
			b64.decode(raw[:n], emit)
		default:
			emit(raw[:n])
		}
		c.offset += n
		raw = raw[n:]
	}
	if e.encoding == transferQP {
		qp.end(emit)
	}
}

// bodyAlone reports whether only the Body sum depends on the rest of the body. It does not depend on the chunks.
func (c *bodyReader) bodyAlone() bool {
	return c.fuz1.full() && (c.other == nil || c.other.full()) && c.fuz2.words == nil
}

// A qpDecoder decodes quoted-printable as DCC clients do: a broken sequence is
// passed through.
type qpDecoder struct {
	held []byte // an incomplete sequence: "=", "=X" or "=\r"
	out  []byte
}

func (d *qpDecoder) put(c byte, emit func([]byte)) {
	d.out = append(d.out, c)
	if len(d.out) == qpChunk {
		emit(d.out)
		d.out = d.out[:0]
	}
}

func (d *qpDecoder) decode(raw []byte, emit func([]byte)) {
	if d.out == nil {
		d.out = make([]byte, 0, qpChunk)
	}
	for len(raw) > 0 {
		if len(d.held) == 0 && raw[0] == '=' && len(raw) > 2 {
			// The common case: a complete sequence.
			if raw[1] == '\n' {
				raw = raw[2:]
				continue
			}
			if raw[1] == '\r' && raw[2] == '\n' {
				raw = raw[3:]
				continue
			}
			if c, ok := escaped(raw[1], raw[2]); ok {
				d.put(c, emit)
				raw = raw[3:]
				continue
			}
		}
		if len(d.held) > 0 || raw[0] == '=' {
			d.step(raw[0], emit)
			raw = raw[1:]
			continue
		}
		n := min(len(raw), qpChunk-len(d.out))
		if i := bytes.IndexByte(raw[:n], '='); i >= 0 {
			n = i
		}
		d.out = append(d.out, raw[:n]...)
		if len(d.out) == qpChunk {
			emit(d.out)
			d.out = d.out[:0]
		}
		raw = raw[n:]
	}
	if len(d.out) > 0 {
		emit(d.out)
		d.out = d.out[:0]
	}
}

func (d *qpDecoder) step(c byte, emit func([]byte)) {
	switch len(d.held) {
	case 0:
		if c == '=' {
			d.held = append(d.held, c)
			return
		}
		d.put(c, emit)
		return
	case 1:
		if c == '\n' {
			d.held = d.held[:0]
			return
		}
		if _, ok := scan.Hex(c); ok || c == '\r' {
			d.held = append(d.held, c)
			return
		}
	case 2:
		if d.held[1] == '\r' && c == '\n' {
			d.held = d.held[:0]
			return
		}
		if c, ok := escaped(d.held[1], c); ok {
			d.held = d.held[:0]
			d.put(c, emit)
			return
		}
	}
	broken := [2]byte{d.held[0], d.held[len(d.held)-1]}
	n := len(d.held)
	d.held = d.held[:0]
	for _, b := range broken[:n] {
		d.put(b, emit)
	}
	d.step(c, emit)
}

func (d *qpDecoder) end(emit func([]byte)) {
	if len(d.held) > 0 {
		emit(d.held)
	}
}

// escaped returns the byte that two hexadecimal digits stand for.
func escaped(high, low byte) (c byte, ok bool) {
	hi, ok1 := scan.Hex(high)
	lo, ok2 := scan.Hex(low)
	return hi<<4 | lo, ok1 && ok2
}

// A base64Decoder decodes base64 as DCC clients do, with their quirk: after
// padding, the code of "=" opens the next group.
type base64Decoder struct {
	group uint32
	n     int // sextets in group
	out   []byte
}

func (d *base64Decoder) decode(raw []byte, emit func([]byte)) {
	if d.out == nil {
		d.out = make([]byte, 0, base64Chunk+3)
	}
	for len(raw) > 0 {
		if d.n == 0 && len(raw) >= 4 {
			// The common case: four digits in a row.
			d0, d1, d2, d3 := scan.Base64[raw[0]], scan.Base64[raw[1]], scan.Base64[raw[2]], scan.Base64[raw[3]]
			if (d0|d1|d2|d3)&^63 == 0 {
				d.out = append(d.out, d0<<2|d1>>4, d1<<4|d2>>2, d2<<6|d3)
				if raw = raw[4:]; len(d.out) >= base64Chunk {
					emit(d.out)
					d.out = d.out[:0]
				}
				continue
			}
		}
		c := raw[0]
		raw = raw[1:]
		switch v := scan.Base64[c]; v {
		case scan.Base64Pad:
			d.padding()
		case scan.Base64Skip, scan.Base64Bad:
			continue
		default:
			d.sextet(uint32(v))
		}
		if len(d.out) >= base64Chunk {
			emit(d.out)
			d.out = d.out[:0]
		}
	}
	if len(d.out) > 0 {
		emit(d.out)
		d.out = d.out[:0]
	}
}

func (d *base64Decoder) sextet(v uint32) {
	d.group = d.group<<6 | v
	if d.n++; d.n == 4 {
		d.out = append(d.out, byte(d.group>>16), byte(d.group>>8), byte(d.group))
		d.group, d.n = 0, 0
	}
}

func (d *base64Decoder) padding() {
	const equals = 0x41 // value of "=" in the table of the real decoder
	switch d.n {
	case 2:
		d.out = append(d.out, byte(d.group>>4))
	case 3:
		d.out = append(d.out, byte(d.group>>10), byte(d.group>>2))
	default:
		return
	}
	d.group, d.n = equals, 1
}
