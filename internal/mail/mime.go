package mail

import (
	charsets "github.com/bulkhead-mail/bulkhead/internal/text/charset"

	"bytes"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A reader walks the MIME tree of one message and collects its leaves.
type reader struct {
	m            *Message
	pace         *pace.Pace
	room         int // bytes that what is decoded may still take
	entities     int
	alternatives int
	attached     [][]byte // the messages that are not in another one
}

// A place is the position of an entity in the tree.
type place struct {
	depth       int
	alternative int
	branch      int
	siblings    int
	embedded    bool
	digest      bool // parts of a multipart/digest are messages unless they say otherwise
}

func (r *reader) entity(h header, body []byte, at place) {
	if r.pace.Over(1) {
		return
	}
	if r.entities++; r.entities > maxParts {
		if r.entities == maxParts+1 {
			r.m.damage("more than %d parts", maxParts)
			r.m.Cut = true
		}
		return
	}
	kind, params := h.params("Content-Type")
	if kind == "" || !strings.Contains(kind, "/") {
		kind = "text/plain"
		if at.digest {
			kind = "message/rfc822"
		}
	}
	how := transferEncoding(strings.ToLower(h.get("Content-Transfer-Encoding")))
	name := fileName(h)
	if what := holdingOf(kind, name); what != holdsFile && r.held(what, name != "", how, body, at) {
		return
	}
	if kind == "message/external-body" {
		// Mail programs show a link in its place.
		at := strings.Join(strings.Fields(params["url"]), "")
		r.m.Parts = append(r.m.Parts, Part{Type: "text/plain", Attachment: true, Text: decodeText([]byte(at), "utf-8")})
		return
	}
	composite := strings.HasPrefix(kind, "multipart/") || kind == "message/rfc822" || kind == "message/global"
	if composite && at.depth >= maxDepth {
		r.m.damage("parts nested deeper than %d", maxDepth)
		r.m.Cut = true
		composite, kind = false, "text/plain"
	}
	switch {
	case composite && strings.HasPrefix(kind, "multipart/"):
		if r.multipart(kind, params["boundary"], how, body, at) {
			return
		}
		kind = "text/plain"
	case composite:
		data, _ := r.decodeTransfer(how, body)
		r.message(r.keep(data, body), at)
		return
	}
	r.leaf(h, kind, params["charset"], how, body, at)
}

// message reads a message within another one.
func (r *reader) message(raw []byte, at place) {
	if raw = trimStart(raw); !at.embedded && len(raw) > 0 {
		r.attached = append(r.attached, raw)
	}
	at.depth++
	at.embedded = true
	at.digest = false
	at.siblings = 0
	h, body := r.header(raw)
	r.entity(h, body, at)
}

// held reads what an entity, which may have a name as a file, holds. It reports whether it holds what it
// seems to.
func (r *reader) held(what holding, named bool, how encoding, body []byte, at place) bool {
	if at.depth >= maxDepth {
		return false
	}
	data, _ := r.decodeTransfer(how, body)
	if what == holdsMessage {
		if !beginsMessage(data, named) {
			return false
		}
		r.message(r.keep(data, body), at)
		return true
	}
	inner := unsigned(data, r.pace)
	if len(inner) == 0 {
		return false
	}
	at.depth++
	h, content := r.header(r.keep(inner, body))
	r.entity(h, content, at)
	return true
}

func (r *reader) leaf(h header, kind, charset string, how encoding, body []byte, at place) {
	part := Part{Type: kind, HTML: kind == "text/html", Alternative: at.alternative, Branch: at.branch,
		Siblings: at.siblings, Embedded: at.embedded}
	part.describe(h)
	part.flowed = kind == "text/plain" && strings.EqualFold(parameter(h.get("Content-Type"), "delsp"), "yes")
	part.body, part.how, part.charset = body, how, charset
	var data []byte
	if data, part.odd = r.decodeTransfer(how, body); part.IsText() {
		part.Text = r.text(data, charset, sameMemory(data, body))
		same := sameMemory(scan.Bytes(part.Text), data)
		part.guessed = isGuess(charset) && !same
		if how == inQuoted && !part.odd && same && len(part.Text) == len(data) {
			part.lined = asString(append(data, '\n'))
		}
		part.odd = part.odd || bytes.IndexByte(data, 0) >= 0 || charsets.Sniffed(data,
			charsets.Name(charset)) != charsets.Name(charset)
		if unmarked, ok := strings.CutPrefix(part.Text, "\ufeff"); ok {
			part.Text, part.odd, part.lined = unmarked, true, "" // which is no letter
		}
	} else {
		part.Data = r.keep(data, body)
	}
	r.m.Parts = append(r.m.Parts, part)
}

// describe sets the properties that a part has as a file, from its fields.
func (p *Part) describe(h header) {
	if field := h.get("Content-Disposition"); field != "" {
		disposition, _, _ := strings.Cut(field, ";")
		p.Attachment = strings.EqualFold(strings.TrimSpace(disposition), "attachment")
		p.Name = parameter(field, "filename")
	}
	p.Referenced = h.get("Content-Id") != ""
	if p.Name == "" {
		p.Name = parameter(h.get("Content-Type"), "name")
		p.named = p.Name != ""
	}
}

// fileName returns the name of a part as a file, "" for none.
func fileName(h header) string {
	var p Part
	p.describe(h)
	return p.Name
}

// multipart reads the parts of body and reports whether there were any.
func (r *reader) multipart(kind, boundary string, how encoding, body []byte, at place) bool {
	parts, closed := splitParts(body, boundary)
	if len(parts) == 0 {
		// An encoding is not allowed here, and yet some senders use one.
		if decoded, _ := r.decodeTransfer(how, body); len(decoded) != len(body) {
			body = r.keep(decoded, body)
			parts, closed = splitParts(body, boundary)
		}
	}
	if len(parts) == 0 {
		guess := guessBoundary(body)
		if guess == "" || guess == boundary {
			r.m.damage("%s without its boundary %.40q", kind, boundary)
			return false
		}
		r.m.damage("%s with boundary %.40q, found %.40q", kind, boundary, guess)
		parts, closed = splitParts(body, guess)
	}
	if !closed {
		r.m.damage("%s without its final boundary", kind)
	}
	before := len(r.m.Parts)
	at.depth++
	at.digest = kind == "multipart/digest"
	at.siblings = len(parts) - 1
	if kind == "multipart/alternative" && at.alternative == 0 {
		r.alternatives++
		at.alternative = r.alternatives
	}
	fresh := kind == "multipart/alternative" && at.branch == 0
	r.m.Parts = slices.Grow(r.m.Parts, min(len(parts), maxParts-min(r.entities, maxParts)))
	for i, part := range parts {
		if fresh {
			at.branch = i + 1
		}
		if bytes.IndexByte(part, '\n') < 0 && bytes.IndexByte(part, '\r') >= 0 {
			part = r.keep(bytes.ReplaceAll(part, []byte("\r"), []byte("\n")), nil)
		}
		h, body := r.header(part)
		r.entity(h, body, at)
	}
	return len(r.m.Parts) > before
}

// splitParts cuts a multipart body at its boundary lines. The parts exclude the
// line end before each boundary. closed reports whether the final one is there.
func splitParts(body []byte, boundary string) (parts [][]byte, closed bool) {
	if boundary == "" {
		return nil, false
	}
	mark := []byte("--" + boundary)
	start := -1
	for at := 0; len(parts) < maxParts; {
		i := bytes.Index(body[at:], mark)
		if i < 0 {
			break
		}
		i += at
		next, final, ok := boundaryLine(body, i, len(mark))
		at = i + len(mark)
		if !ok {
			continue
		}
		if start >= 0 {
			parts = append(parts, trimLineEnd(body[start:max(i, start)]))
		}
		if final {
			return parts, true
		}
		start, at = next, next
	}
	if start >= 0 && len(parts) < maxParts {
		parts = append(parts, body[start:])
	}
	return parts, false
}

// boundaryLine reports whether the boundary text of n bytes at i is a line of
// its own, where the next line begins, and whether it is the final boundary.
func boundaryLine(body []byte, i, n int) (next int, final, ok bool) {
	if i > 0 && body[i-1] != '\n' && body[i-1] != '\r' {
		return 0, false, false
	}
	j := i + n
	if bytes.HasPrefix(body[j:], []byte("--")) {
		final = true
		j += 2
	}
	for j < len(body) && (body[j] == ' ' || body[j] == '\t') {
		j++
	}
	switch {
	case j == len(body):
		return j, final, true
	case body[j] == '\n':
		return j + 1, final, true
	case body[j] == '\r':
		if j+1 < len(body) && body[j+1] == '\n' {
			j++
		}
		return j + 1, final, true
	}
	return 0, false, false
}

func trimLineEnd(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}

// guessBoundary returns the boundary of a multipart body whose header lost it:
// the first line that begins with two hyphens and is followed by a Content
// field.
func guessBoundary(body []byte) string {
	rest := body
	for range 64 {
		line, after, ok := cutLine(rest)
		if !ok {
			return ""
		}
		rest = after
		text, found := bytes.CutPrefix(bytes.TrimRight(line, " \t"), []byte("--"))
		if !found || len(text) == 0 || len(text) > 200 {
			continue
		}
		next, _, _ := cutLine(after)
		if len(next) > 8 && strings.EqualFold(string(next[:8]), "content-") {
			return string(text)
		}
	}
	return ""
}
