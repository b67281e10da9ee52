package mail

import (
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// maxAuthResults is how many Authentication-Results fields of a message are read,
// from the top, where the last host has written its own.
const maxAuthResults = 32

// SourceBy is [Message.Source] with what hosts have verified: the results of DKIM
// and SPF in those Authentication-Results fields (RFC 8601) that bear one of the
// given names. A host must remove fields of its name from mail that comes in, as
// RFC 8601 section 5 wants it: what it lets in is believed.
//
// A domain one of whose DKIM signatures in the message leaves an end of the body
// unsigned is not taken for verified.
//
// envelope is the sender of the envelope, "" for the one that the message names.
func (m *Message) SourceBy(hosts []string, envelope string) bulkhead.Source {
	return m.SourceVerified(hosts, envelope, nil, "")
}

// SourceVerified is [Message.SourceBy] with what the caller has verified by itself: the
// domains of DKIM signatures, and the domain of the envelope's sender by SPF, "" for
// none.
func (m *Message) SourceVerified(hosts []string, envelope string, dkim []string, spfDomain string) bulkhead.Source {
	s := m.Source()
	if envelope != "" {
		s.ClaimedSender = envelope
	}
	s.DKIM = slices.Clone(dkim)
	var spf []string
	if spfDomain != "" {
		spf = append(spf, spfDomain)
	}
	for _, field := range m.authResults {
		s.DKIM, spf = authenticated(s.DKIM, spf, field, hosts)
	}
	s.DKIM = slices.DeleteFunc(s.DKIM, func(d string) bool { return slices.Contains(m.cutSigned, d) })
	// Either method speaks for addresses of its domain, in the envelope or in From.
	for _, address := range []string{m.author, s.ClaimedSender} {
		if address == m.From && m.author == "" {
			continue // one of several, of which readers show any
		}
		if at := strings.LastIndexByte(address, '@'); at >= 0 && (covers(s.DKIM, address[at+1:]) ||
			covers(spf, address[at+1:])) {
			s.Sender = address
			break
		}
	}
	if covers(s.DKIM, m.ListID) {
		s.ListID = m.ListID
	}
	return s
}

// cutSignature reads a DKIM-Signature field, and returns its domain and whether it limits how
// much of the body is signed (RFC 6376, tag l): an attacker can append to such a message and pass
// for the domain.
func cutSignature(field string) (domain string, cut bool) {
	for tag := range strings.SplitSeq(field, ";") {
		name, value, _ := strings.Cut(tag, "=")
		switch strings.TrimSpace(name) {
		case "d":
			domain = domainOf(strings.TrimSpace(value))
		case "l":
			cut = true
		}
	}
	return domain, cut
}

// covers reports whether name is one of domains or below one.
func covers(domains []string, name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(domains, func(d string) bool { return name == d || strings.HasSuffix(name, "."+d) })
}

// authenticated appends what one field has verified: the domains of DKIM
// signatures, and of the envelope's sender. A field of another host, or one that
// is not wholly of its form, says nothing.
func authenticated(dkim, spf []string, field string, hosts []string) (allDKIM, allSPF []string) {
	r := resultReader{rest: field}
	host, ok := r.value()
	if !ok || !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return dkim, spf
	}
	allDKIM, allSPF = slices.Clip(dkim), slices.Clip(spf)
	r.value() // a version may follow
	for r.space(); !r.bad && r.rest != ""; r.space() {
		if !r.take(';') {
			return dkim, spf
		}
		method, properties := r.result()
		var found string
		switch method {
		case "dkim":
			if found = properties["header.d"]; found == "" {
				found = properties["header.i"]
			}
			if d := domainOf(found); d != "" {
				allDKIM = append(allDKIM, d)
			}
		case "spf":
			if d := domainOf(properties["smtp.mailfrom"]); d != "" {
				allSPF = append(allSPF, d)
			}
		}
	}
	if r.bad {
		return dkim, spf
	}
	return allDKIM, allSPF
}

// domainOf returns the domain of an address, or what is one; "" if it is none.
func domainOf(text string) string {
	text = strings.ToLower(strings.TrimSuffix(text[strings.LastIndexByte(text, '@')+1:], "."))
	if !strings.Contains(text, ".") || strings.HasPrefix(text, ".") {
		return ""
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c == 0x7f || strings.IndexByte(`"\,;<>()[]`, c) >= 0 {
			return ""
		}
	}
	return text
}

// A resultReader reads the value of an Authentication-Results field. If it cannot read a
// part, the whole field is bad: a part that comes from the sender of the mail must not be
// misread.
type resultReader struct {
	rest string
	bad  bool
}

// result reads one "method=result property=value ...", and returns the method and
// its properties; no method if the result is not "pass".
func (r *resultReader) result() (method string, properties map[string]string) {
	properties = make(map[string]string)
	for first := true; !r.bad; first = false {
		if r.space(); r.rest == "" || r.rest[0] == ';' {
			return method, properties
		}
		name := strings.ToLower(r.run("=;"))
		if !r.take('=') {
			r.bad = !first || name != "none" // "none" says that nothing was verified
			continue
		}
		value, ok := r.value()
		_, twice := properties[name]
		switch {
		case name == "" || !ok || twice:
			r.bad = true
		case !first:
			properties[name] = value
		case strings.EqualFold(value, "pass"):
			method, _, _ = strings.Cut(name, "/") // its version
		}
	}
	return "", nil
}

// value reads words and quoted strings up to the next space, comment or semicolon,
// and reports whether there was anything.
func (r *resultReader) value() (string, bool) {
	r.space()
	var b strings.Builder
	for r.rest != "" {
		if r.rest[0] == '"' {
			b.WriteString(r.quoted())
			continue
		}
		word := r.run(";")
		if word == "" {
			break
		}
		b.WriteString(word)
		if r.rest != "" && r.rest[0] != '"' {
			break
		}
	}
	return b.String(), b.Len() > 0
}

// run reads bytes up to a space, a comment, a quoted string or one of stop.
func (r *resultReader) run(stop string) string {
	n := strings.IndexFunc(r.rest, func(c rune) bool {
		return c <= ' ' || c == '(' || c == '"' ||
			strings.ContainsRune(stop, c)
	})
	if n < 0 {
		n = len(r.rest)
	}
	word := r.rest[:n]
	r.rest = r.rest[n:]
	return word
}

// quoted reads a quoted string, of which the first quote is next.
func (r *resultReader) quoted() string {
	var b strings.Builder
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '"':
			r.rest = r.rest[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(r.rest):
			i++
			b.WriteByte(r.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	r.rest, r.bad = "", true
	return ""
}

// take skips space, and c if it follows, which it reports.
func (r *resultReader) take(c byte) bool {
	r.space()
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// space skips white space and comments. Quotes in a comment must match, unlike in
// RFC 5322: hosts that write an address into one do not always quote it again.
func (r *resultReader) space() {
	depth := 0
	for r.rest != "" {
		switch c := r.rest[0]; {
		case c == '(':
			depth++
		case depth == 0 && c > ' ':
			return
		case c == ')':
			depth--
		case c == '"':
			r.quoted()
			continue
		case c == '\\' && len(r.rest) > 1:
			r.rest = r.rest[1:]
		}
		r.rest = r.rest[1:]
	}
	r.bad = r.bad || depth > 0
}
