package mail

import (
	"bufio"
	"bytes"
	"mime"
	"regexp"
	"strings"

	gomessage "github.com/emersion/go-message"
	"github.com/emersion/go-message/textproto"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A header holds the fields of one entity that the reader has a use for.
type header struct {
	fields gomessage.Header
}

// wanted lists the fields that are read.
var wanted = [...]string{
	"From", "Sender", "Return-Path", "To", "Cc", "Delivered-To", "List-Id", "Message-Id", "Subject", "Date",
	"Authentication-Results", "Dkim-Signature", "Content-Type", "Content-Transfer-Encoding", "Content-Disposition",
	"Content-Id", "Auto-Submitted", "X-Auto-Response-Suppress", "X-Autoreply", "X-Failed-Recipients", "Precedence",
}

// A fieldCount holds how many fields of each wanted name there were.
type fieldCount [len(wanted)]uint8

// take reports whether a field of that name is read: the first of each name, a second From,
// which makes the first doubtful, and as many Authentication-Results and DKIM signatures as
// are used.
func (c *fieldCount) take(name []byte) bool {
	for i, w := range wanted {
		if len(w) != len(name) || !strings.EqualFold(w, string(name)) {
			continue
		}
		most := uint8(1)
		switch w {
		case "From":
			most = 2
		case "Authentication-Results", "Dkim-Signature":
			most = maxAuthResults
		}
		if c[i] == most {
			return false
		}
		c[i]++
		return true
	}
	return false
}

// header cuts raw into the header that go-message can read and the body. Lines
// that are no header fields are skipped if more fields follow, and otherwise
// begin the body, as mail systems read a message whose empty line is missing.
func (r *reader) header(raw []byte) (header, []byte) {
	var clean []byte
	start := 0 // of the present field in clean
	keep, seen := false, new(fieldCount)
	rest, body := raw, []byte(nil)
	for len(rest) > 0 {
		line, after, _ := cutLine(rest)
		if len(raw)-len(after) > maxHeader {
			r.m.damage("header longer than %d bytes", maxHeader)
			body = rest
			break
		}
		if r.pace.Over(len(line) + 1) {
			break
		}
		if len(line) == 0 {
			body = after
			break
		}
		switch name := fieldName(line); {
		case line[0] == ' ' || line[0] == '\t':
			if keep && len(clean)-start < maxField {
				clean = appendField(append(clean, ' '), bytes.TrimLeft(line, " \t"))
			}
		case name != nil:
			if keep = seen.take(name); keep {
				clean = append(clean, '\r', '\n')
				start = len(clean)
				clean = append(clean, name...)
				clean = append(clean, ':')
				clean = appendField(clean, line[bytes.IndexByte(line, ':')+1:])
			}
		case bytes.HasPrefix(line, []byte("--")) || !moreFields(after):
			r.m.damage("no empty line between header and body")
			return readFields(clean), rest
		default:
			r.m.damage("line in the header that is no field: %.40q", line)
			keep = false
		}
		rest = after
	}
	return readFields(clean), body
}

// automatic reports whether the header says that no person has written the message: it answers or reports
// on another one, or a program made it and wants no answer.
//
// Sources: RFC 3834 section 5, RFC 5321 section 4.5.5 on the null reverse-path, RFC 6522, and the fields of
// Exchange and Exim.
func (h *header) automatic() bool {
	if h.fields.Len() == 0 {
		return false
	}
	switch kind, _, _ := strings.Cut(strings.ToLower(h.get("Auto-Submitted")), ";"); strings.TrimSpace(kind) {
	case "", "no":
	default:
		return true
	}
	return h.get("X-Auto-Response-Suppress") != "" || h.get("X-Autoreply") != "" ||
		strings.EqualFold(h.get("Precedence"), "auto_reply")
}

// returned reports whether the header is the header of a report on another message, such as a bounce.
func (h *header) returned() bool {
	return h.fields.Len() > 0 && (h.get("Return-Path") == "<>" || h.get("X-Failed-Recipients") != "" ||
		scan.HasPrefixFold([]byte(h.get("Content-Type")), "multipart/report"))
}

// daemon reports whether the message claims to be from a mail server.
func (h *header) daemon() bool {
	return h.fields.Len() > 0 && strings.Contains(strings.ToLower(h.get("From")), "mailer-daemon@")
}

func readFields(clean []byte) header {
	if len(clean) == 0 {
		return header{}
	}
	clean = append(bytes.TrimPrefix(clean, []byte("\r\n")), "\r\n\r\n"...)
	fields, err := textproto.ReadHeader(bufio.NewReaderSize(bytes.NewReader(clean), 512))
	if err != nil {
		// Every line of clean is a field, so this is out of reach; a header
		// without fields is still the right degradation.
		return header{}
	}
	return header{gomessage.Header{Header: fields}}
}

// LiteralSubject returns the subject as rspamd has it: with the white space behind its last line,
// and with U+FFFD for each byte that is neither UTF-8 nor encoded, whatever its charset may be.
//
// Source: docs/specs/rspamd-fuzzy.md#direct-text-digest.
func (m *Message) LiteralSubject() string {
	subject := m.Subject
	if m.undecoded != "" {
		var b strings.Builder
		for _, r := range strings.TrimSpace(m.undecoded) {
			b.WriteRune(r)
		}
		subject = b.String()
	}
	return subject + m.subjectTail()
}

// subjectTail returns the white space behind the last line of the field Subject, which Subject is without.
func (m *Message) subjectTail() string {
	tail, in := "", false
	for rest := bytes.TrimLeft(m.Raw[:min(len(m.Raw), maxHeader)], "\r\n"); ; {
		line, after, ok := cutLine(rest)
		if folded := ok && len(line) > 0 && isWhite(line[0]); in && !folded {
			return tail
		} else if !ok || len(line) == 0 {
			return ""
		} else if !folded {
			in = strings.EqualFold(string(fieldName(line)), "Subject")
		}
		if in {
			if text := bytes.TrimRight(line, " \t"); len(text) == 0 {
				tail = "" // a line of white space is none
			} else {
				tail = string(line[len(text):])
			}
		}
		rest = after
	}
}

func isWhite(c byte) bool { return c == ' ' || c == '\t' }

// moreFields reports whether the next line that is not folded is a field or
// the end of the header.
func moreFields(rest []byte) bool {
	for range 4 {
		line, after, ok := cutLine(rest)
		if !ok {
			return false
		}
		if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
			rest = after
			continue
		}
		return len(line) > 0 && fieldName(line) != nil
	}
	return false
}

