package dcc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// Letters of a reply, docs/specs/dcc.md#dccifd-reply.
const (
	letterAccept    = 'A'
	letterReject    = 'R'
	letterGrey      = 'G'
	letterTemporary = 'T'
)

// A countedSum is a checksum of a message with its totals.
type countedSum struct {
	digests.Sum
	kept      bool
	total     Total
	threshold uint32 // 0 for none
}

// metrics is the content of the X-DCC header of a message.
type metrics struct {
	host     string // our name
	serverID uint32
	brand    string
	white    bool
	bulk     bool
	black    bool   // by the client's own list: Body is shown as many
	listed   bool   // by the verdict on the whole message: likewise
	reason   string // of that verdict
	sums     []countedSum
}

// count prints a total as DCC does.
func count(n uint32) string {
	if n == Many {
		return "many"
	}
	return strconv.FormatUint(uint64(n), 10)
}

// header returns the X-DCC header with its line end, folded.
//
// Source: docs/specs/dcc.md#x-dcc-header.
func (m *metrics) header() string {
	if m.white {
		return "X-DCC--Metrics: " + m.host + "; whitelist\n"
	}
	words := []string{fmt.Sprintf("X-DCC-%s-Metrics: %s %d;", m.brand, m.host, m.serverID)}
	if m.bulk {
		words = append(words, "bulk")
	}
	hasBody := false
	for i := range m.sums {
		s := &m.sums[i]
		n := s.total.Current
		switch s.Type {
		case digests.TypeBody:
			hasBody = true
			if m.black || m.listed {
				n = Many
			}
		case digests.TypeFuz1, digests.TypeFuz2:
			if !hasBody {
				words, hasBody = append(words, "Body="+count(m.bodiless())), true
			}
		default:
			if n == 0 {
				continue
			}
		}
		words = append(words, s.Type.String()+"="+count(n))
	}
	if !hasBody {
		words = append(words, "Body="+count(m.bodiless()))
	}
	return fold(append(words, comment(m.reason)...))
}

// bodiless is the total of Body for a message without a body.
func (m *metrics) bodiless() uint32 {
	if m.black || m.listed {
		return Many
	}
	return 0
}

// maxReason is the most bytes of a reason that are shown.
const maxReason = 160

// comment returns the words of a reason in parentheses. Callers look for counts anywhere
// in the header, and the message chooses some of the words, so anything that reads like
// a count, or ends the comment, is replaced.
func comment(reason string) []string {
	words := strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("=;()\\\"", r) {
			return ' '
		}
		return r
	}, reason[:min(len(reason), maxReason)]))
	if len(words) == 0 {
		return nil
	}
	words[0] = "(" + words[0]
	words[len(words)-1] += ")"
	return words
}

// fold joins words by blanks into lines of at most 78 columns.
func fold(words []string) string {
	const columns = 78
	var b strings.Builder
	column := 0
	for i, w := range words {
		switch {
		case i == 0:
		case column+1+len(w) > columns:
			b.WriteString("\n\t")
			column = 8
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(w)
		column += len(w)
	}
	b.WriteByte('\n')
	return b.String()
}

// table returns the table of checksums.
//
// Source: docs/specs/dcc.md#dccifd-examples.
func (m *metrics) table(reported string) string {
	thresholds := false
	for i := range m.sums {
		thresholds = thresholds || m.sums[i].threshold > 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%28s%-26schecksum  server", "", "reported: "+reported)
	if thresholds {
		b.WriteString(" thold")
	}
	b.WriteByte('\n')
	for i := range m.sums {
		s := &m.sums[i]
		fmt.Fprintf(&b, "%25s: %x %x %x %x", s.Type, s.Sum.Sum[0:4], s.Sum.Sum[4:8], s.Sum.Sum[8:12], s.Sum.Sum[12:16])
		if s.kept {
			fmt.Fprintf(&b, "%8s", count(s.total.Previous))
			if s.threshold > 0 {
				fmt.Fprintf(&b, "%6s", count(s.threshold))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// insertHeader returns a message with the header added at the end of its header block,
// and without X-DCC headers of the same brand.
func insertHeader(message []byte, brand, header string) []byte {
	crlf := false
	out := make([]byte, 0, len(message)+len(header)+8)
	own := []byte("x-dcc-" + strings.ToLower(brand) + "-metrics:")
	rest, dropping := message, false
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		line := rest[:end]
		if trimmed := bytes.TrimRight(line, "\r\n"); len(trimmed) == 0 {
			break
		}
		crlf = crlf || bytes.HasSuffix(line, []byte("\r\n"))
		rest = rest[end:]
		if line[0] != ' ' && line[0] != '\t' {
			dropping = len(line) >= len(own) && bytes.EqualFold(line[:len(own)], own)
		}
		if !dropping {
			out = append(out, line...)
		}
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	if crlf {
		header = strings.ReplaceAll(header, "\n", "\r\n")
	}
	return append(append(out, header...), rest...)
}
