package razor

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/pace"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

const (
	agentLine = "X-Razor2-Agent: Razor-Agents v2.84\n"
	maxBody   = 61440 // bytes of a part that the client looks at
	maxHeader = 4096  // bytes of a part's header that it keeps
)

// isBlank is what the client's patterns take for white space.
func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func allBlank(b []byte) bool {
	for _, c := range b {
		if !isBlank(c) {
			return false
		}
	}
	return true
}

// blankLine finds the first LF CR* LF: its start, and what follows it. It
// returns -1 if there is none.
func blankLine(b []byte) (start, end int) {
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return -1, -1
		}
		start = i + n
		end = start + 1
		for end < len(b) && b[end] == '\r' {
			end++
		}
		if end < len(b) && b[end] == '\n' {
			return start, end + 1
		}
		i = start + 1
	}
}

// cut separates header and body. A body that is empty or "0" is absent.
func cut(b []byte) (header, body []byte, ok bool) {
	start, end := blankLine(b)
	if start < 0 || end == len(b) || string(b[end:]) == "0" {
		return b, nil, false
	}
	return b[:start], b[end:], true
}

// A rawPart is a part of a mail before it is prepared: the lines of its header
// that are kept, behind one that names the client, and its body.
type rawPart struct{ kept, body []byte }

// A splitter cuts a mail into parts.
type splitter struct {
	pace  *pace.Pace
	parts int // so far
}

// split calls take for each raw part of a mail: docs/specs/razor2.md#split. A
// depth above 0 means a nested part.
func (s *splitter) split(mail []byte, depth int, take func(rawPart)) {
	if s.parts >= maxParts || s.pace.Over(1) {
		return
	}
	header, body, ok := cut(mail)
	if !ok || depth > 0 && !scan.HasPrefixFold(mail, "Content-Type:") {
		// All of it is the body, behind an empty line.
		s.parts++
		take(rawPart{body: bytes.TrimPrefix(mail, []byte{'\n'})})
		return
	}
	kept := keepFields(header, s.pace)
	boundary, ok := boundaryOf(kept)
	if !ok || depth >= maxDepth {
		s.parts++
		take(rawPart{kept, body})
		return
	}
	for piece := range pieces(body, boundary) {
		if s.pace.Over(1) {
			return
		}
		if !allBlank(piece) {
			s.split(piece, depth+1, take)
		}
	}
}

// maxKept bounds what is kept of a header, in bytes: far more than maxHeader, so that only the
// length that the client reports for it is wrong.
const maxKept = 64 << 10

// keepFields returns the header lines that a part keeps, unfolded, each with its
// LF: each LF that blanks follow is gone, and the blanks.
func keepFields(header []byte, p *pace.Pace) []byte {
	var kept []byte
	for len(header) > 0 && len(kept) < maxKept {
		line, rest := folded(header)
		if p.Over(len(header) - len(rest)) {
			break
		}
		header = rest
		if begin := line[:min(len(line), len("X-Razor2"))]; bytes.IndexByte(begin, '\n') < 0 && !isKept(begin) {
			continue // as most are
		}
		start := len(kept)
		kept = unfold(kept, line[:min(len(line), maxKept)])
		if isKept(kept[start:]) {
			kept = append(kept, '\n')
		} else {
			kept = kept[:start]
		}
	}
	return kept
}

// isKept reports whether a line begins a header field that a part keeps.
func isKept(line []byte) bool {
	return scan.HasPrefixFold(line, "Content-") || scan.HasPrefixFold(line, "X-Razor2")
}

// folded returns the first line of a header with all that is folded into
// it, and what follows behind its LF.
func folded(header []byte) (line, rest []byte) {
	for end := 0; ; {
		n := bytes.IndexByte(header[end:], '\n')
		if n < 0 {
			return header, nil
		}
		if end += n + 1; end == len(header) || !isBlank(header[end]) {
			return header[:end-1], header[end:]
		}
		for end < len(header) && isBlank(header[end]) {
			end++
		}
	}
}

// unfold appends a header to dst without each LF that blanks follow, and
// without the blanks.
func unfold(dst, header []byte) []byte {
	for i := 0; i < len(header); i++ {
		if header[i] == '\n' && i+1 < len(header) && isBlank(header[i+1]) {
			for i+1 < len(header) && isBlank(header[i+1]) {
				i++
			}
			continue
		}
		dst = append(dst, header[i])
	}
	return dst
}

// boundaryOf returns the boundary of the first kept line that has one. A
// quoted boundary may go on into the next kept line.
func boundaryOf(kept []byte) (string, bool) {
	const multipart, key = "Content-Type: multipart", "boundary="
	for start := 0; start < len(kept); {
		end := start + bytes.IndexByte(kept[start:], '\n')
		if scan.HasPrefixFold(kept[start:end], multipart) {
			for i := end - len(key); i > start+len(multipart); i-- {
				if !scan.HasPrefixFold(kept[i:], key) {
					continue
				}
				if b, ok := boundaryValue(kept[i+len(key):]); ok {
					return b, true
				}
			}
		}
		start = end + 1
	}
	return "", false
}