// fieldName returns the name of the field that line begins, or nil.
func fieldName(line []byte) []byte {
	i := bytes.IndexByte(line, ':')
	if i < 1 || i > 256 {
		return nil
	}
	name := bytes.TrimRight(line[:i], " \t")
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return nil
		}
	}
	return name
}

func appendField(clean, value []byte) []byte {
	if len(value) > maxField {
		value = value[:maxField]
	}
	for _, c := range value {
		if c != 0 && c != '\r' {
			clean = append(clean, c)
		}
	}
	return clean
}

// get returns the bytes of a field.
func (h *header) get(name string) string {
	if h.fields.Len() == 0 {
		return "" // as in many parts, for less than it costs to bring the name into its form
	}
	return strings.TrimSpace(h.fields.Get(name))
}

// written returns a field as UTF-8, its encoded words as they stand. Bytes that
// are not UTF-8 are read as windows-1252.
func (h *header) written(name string) string {
	return strings.TrimSpace(decodeText([]byte(h.fields.Get(name)), ""))
}

// text does the same and decodes the encoded words.
func (h *header) text(name string) string {
	return strings.TrimSpace(decodeText([]byte(h.undecoded(name)), ""))
}

// undecoded returns a field with its encoded words decoded, and what else is not ASCII as it is.
func (h *header) undecoded(name string) string {
	return decodeWords(h.fields.Get(name))
}

// params reads a field of the form VALUE; NAME=VALUE, where the standard
// library's strict reading fails by a lenient one. The value is in lower case.
func (h *header) params(name string) (string, map[string]string) {
	field := h.get(name)
	if field == "" {
		return "", nil
	}
	if value, params, err := mime.ParseMediaType(field); err == nil {
		return value, params
	}
	value, rest, _ := strings.Cut(field, ";")
	params := make(map[string]string)
	for _, match := range looseParam.FindAllStringSubmatch(rest, 32) {
		key := strings.ToLower(match[1])
		if _, seen := params[key]; !seen {
			params[key] = strings.Trim(match[2]+match[3], "'\" \t")
		}
	}
	value, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(value)), " ")
	return value, params
}

var looseParam = regexp.MustCompile(`([A-Za-z0-9*-]+)\s*=\s*(?:"([^"]*)"?|([^;\s]*))`)

// cutLine returns the first line of b without its end, and what follows. ok is
// false when b is empty.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return bytes.TrimSuffix(b, []byte("\r")), nil, len(b) > 0
	}
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:], true
}
