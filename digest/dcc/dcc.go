package dcc

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unsafe"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// A Type is what a DCC checksum was computed from. Its values are the type bytes on the wire.
//
// Source: docs/specs/dcc.md#requests.
type Type uint8

// The types of DCC checksums that a client computes.
const (
	TypeIP         Type = 1  // address of the SMTP client
	TypeEnvFrom    Type = 2  // envelope sender
	TypeFrom       Type = 3  // From: header
	TypeSubstitute Type = 4  // a header or envelope value chosen by the client
	TypeMessageID  Type = 5  // Message-ID: header
	TypeReceived   Type = 6  // last Received: header
	TypeBody       Type = 7  // whole body, white space ignored
	TypeFuz1       Type = 8  // filtered body
	TypeFuz2       Type = 9  // words of known languages in the body
	TypeRepTotal   Type = 10 // IP sum again: all mail from the address
	TypeRepBulk    Type = 11 // IP sum again: bulk mail from the address
)

var typeNames = [...]string{
	TypeIP: "IP", TypeEnvFrom: "env_From", TypeFrom: "From", TypeSubstitute: "substitute",
	TypeMessageID: "Message-ID", TypeReceived: "Received", TypeBody: "Body", TypeFuz1: "Fuz1",
	TypeFuz2: "Fuz2", TypeRepTotal: "rep-total", TypeRepBulk: "rep-bulk",
}

var typeSchemes = [...]bulkhead.Scheme{
	TypeIP: bulkhead.DCCIP, TypeEnvFrom: bulkhead.DCCEnvFrom, TypeFrom: bulkhead.DCCFrom,
	TypeSubstitute: bulkhead.DCCSubstitute, TypeMessageID: bulkhead.DCCMessageID,
	TypeReceived: bulkhead.DCCReceived, TypeBody: bulkhead.DCCBody, TypeFuz1: bulkhead.DCCFuz1,
	TypeFuz2: bulkhead.DCCFuz2,
}

// String returns the name that DCC clients print, for example "env_From", or
// "unknown".
func (t Type) String() string {
	if t == 0 || int(t) >= len(typeNames) {
		return "unknown"
	}
	return typeNames[t]
}

// Scheme returns the scheme of signatures of this type, or InvalidScheme for
// the reputation types and unknown ones.
func (t Type) Scheme() bulkhead.Scheme {
	if int(t) >= len(typeSchemes) {
		return bulkhead.InvalidScheme
	}
	return typeSchemes[t]
}

// Rules selects the release of DCC whose Fuz1 is computed, where releases differ.
type Rules uint8

// The rules of the two families of clients that are in use.
const (
	Rules2 Rules = iota // 2.x, the current clients
	Rules1              // 1.3
)

// Options is what is known about a message beyond its bytes. The zero value is usable.
type Options struct {
	Client netip.Addr // SMTP client; the zero Addr leaves the IP sum out
	// Sender is the envelope sender. If it is empty, the first Return-Path:
	// header or the mbox "From " line is taken instead; "<>" is the null sender.
	Sender string
	// Substitute names the header that makes the substitute sum, or "helo" or
	// "mail_host", whose values are Helo and the domain of the sender. Empty
	// leaves that sum out. Case does not matter.
	Substitute string
	Helo       string
	Rules      Rules
	// BothRules adds the Fuz1 by the other rules, where it differs.
	BothRules bool
	Words     *Words // tables for Fuz2; nil leaves Fuz2 out
	// Unquoted, if not nil, avoids decoding a body twice: it returns the decoded form of the first
	// size bytes of a quoted-printable body, or size 0 if it has none. Every equals sign in these
	// bytes must begin a whole escape or a whole soft line end.
	Unquoted func(body []byte) (text []byte, size int)
}

// A Sum is one DCC checksum of a message.
type Sum struct {
	Type Type
	Sum  [md5.Size]byte
	// Local marks a sum that clients print and look up in their whitelists
	// but never send: the Message-ID sum of a message that has none.
	Local bool
	// Other marks the Fuz1 of the rules that Options.Rules does not name.
	Other bool
}

