package mail

import (
	"bytes"
	"mime"
	"regexp"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A header holds the fields of one entity that the reader has a use for, in their order.
type header []field

// A field is a field of a header: its name as in wanted, and its value on one line.
type field struct{ name, value string }

// wanted lists the fields that are read.
var wanted = [...]string{
	"From", "Sender", "Return-Path", "To", "Cc", "Delivered-To", "List-Id", "Message-Id", "Subject", "Date",
	"Authentication-Results", "Dkim-Signature", "Content-Type", "Content-Transfer-Encoding", "Content-Disposition",
	"Content-Id", "Auto-Submitted", "X-Auto-Response-Suppress", "X-Autoreply", "X-Failed-Recipients", "Precedence",
}

// A fieldCount holds how many fields of each wanted name there were.
type fieldCount [len(wanted)]uint8

// take returns the wanted name of a field that is read, "" for another field. Of each name the first is read,
// of From a second one, which makes the first doubtful, and as many Authentication-Results and DKIM signatures as
// are used.
func (c *fieldCount) take(name []byte) string {
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
			return ""
		}
		c[i]++
		return w
	}
	return ""
}

// header cuts raw into its header and the body. Lines that are no header fields are skipped if more fields follow,
// and otherwise begin the body, as mail systems read a message whose empty line is missing.
func (r *reader) header(raw []byte) (h header, body []byte) {
	name, value := "", []byte(nil) // of the present field; no name if it is not read
	end := func() {
		if name != "" {
			h = append(h, field{name, string(bytes.Trim(value, " \t"))})
		}
	}
	seen := new(fieldCount)
	rest := raw
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
		switch written := fieldName(line); {
		case isWhite(line[0]):
			if name != "" && len(name)+len(":")+len(value) < maxField {
				value = appendField(append(value, ' '), bytes.TrimLeft(line, " \t"))
			}
		case written != nil:
			end()
			if name = seen.take(written); name != "" {
				value = appendField(value[:0], line[bytes.IndexByte(line, ':')+1:])
			}
		case bytes.HasPrefix(line, []byte("--")) || !moreFields(after):
			r.m.damage("no empty line between header and body")
			end()
			return h, rest
		default:
			r.m.damage("line in the header that is no field: %.40q", line)
			end()
			name = ""
		}
		rest = after
	}
	end()
	return h, body
}

// automatic reports whether the header says that no person has written the message: it answers or reports
// on another one, or a program made it and wants no answer.
//
// Sources: RFC 3834 section 5, RFC 5321 section 4.5.5 on the null reverse-path, RFC 6522, and the fields of
// Exchange and Exim.
func (h header) automatic() bool {
	switch kind, _, _ := strings.Cut(strings.ToLower(h.get("Auto-Submitted")), ";"); strings.TrimSpace(kind) {
	case "", "no":
	default:
		return true
	}
	return h.get("X-Auto-Response-Suppress") != "" || h.get("X-Autoreply") != "" ||
		strings.EqualFold(h.get("Precedence"), "auto_reply")
}

// returned reports whether the header is the header of a report on another message, such as a bounce.
func (h header) returned() bool {
	return h.get("Return-Path") == "<>" || h.get("X-Failed-Recipients") != "" ||
		scan.HasPrefixFold([]byte(h.get("Content-Type")), "multipart/report")
}

// daemon reports whether the message claims to be from a mail server.
func (h header) daemon() bool {
	return strings.Contains(strings.ToLower(h.get("From")), "mailer-daemon@")
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

// all returns the bytes of the fields of a name, in their order.
func (h header) all(name string) (values []string) {
	for i := range h {
		if h[i].name == name {
			values = append(values, h[i].value)
		}
	}
	return values
}

// first returns the bytes of the first field of a name, "" for none.
func (h header) first(name string) string {
	for i := range h {
		if h[i].name == name {
			return h[i].value
		}
	}
	return ""
}

// get does the same without white space at the ends.
func (h header) get(name string) string { return strings.TrimSpace(h.first(name)) }

// written returns a field as UTF-8, its encoded words as they stand. Bytes that
// are not UTF-8 are read as windows-1252.
func (h header) written(name string) string {
	return strings.TrimSpace(decodeText([]byte(h.first(name)), ""))
}

// text does the same and decodes the encoded words.
func (h header) text(name string) string {
	return strings.TrimSpace(decodeText([]byte(h.undecoded(name)), ""))
}

// undecoded returns a field with its encoded words decoded, and what else is not ASCII as it is.
func (h header) undecoded(name string) string { return decodeWords(h.first(name)) }

// params reads a field of the form VALUE; NAME=VALUE, where the standard
// library's strict reading fails by a lenient one. The value is in lower case.
func (h header) params(name string) (string, map[string]string) {
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
	return looseType(value), params
}

// looseType returns a media type without quotation marks, comments and blanks around it and its slash, and without
// what follows it.
func looseType(written string) string {
	written = strings.ToLower(strings.Trim(written, " \t\""))
	if comment, rest, ok := strings.Cut(written, ")"); ok && strings.HasPrefix(comment, "(") {
		written = strings.TrimSpace(rest)
	}
	kind, subtype, ok := strings.Cut(written, "/")
	if !ok {
		kind, _, _ = strings.Cut(written, " ")
		return kind
	}
	subtype = strings.TrimLeft(subtype, " \t")
	return strings.TrimSpace(kind) + "/" + subtype[:max(0, strings.IndexAny(subtype+" ", " \t,\"("))]
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
