package abuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"github.com/emersion/go-msgauth/authres"

	"github.com/bulkhead-mail/bulkhead"
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
	r := new(Report)
	if r.User, err = o.user(head.Header, raw); err != nil {
		return nil, err
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

// user returns the user who has sent a mail. Its error wraps [ErrStranger] if the sender is not verified.
func (o *Options) user(h mail.Header, raw []byte) (string, error) {
	if o.Host == "" {
		return "", ErrStranger
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
					return known(name(r.Auth))
				}
			case *authres.DKIMResult:
				if r.Value == authres.ResultPass && domain != "" && strings.EqualFold(r.Domain, domain) &&
					contains(o.Domains, domain) {
					signed = name(from)
				}
			}
		}
	}
	way := o.way(raw)
	switch {
	case way.login != "":
		return way.login, nil
	case signed == "" || len(way.reached) == 0 || way.leadsTo(h):
		return known(signed)
	}
	// The signature stays valid when a recipient sends the mail on. A user's answer to spam quotes the spam, and a
	// forward to another address has it attached. Servers that record no mailbox leave nothing to compare with.
	return "", fmt.Errorf("%w: the signature is a user's, but neither To nor Cc names the mailbox that has got the mail",
		ErrStranger)
}

// known returns the user with a name. Without a name the user is a stranger.
func known(user string) (string, error) {
	if user == "" {
		return "", ErrStranger
	}
	return user, nil
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

// A way is how a mail has come, as the site's own servers have recorded it.
type way struct {
	login   string   // user who has submitted the mail with a password
	reached []string // mailboxes, in the form of [bulkhead.Mailbox]
}

// leadsTo reports whether a header names one of the mailboxes as a recipient.
func (w *way) leadsTo(h mail.Header) bool {
	for _, name := range []string{"To", "Cc"} {
		list, _ := h.AddressList(name)
		for _, to := range list {
			if slices.Contains(w.reached, bulkhead.Mailbox(to.Address)) {
				return true
			}
		}
	}
	return false
}

func (w *way) reach(address string) {
	w.reached = append(w.reached, bulkhead.Mailbox(strings.Trim(address, " \t<>")))
}

var (
	receivedBy    = regexp.MustCompile(`(?i)\sby\s+([^\s;()]+)`)
	receivedWith  = regexp.MustCompile(`(?i)\swith\s+([A-Z0-9]+)`)
	receivedFor   = regexp.MustCompile(`(?i)\sfor\s+<([^\s<>]+)>`)
	authenticated = regexp.MustCompile(`(?i)^Authenticated sender: ([^\s()]+)$`)
)

// way reads the fields down to the Received field for the arrival at the host, or without one down to the first
// Received field. Those below were in the mail when it came. Postfix records a login, with
// smtpd_sasl_authenticated_header, in a comment before "by". Clients choose what is inside other comments, such as
// the names in their certificates, and their name in HELO, which has no parentheses.
func (o *Options) way(raw []byte) (w way) {
	first := 0
	seen := false
	for field, value := range fields(raw) {
		switch strings.ToLower(field) {
		case "delivered-to", "x-original-to", "envelope-to":
			w.reach(value)
			continue
		case "received":
		default:
			continue
		}
		bare, comments := divided(value)
		if to := receivedFor.FindStringSubmatch(bare); to != nil {
			w.reach(to[1])
		}
		if !seen {
			first, seen = len(w.reached), true
		}
		by, with := receivedBy.FindStringSubmatchIndex(bare), receivedWith.FindStringSubmatch(bare)
		if by == nil || !strings.EqualFold(bare[by[2]:by[3]], o.Host) ||
			with != nil && strings.HasPrefix(strings.ToUpper(with[1]), "LMTP") {
			continue // delivery into the mailbox by another program
		}
		for _, c := range comments {
			if m := authenticated.FindStringSubmatch(c.text); m != nil && c.at <= by[0] {
				w.login = name(m[1])
				break
			}
		}
		return w
	}
	w.reached = w.reached[:first]
	return w
}

// A comment is the text of a comment in a field, and its place in the field without comments.
type comment struct {
	text string
	at   int
}

// divided returns a field without its comments, and the comments that are not within others.
func divided(field string) (bare string, comments []comment) {
	var out strings.Builder
	depth, begin := 0, 0
	for i := 0; i < len(field); i++ {
		switch c := field[i]; {
		case c == '\\' && depth > 0:
			i++
		case c == '(':
			if depth++; depth == 1 {
				begin = i + 1
			}
		case c == ')' && depth > 0:
			if depth--; depth == 0 {
				comments = append(comments, comment{strings.TrimSpace(field[begin:i]), out.Len()})
			}
		case depth == 0:
			out.WriteByte(c)
		}
	}
	return out.String(), comments
}

// fields are the fields of a message's header in their order, each unfolded.
func fields(raw []byte) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		name, value := "", []byte(nil)
		for line := range bytes.Lines(raw) {
			line = bytes.TrimRight(line, "\r\n")
			if len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
				value = append(value, line...)
				continue
			}
			if name != "" && !yield(name, string(value)) || len(line) == 0 {
				return
			}
			before, after, _ := bytes.Cut(line, []byte(":"))
			name, value = string(before), append(value[:0], after...)
		}
	}
}