// Signature returns the sum as a signature. Reputation types have none: its
// error wraps bulkhead.ErrMalformed.
func (s Sum) Signature() (bulkhead.Signature, error) {
	return bulkhead.NewSignature(s.Type.Scheme(), s.Sum[:])
}

// Sums returns the checksums that a DCC client computes for a raw message, header and body with
// any line ends, in ascending order of their types. A Fuz1 by other rules follows the requested
// one. Sums omits checksums for which the message is too short, or which need something that opt
// does not give. It accepts any bytes, and takes little additional memory. It fails only when ctx
// ends, with an error that wraps that of ctx.
//
// The body is read in chunks as dccproc reads it, because Fuz1 depends on the chunks in rare
// cases.
//
// Source: docs/specs/dcc.md#checksums.
func Sums(ctx context.Context, raw []byte, opt Options) ([]Sum, error) {
	header, err := HeaderSums(ctx, raw, opt)
	if err != nil {
		return nil, err
	}
	body, err := BodySums(ctx, raw, opt)
	return append(header, body...), err
}

// BodySums returns the checksums of [Sums] that are of the body, with the errors of [Sums].
func BodySums(ctx context.Context, raw []byte, opt Options) (sums []Sum, err error) {
	p := pace.New(ctx)
	header, body := splitMessage(raw, p)
	c := readers.Get().(*bodyReader)
	defer c.back()
	c.init(opt, p)
	c.unquoted = opt.Unquoted
	c.message(header, body)
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	if c.body.total >= minBody {
		sums = append(sums, Sum{Type: TypeBody, Sum: c.body.sum()})
	}
	if c.fuz1.total >= fuz1MinLetters {
		sums = append(sums, Sum{Type: TypeFuz1, Sum: c.fuz1.sum()})
	}
	if o := c.other; o != nil && o.total >= fuz1MinLetters && (c.fuz1.total < fuz1MinLetters ||
		!bytes.Equal(o.letters(), c.fuz1.letters())) {
		sums = append(sums, Sum{Type: TypeFuz1, Sum: o.sum(), Other: true})
	}
	if sum, ok := c.fuz2.sum(); ok {
		sums = append(sums, Sum{Type: TypeFuz2, Sum: sum})
	}
	return sums, nil
}

// HeaderSums returns the checksums of [Sums] that need the header only, with the
// errors of [Sums].
func HeaderSums(ctx context.Context, raw []byte, opt Options) ([]Sum, error) {
	p := pace.New(ctx)
	header, _ := splitMessage(raw, p)
	sums := headerSums(header, opt, p)
	if err := pace.Ended(p); err != nil {
		return nil, err
	}
	return sums, nil
}

// IPSum returns the IP sum of an address: the MD5 of its 16-byte form, IPv4
// mapped into IPv6.
//
// Source: docs/specs/dcc.md#client-address.
func IPSum(addr netip.Addr) [md5.Size]byte {
	b := addr.As16()
	return md5.Sum(b[:])
}

