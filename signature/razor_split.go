package signature

import (
	"bytes"
	"strconv"
)

const (
	razorAgentLine = "X-Razor2-Agent: Razor-Agents v2.84\n"
	razorMaxBody   = 61440 // bytes of a part that the client looks at
	razorMaxHeader = 4096  // bytes of a part's header that it keeps
)

// isRazorBlank is what the client's patterns take for white space.
func isRazorBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func allRazorBlank(b []byte) bool {
	for _, c := range b {
		if !isRazorBlank(c) {
			return false
		}
	}
	return true
}

// razorBlankLine finds the first LF CR* LF: its start, and what follows it. It
// returns -1 if there is none.
func razorBlankLine(b []byte) (start, end int) {
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

// razorCut separates header and body. A body that is empty or "0" is absent.
func razorCut(b []byte) (header, body []byte, ok bool) {
	start, end := razorBlankLine(b)
	if start < 0 || end == len(b) || string(b[end:]) == "0" {
		return b, nil, false
	}
	return b[:start], b[end:], true
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// razorSplit adds the raw parts of a mail to parts: docs/specs/razor2.md#split.
// A depth above 0 means a nested part.
func razorSplit(mail []byte, depth int, parts [][]byte) [][]byte {
	if len(parts) >= maxRazorParts {
		return parts
	}
	header, body, ok := razorCut(mail)
	if !ok || depth > 0 && !hasPrefixFold(mail, "Content-Type:") {
		part := []byte(razorAgentLine)
		if len(mail) == 0 || mail[0] != '\n' {
			part = append(part, '\n')
		}
		return append(parts, append(part, mail...))
	}
	kept := razorKeep(razorUnfold(header))
	boundary, ok := razorBoundary(kept)
	if !ok || depth >= maxRazorDepth {
		part := append([]byte(razorAgentLine), kept...)
		part = append(part, '\n')
		return append(parts, append(part, body...))
	}
	for _, piece := range razorPieces(body, boundary) {
		if !allRazorBlank(piece) {
			parts = razorSplit(piece, depth+1, parts)
		}
	}
	return parts
}

// razorUnfold removes each LF that blanks follow, and the blanks.
func razorUnfold(header []byte) []byte {
	out := make([]byte, 0, len(header))
	for i := 0; i < len(header); i++ {
		if header[i] == '\n' && i+1 < len(header) && isRazorBlank(header[i+1]) {
			for i+1 < len(header) && isRazorBlank(header[i+1]) {
				i++
			}
			continue
		}
		out = append(out, header[i])
	}
	return out
}

// razorKeep returns the header lines that a part keeps, each with its LF.
func razorKeep(header []byte) []byte {
	var kept []byte
	for line := range bytes.SplitSeq(header, []byte{'\n'}) {
		if hasPrefixFold(line, "Content-") || hasPrefixFold(line, "X-Razor2") {
			kept = append(kept, line...)
			kept = append(kept, '\n')
		}
	}
	return kept
}

// razorBoundary returns the boundary of the first kept line that has one. A
// quoted boundary may go on into the next kept line.
func razorBoundary(kept []byte) (string, bool) {
	const multipart, key = "Content-Type: multipart", "boundary="
	for start := 0; start < len(kept); {
		end := start + bytes.IndexByte(kept[start:], '\n')
		if hasPrefixFold(kept[start:end], multipart) {
			for i := end - len(key); i > start+len(multipart); i-- {
				if !hasPrefixFold(kept[i:], key) {
					continue
				}
				if b, ok := razorBoundaryValue(kept[i+len(key):]); ok {
					return b, true
				}
			}
		}
		start = end + 1
	}
	return "", false
}

func razorBoundaryValue(v []byte) (string, bool) {
	if len(v) > 0 && v[0] == '"' {
		if end := bytes.IndexByte(v[1:], '"'); end >= 0 {
			return string(v[1 : 1+end]), true
		}
	}
	end := 0
	for end < len(v) && !isRazorBlank(v[end]) {
		end++
	}
	return string(v[:end]), end > 0
}

// razorPieces cuts the body of a multipart at its boundary.
func razorPieces(body []byte, boundary string) [][]byte {
	// An empty boundary, quoted, is one.
	dashes := []byte("--" + boundary)
	if i := bytes.Index(body, []byte("\n--"+boundary+"--")); i >= 0 {
		body = body[:i]
	}
	if !bytes.Contains(body, dashes) {
		return [][]byte{body}
	}
	separator := append([]byte{'\n'}, dashes...)
	var pieces [][]byte
	start, first := 0, true
	if bytes.HasPrefix(body, dashes) {
		// The line end before it is that of the header.
		if end := razorLineEnd(body[len(dashes):]); end > 0 {
			start, first = len(dashes)+end, false
		}
	}
	for i := start; ; {
		n := bytes.Index(body[i:], separator)
		if n < 0 {
			break
		}
		after := i + n + len(separator)
		end := razorLineEnd(body[after:])
		if end == 0 {
			i += n + 1
			continue
		}
		if !first {
			pieces = append(pieces, body[start:i+n])
		}
		first = false
		start = after + end
		i = start
	}
	if first {
		return nil
	}
	return append(pieces, body[start:])
}

// razorLineEnd returns the length of the CR* LF at the start of b, or 0.
func razorLineEnd(b []byte) int {
	i := 0
	for i < len(b) && b[i] == '\r' {
		i++
	}
	if i < len(b) && b[i] == '\n' {
		return i + 1
	}
	return 0
}

// razorPrepare brings a part into the form that is hashed and sent:
// docs/specs/razor2.md#prepare. It reports false for a part without a body.
func razorPrepare(part []byte) ([]byte, bool) {
	header, body, ok := razorCut(part)
	if !ok {
		return nil, false
	}
	head := append(razorLF(header), '\n')
	body = razorLF(body)
	if n := len(body); n > razorMaxBody {
		body = body[:razorMaxBody]
		head = append([]byte("X-Razor2-Origlen-Body: "+strconv.Itoa(n)+"\n"), head...)
	}
	if n := len(head); n > razorMaxHeader {
		head = append([]byte("X-Razor2-Origlen-Header: "+strconv.Itoa(n)+"\n"), head...)
		head = head[:razorMaxHeader]
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	head = append(head, '\n')
	return append(head, body...), true
}

// razorLF replaces every CR+ LF by LF, in a copy.
func razorLF(b []byte) []byte {
	out := make([]byte, 0, len(b)+64)
	for {
		i := bytes.IndexByte(b, '\r')
		if i < 0 {
			return append(out, b...)
		}
		j := i
		for j < len(b) && b[j] == '\r' {
			j++
		}
		if j < len(b) && b[j] == '\n' {
			out = append(out, b[:i]...)
		} else {
			out = append(out, b[:j]...)
		}
		b = b[j:]
	}
}
