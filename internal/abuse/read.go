package abuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"github.com/emersion/go-msgauth/authres"

	read "github.com/bulkhead-mail/bulkhead/internal/mail"
)

// The limits of a mail.
const (
	MaxMessages = 16  // messages that one mail may report
	maxUser     = 128 // bytes of a user's name
)

// Errors of [Options.Read].
var (
	// ErrStranger: it is not verified that a user of the site has sent the mail.
	ErrStranger = errors.New("abuse: not sent by an authenticated user")
	// ErrNothing: the mail neither has a message attached nor forwards one in its text.
	ErrNothing = errors.New("abuse: no message attached or forwarded")
	// ErrMalformed: the mail cannot be parsed, or exceeds a limit.
	ErrMalformed = errors.New("abuse: malformed")
)

// Options determine which mail is trusted. Read does not change them.
type Options struct {
	// Host is the name with which the site's own mail server begins its Authentication-Results fields
	// and ends "by" in its Received fields. The server must remove Authentication-Results fields with
	// this name from incoming mail.
	Host string
	// Domains lists domains whose users may report by mail that was not submitted with a password, if
	// it has a valid DKIM signature of the domain in From.
	Domains []string
}

// A Report is a parsed mail to the abuse mailbox.
type Report struct {
	User     string   // user who reports
	Messages [][]byte // reported messages, 1 to [MaxMessages]
	// Inline is set if the message was forwarded in the text, so that its header and
	// encoding are lost.
	Inline bool
}

// Read parses a mail. Its error wraps an error of this package.
func (o *Options) Read(raw []byte) (*Report, error) {
	head, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	r := &Report{User: o.user(head.Header)}
	if r.User == "" {
		return nil, ErrStranger
	}
	if r.Messages, r.Inline, err = Messages(raw); err != nil {
		return nil, err
	}
	return r, nil
}

// Messages returns the messages in a mail, regardless of its sender: the attached messages, 1 to
// [MaxMessages], or else the message that is forwarded in its text (inline). Its error wraps
// [ErrNothing] or [ErrMalformed].
func Messages(raw []byte) (messages [][]byte, inline bool, err error) {
	ctx := context.Background()
	m, attached, err := read.ReadAttached(ctx, raw)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%w: %v", ErrMalformed, err)
	case m.Cut:
		return nil, false, fmt.Errorf("%w: too many parts, or too deeply nested", ErrMalformed)
	case len(attached) > MaxMessages:
		return nil, false, fmt.Errorf("%w: more than %d messages attached", ErrMalformed, MaxMessages)
	case len(attached) > 0:
		return attached, false, nil
	}
	for _, page := range []bool{false, true} {
		for i := range m.Parts {
			if p := &m.Parts[i]; !p.IsText() || p.HTML != page || p.Attachment {
				continue
			}
			text, err := m.Visible(ctx, i)
			if err != nil {
				return nil, false, err
			}
			if m := forwarded(string(text)); m != nil {
				return [][]byte{m}, true, nil
			}
		}
	}
	return nil, false, ErrNothing
}

// user returns the user who has sent a mail, "" if the sender is not verified.
func (o *Options) user(h mail.Header) string {
	if o.Host == "" {
		return ""
	}
	from := ""
	if list, err := mail.ParseAddressList(h.Get("From")); err == nil && len(list) == 1 {
		from = strings.ToLower(list[0].Address)
	}
	_, domain, _ := strings.Cut(from, "@")
	signed := ""
	for _, field := range h["Authentication-Results"] {
		host, results, err := authres.Parse(plain(field))
		if err != nil || !strings.EqualFold(host, o.Host) {
			continue
		}
		for _, result := range results {
			switch r := result.(type) {
			case *authres.AuthResult:
				if r.Value == authres.ResultPass && r.Auth != "" {
					return name(r.Auth)
				}
			case *authres.DKIMResult:
				if r.Value == authres.ResultPass && domain != "" && strings.EqualFold(r.Domain, domain) &&
					contains(o.Domains, domain) {
					signed = name(from)
				}
			}
		}
	}
	if login := o.login(h["Received"]); login != "" {
		return login
	}
	return signed
}

// plain returns a field without its comments, and with a "?" for each quoted string of more than
// one word. The parser supports neither, and strangers can choose their contents.
func plain(field string) string {
	var out, quoted strings.Builder
	depth, inside := 0, false
	for i := 0; i < len(field); i++ {
		c := field[i]
		switch {
		case c == '\\' && (inside || depth > 0):
			i++
			quoted.WriteByte('?')
		case inside && c == '"':
			inside = false
			if word := quoted.String(); strings.ContainsAny(word, " \t\r\n;=()?") {
				out.WriteByte('?')
			} else {
				out.WriteString(word)
			}
		case inside:
			quoted.WriteByte(c)
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth > 0:
		case c == '"':
			inside = true
			quoted.Reset()
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// name returns a user's name in lower case, "" if it is not valid.
func name(text string) string {
	text = strings.ToLower(text)
	if len(text) > maxUser || strings.Contains(text, "?") || strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == 0xfffd
	}) {
		return ""
	}
	return text
}

func contains(all []string, domain string) bool {
	return slices.ContainsFunc(all, func(d string) bool { return strings.EqualFold(d, domain) })
}

var (
	receivedBy    = regexp.MustCompile(`(?i)\sby\s+([^\s;()]+)`)
	receivedWith  = regexp.MustCompile(`(?i)\swith\s+([A-Z0-9]+)`)
	authenticated = regexp.MustCompile(`(?i)\(Authenticated sender: ([^\s()]+)\)`)
)

// login returns the user who has submitted the mail to the host with a password. Postfix records
// it, with smtpd_sasl_authenticated_header, in the Received field for the arrival at the host. The
// fields below that one cannot be trusted.
func (o *Options) login(received []string) string {
	for _, field := range received {
		by, with := receivedBy.FindStringSubmatch(field), receivedWith.FindStringSubmatch(field)
		if by == nil || !strings.EqualFold(by[1], o.Host) ||
			with != nil && strings.HasPrefix(strings.ToUpper(with[1]), "LMTP") {
			continue // delivery into the mailbox by another program
		}
		before, _, _ := strings.Cut(field, by[0])
		// The name in HELO, which the client chooses, also comes before, but without parentheses, because
		// Postfix strips those.
		if m := authenticated.FindStringSubmatch(before); m != nil {
			return name(m[1])
		}
		return ""
	}
	return ""
}
