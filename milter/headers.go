package milter

import (
	"fmt"
	"strings"
)

// The headers that are added, and removed from arriving mail.
const (
	HeaderClass   = "X-Bulkhead"
	HeaderResults = "X-Bulkhead-Results"
)

// headerRate is the header that Postfix adds when the policy door reports a rate. It is not forged where it is topmost.
const headerRate = "X-Bulkhead-Rate"

// maxOurs is the longest name of a header that is removed, in bytes. The memory of these names is not in the budget of
// the message.
const maxOurs = 100

// ours reports whether only this milter may add a header of this name.
func ours(name string) bool {
	const prefix = HeaderClass + "-"
	if len(name) <= len(prefix) {
		return strings.EqualFold(name, HeaderClass)
	}
	return len(name) <= maxOurs && strings.EqualFold(name[:len(prefix)], prefix) && !strings.EqualFold(name, headerRate)
}

// maxReason is the longest text of a reason in a header or reply, in bytes.
const maxReason = 300

// results is the value of HeaderResults: the form of Authentication-Results
// (RFC 8601), with what was counted and why.
//
//	mx.example.com; bulkhead=spam confidence=97 seen=120 spam=7 ham=0
//		threshold=20 error=1.2e-07; list=black:bad (url evil.example) error=1.0e-06;
//		reason="..."
func (f *findings) results(host string, c Class) string {
	v := &f.verdict
	var b strings.Builder
	fmt.Fprintf(&b, "%s; bulkhead=%s confidence=%d seen=%d spam=%d ham=%d\n\tthreshold=%d error=%.1e",
		host, c, v.Confidence, v.Sightings, v.SpamVotes, v.HamVotes, v.Threshold, v.Error)
	if f.unanswered && c == ClassSuspected {
		b.WriteString(" unanswered=yes")
	}
	if f.trapped > 0 {
		fmt.Fprintf(&b, " traps=%d", f.trapped)
	}
	for _, m := range []*Match{f.white, f.black, f.grey} {
		if m != nil {
			fmt.Fprintf(&b, ";\n\tlist=%s:%s (%s %s) error=%.1e", m.Tone, plain(m.List), m.Where, plain(m.Entry), m.Error)
		}
	}
	fmt.Fprintf(&b, ";\n\treason=%q", plain(f.reason(c)))
	return b.String()
}

// plain converts text for one line of a header or an SMTP reply: printable ASCII,
// without quotes and percent signs (which mail servers expand in replies).
func plain(text string) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case c == '"' || c == '\\':
			return '\''
		case c == '%':
			return ' '
		case c < ' ' || c > '~':
			return '?'
		}
		return c
	}, text)
	return text[:min(len(text), maxReason)]
}