func boundaryValue(v []byte) (string, bool) {
	if len(v) > 0 && v[0] == '"' {
		if end := bytes.IndexByte(v[1:], '"'); end >= 0 {
			return string(v[1 : 1+end]), true
		}
	}
	end := 0
	for end < len(v) && !isBlank(v[end]) {
		end++
	}
	return string(v[:end]), end > 0
}

// pieces cuts the body of a multipart at its boundary.
func pieces(body []byte, boundary string) iter.Seq[[]byte] {
	// An empty boundary, quoted, is one.
	closing := []byte("\n--" + boundary + "--")
	separator := closing[:len(closing)-2]
	dashes := separator[1:]
	if strings.IndexByte(boundary, '\n') >= 0 {
		body, _, _ = bytes.Cut(body, closing)
	}
	return func(yield func([]byte) bool) {
		// The first closing boundary ends all, also where its line end is that of another one.
		cut := func(at int) bool {
			closed := bytes.HasPrefix(body[at:], closing)
			if closed {
				body = body[:at]
			}
			return closed
		}
		lineEnd := func(at int) int {
			end := lineEnd(body[at:])
			if end > 0 && cut(at+end-1) {
				return 0
			}
			return end
		}
		start, first := 0, true
		if bytes.HasPrefix(body, dashes) {
			// The line end before it belongs to the header.
			if end := lineEnd(len(dashes)); end > 0 {
				start, first = len(dashes)+end, false
			}
		}
		for i := start; ; {
			n := bytes.Index(body[i:], separator)
			if n < 0 || cut(i+n) {
				break
			}
			after := i + n + len(separator)
			end := lineEnd(after)
			if end == 0 {
				i += n + 1
				continue
			}
			if !first && !yield(body[start:i+n]) {
				return
			}
			first = false
			start = after + end
			i = start
		}
		if !first || !bytes.Contains(body, dashes) {
			yield(body[start:])
		}
	}
}

// lineEnd returns the length of the CR* LF at the start of b, or 0.
func lineEnd(b []byte) int {
	i := 0
	for i < len(b) && b[i] == '\r' {
		i++
	}
	if i < len(b) && b[i] == '\n' {
		return i + 1
	}
	return 0
}

// front is the room before the body of a part that is prepared: for its header.
const front = maxHeader + 1

// prepare brings a part into the form that is hashed and sent:
// docs/specs/razor2.md#prepare. It reports false for a part without a body. It puts the part
// into room.
func (r rawPart) prepare(room *[front + maxBody]byte, p *pace.Pace) ([]byte, bool) {
	if len(r.body) == 0 || string(r.body) == "0" {
		return nil, false
	}
	whole, n := unixLines(room[:front], r.body, len(room), p)
	if size := len(agentLine) + len(r.kept); n <= maxBody && size <= maxHeader && bytes.IndexByte(r.kept, '\r') < 0 {
		start := front - size - 1
		copy(whole[start+copy(whole[start:], agentLine):], r.kept)
		whole[front-1] = '\n'
		return whole[start:], true
	}
	head := agentLine + string(r.kept)
	out := make([]byte, 0, len(head)+1)
	// The last line end of the header is not part of it.
	out, _ = unixLines(out, []byte(head[:len(head)-1]), len(head), p)
	out = append(out, '\n')
	if n > maxBody {
		out = append([]byte("X-Razor2-Origlen-Body: "+strconv.Itoa(n)+"\n"), out...)
	}
	if n := len(out); n > maxHeader {
		out = append([]byte("X-Razor2-Origlen-Header: "+strconv.Itoa(n)+"\n"), out...)
		out = out[:maxHeader]
		out = out[:bytes.LastIndexByte(out, '\n')+1]
	}
	out = append(out, '\n')
	start := front - len(out)
	copy(whole[start:], out)
	return whole[start:], true
}

// unixLines appends b to dst with LF for every CR+ LF, as long as dst has no more
// than most bytes. It returns the length that all of b would have.
func unixLines(dst, b []byte, most int, p *pace.Pace) (out []byte, size int) {
	add := func(text []byte) {
		size += len(text)
		dst = append(dst, text[:min(len(text), most-len(dst))]...)
	}
	for {
		i := bytes.IndexByte(b, '\r')
		if i < 0 {
			add(b)
			return dst, size
		}
		j := i
		for j < len(b) && b[j] == '\r' {
			j++
		}
		if p.Over(j) {
			return dst, size
		}
		if j < len(b) && b[j] == '\n' {
			add(b[:i])
		} else {
			add(b[:j])
		}
		b = b[j:]
	}
}