// ValueSum returns the sum of a header or envelope value. For a substitute
// sum header is the name of the header, without colon; for all others it is "".
//
// Source: docs/specs/dcc.md#header-and-envelope-values.
func ValueSum(header, value string) [md5.Size]byte {
	const maxValue = 1024 // bytes of what remains of a value
	b := make([]byte, 0, len(header)+min(len(value), maxValue))
	b = append(b, strings.ToLower(header)...)
	start := len(b)
	for i := 0; i < len(value) && len(b)-start < maxValue; i++ {
		switch c := value[i]; c {
		case ' ', '\t', '\r', '\n', '<', '>', '\'', '"', ',':
		default:
			b = append(b, lowerASCII(c))
		}
	}
	for len(b) > start && b[len(b)-1] == '.' {
		b = b[:len(b)-1]
	}
	return md5.Sum(b)
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// lowerASCIIBytes returns b in lower case, at its length: the library's ToLower
// lengthens bytes that are no UTF-8.
func lowerASCIIBytes(b []byte) []byte {
	lower := make([]byte, len(b))
	for i, c := range b {
		lower[i] = lowerASCII(c)
	}
	return lower
}

// splitMessage cuts a message at its first empty line, which belongs to neither.
func splitMessage(raw []byte, p *pace.Pace) (header, body []byte) {
	for i := 0; i < len(raw); {
		end := bytes.IndexByte(raw[i:], '\n')
		if end < 0 || p.Over(end+1) {
			break
		}
		if end == 0 || end == 1 && raw[i] == '\r' {
			return raw[:i], raw[i+end+1:]
		}
		i += end + 1
	}
	return raw, nil
}

// shortName returns the name of a field in lower case, "" for one that is longer
// than any that means something here.
func shortName(name []byte) string {
	const longest = len("content-transfer-encoding")
	if len(name) > longest {
		return ""
	}
	return strings.ToLower(string(name))
}

// headerFields calls yield for each field of a header with its name and its
// value, folded lines included.
func headerFields(header []byte, p *pace.Pace, yield func(name, value []byte)) {
	for len(header) > 0 && !p.Over(1) {
		end := 0
		for {
			nl := bytes.IndexByte(header[end:], '\n')
			if nl < 0 {
				end = len(header)
				break
			}
			if end += nl + 1; p.Over(nl) {
				break
			}
			if end == len(header) || header[end] != ' ' && header[end] != '\t' {
				break
			}
		}
		if name, value, ok := bytes.Cut(header[:end], []byte(":")); ok {
			yield(bytes.TrimRight(name, " \t"), value)
		}
		header = header[end:]
	}
}

func headerSums(header []byte, opt Options, p *pace.Pace) []Sum {
	var returnPath, from, messageID, received, substitute []byte
	headerFields(header, p, func(name, value []byte) {
		switch shortName(name) {
		case "return-path":
			if returnPath == nil {
				returnPath = value
			}
		case "from":
			from = value
		case "message-id":
			messageID = value
		case "received":
			received = value
		}
		if opt.Substitute != "" && strings.EqualFold(string(name), opt.Substitute) {
			substitute = value
		}
	})
	var sums []Sum
	add := func(t Type, header, value string, present bool) {
		if present && !p.Over(len(value)) {
			sums = append(sums, Sum{Type: t, Sum: ValueSum(header, value)})
		}
	}
	text := func(value []byte) string { return unsafe.String(unsafe.SliceData(value), len(value)) } // only read
	sender := opt.Sender
	if sender == "" {
		sender = mboxSender(header)
		if returnPath != nil {
			sender = text(returnPath)
		}
	}
	if opt.Client.IsValid() {
		sums = append(sums, Sum{Type: TypeIP, Sum: IPSum(opt.Client)})
	}
	add(TypeEnvFrom, "", sender, sender != "")
	add(TypeFrom, "", text(from), from != nil)
	switch name := strings.ToLower(opt.Substitute); name {
	case "":
	case "helo":
		add(TypeSubstitute, name, opt.Helo, opt.Helo != "")
	case "mail_host":
		_, host, ok := strings.Cut(sender, "@")
		add(TypeSubstitute, name, host, ok)
	default:
		add(TypeSubstitute, name, text(substitute), substitute != nil)
	}
	add(TypeMessageID, "", text(messageID), true)
	if n := len(sums); messageID == nil && n > 0 {
		sums[n-1].Local = true
	}
	add(TypeReceived, "", text(received), received != nil)
	return sums
}

// mboxSender returns the address of a "From address date" line that begins the
// header, or "".
func mboxSender(header []byte) string {
	rest, ok := bytes.CutPrefix(header, []byte("From "))
	if !ok {
		return ""
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	line = bytes.TrimSpace(line)
	if end := bytes.IndexFunc(line, unicode.IsSpace); end >= 0 {
		line = line[:end]
	}
	return string(line)
}

// String returns the type and the sum as DCC clients print them: four words of
// eight hexadecimal digits.
func (s Sum) String() string {
	return fmt.Sprintf("%s: %x %x %x %x", s.Type, s.Sum[0:4], s.Sum[4:8], s.Sum[8:12], s.Sum[12:16])
}
