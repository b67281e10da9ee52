package mail

import (
	"bytes"
	"context"
	"fmt"
	"net/mail"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/pace"
)

// Limits of the reader. Content beyond them is left out and noted as damage, except that a
// message longer than [MaxMessage] is refused.
const (
	MaxMessage = 64 << 20 // bytes of one raw message
	maxHeader  = 1 << 20  // bytes of one header block
	maxField   = 16 << 10 // bytes of one header field
	maxDepth   = 12       // nested multiparts and messages
	maxParts   = 256      // parts of one message, at all depths
	maxDamage  = 16       // entries of Message.Damage

	// The decoded content of a message may take as much memory as the message, and minDecoded bytes
	// in any case.
	minDecoded = 1 << 20
)

// A Message is one mail as its recipient would read it. Its strings are UTF-8
// without NUL; they and its slices may share memory with the raw message. It may
// be read concurrently.
type Message struct {
	// Raw is the message without a leading mbox "From " line, and without what surrounds it in a file of
	// Apple Mail (.emlx).
	Raw []byte
	// Envelope is the address of the mbox "From " line, "" if there is none.
	Envelope string

	From       string   // first address of From, "local@domain", as written
	FromName   string   // what From calls its first address, decoded
	Sender     string   // address of Sender
	ReturnPath string   // address of Return-Path
	To         []string // words that name the recipients: addresses and display names of To, Cc, Delivered-To
	ListID     string   // value of List-Id without the angle brackets
	MessageID  string   // value of Message-ID without the angle brackets
	Subject    string   // decoded
	Date       string   // as written
	Automatic  bool     // the header says that a program wrote it, not a person; see RFC 3834
	Role       bool     // its sender or its subject is one of mail that programs write
	Daemon     bool     // it claims to be from a mail server
	Returned   bool     // it is a mail server's report on another message, such as a bounce

	details
	memory

	// Parts are the leaves of the MIME tree, in order. There is always one.
	Parts []Part
	// Damage describes the faults of the message, in words; nil if it has none.
	Damage []string
	// Cut is set if the message has more parts than are read, or parts that are nested too deeply.
	Cut bool
}

// The details of a header are what this package alone reads.
type details struct {
	authResults []string // see SourceBy
	author      string   // the address of From, if there is one field with one address
	cutSigned   []string // domains of DKIM signatures that are not of the whole body
	undecoded   string   // the subject before its charset was guessed, "" if it is UTF-8
}

// A memory keeps the results of methods of a message.
type memory struct {
	mu       sync.Mutex
	pages    []*Page  // of the parts that were asked for; those beyond maxKept without their texts
	visibles int      // bytes of the texts
	hrefs    int      // links in them
	inside   *Message // see Inside; nil until asked for
}

// A Part is one leaf of a message's MIME tree.
type Part struct {
	// Type is the media type in lower case, for example "text/html".
	Type string
	// Name is the file name of an attachment, "" if it has none.
	Name string
	// Attachment is set when Content-Disposition says so.
	Attachment bool
	// Referenced is set when the part has a Content-Id, by which others show it.
	Referenced bool
	// HTML is set for text/html.
	HTML bool
	// Text is the content of a text part as UTF-8, NUL bytes removed.
	// Line ends are as sent.
	Text string
	// Data is the decoded content of a part that is not text.
	Data []byte

	// Alternative numbers the multipart/alternative the part belongs to, from
	// 1; 0 means none. Parts of the same number are renderings of one text.
	Alternative int
	// Branch numbers the renderings of one alternative, in their order.
	Branch int
	// Siblings is how many other parts the multipart has that the part belongs to, whatever they are.
	Siblings int
	// Embedded is set below a message/rfc822 part.
	Embedded bool

	body    []byte // as it is in the message
	how     encoding
	charset string
	lined   string // Text and a line end in the same memory, of quoted-printable that all decode alike; see Unquoted

	guessed bool // the charset, since it is not UTF-8
	odd     bool // the encoding is damaged, or may be read in more than one way
	named   bool // by its type alone
	flowed  bool // spaces at the ends of lines count for nothing
	cut     bool // Text is without the line end before a boundary, which is of the body
}

// IsText reports whether Text holds the content.
func (p *Part) IsText() bool { return strings.HasPrefix(p.Type, "text/") }

// Read reads raw. It fails only when raw is empty (the error wraps
// [bulkhead.ErrMalformed]) or longer than [MaxMessage] bytes (it wraps
// [bulkhead.ErrOverLimit]), or when ctx ends (it wraps the error of ctx). It keeps
// raw, which must not change afterwards. While it reads, it takes additional memory
// of at most twice len(raw), of which it keeps at most len(raw) or 1 MiB. Time is
// linear in len(raw). If ctx comes from [WithMessage] with the message of raw, Read returns that
// message.
func Read(ctx context.Context, raw []byte) (*Message, error) {
	if m := known(ctx, raw); m != nil {
		return m, nil
	}
	m, _, err := ReadAttached(ctx, raw)
	return m, err
}

// ReadAttached does the same, but always reads the message, and returns the messages that are attached to
// it, without those attached to them in turn.
func ReadAttached(ctx context.Context, raw []byte) (m *Message, attached [][]byte, err error) {
	if len(raw) == 0 {
		return nil, nil, fmt.Errorf("mail: %w: empty message", bulkhead.ErrMalformed)
	}
	if len(raw) > MaxMessage {
		return nil, nil, fmt.Errorf("mail: %w: message of %d bytes, limit %d", bulkhead.ErrOverLimit, len(raw), MaxMessage)
	}
	m = &Message{}
	m.Raw = m.cutFromLine(cutEmlx(raw))
	r := reader{m: m, pace: pace.New(ctx), room: max(minDecoded, len(raw))}
	text := m.Raw
	if head := text[:min(len(text), 8<<10)]; bytes.IndexByte(head, '\n') < 0 && bytes.IndexByte(head, '\r') >= 0 {
		m.damage("lines end in lone carriage returns")
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	}
	header, body := r.header(trimStart(text))
	m.fields(header)
	r.entity(header, body, place{})
	if err := pace.Ended(r.pace); err != nil {
		return nil, nil, err
	}
	return m, r.attached, nil
}

// SenderAddress returns the best known sender: Envelope or Return-Path, else
// Sender, else From; "" if there is none.
func (m *Message) SenderAddress() string {
	for _, address := range []string{m.ReturnPath, m.Envelope, m.Sender, m.From} {
		if strings.Contains(address, "@") {
			return address
		}
	}
	return ""
}

// Source returns what the message claims of its origin. The caller adds the verified parts, see
// also [Message.SourceBy].
func (m *Message) Source() bulkhead.Source {
	return bulkhead.Source{From: m.author, ClaimedSender: m.SenderAddress(), ClaimedListID: m.ListID,
		MessageID: m.MessageID, Subject: m.Subject}
}

// cutFromLine takes off a mbox "From " line, also one that a mailbox escaped.
func (m *Message) cutFromLine(raw []byte) []byte {
	line, rest, ok := cutLine(trimStart(raw))
	if !ok || len(line) > maxField {
		return raw
	}
	text, ok := strings.CutPrefix(strings.TrimPrefix(string(line), ">"), "From ")
	if !ok {
		return raw
	}
	m.Envelope, _, _ = strings.Cut(strings.TrimSpace(decodeText([]byte(text), "")), " ")
	if m.Envelope == "-" || m.Envelope == "MAILER-DAEMON" {
		m.Envelope = ""
	}
	return rest
}

// cutEmlx takes off what surrounds a message in a file .emlx: a line with its size, and a property list.
func cutEmlx(raw []byte) []byte {
	const longest = 20 // bytes of the line
	line, _, ok := bytes.Cut(raw[:min(len(raw), longest)], []byte("\n"))
	size, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if rest := raw[min(len(line)+1, len(raw)):]; ok && err == nil && size > 0 && len(rest) > 0 {
		return rest[:min(size, len(rest))]
	}
	return raw
}

func (m *Message) fields(h header) {
	m.From, m.FromName = first(h.text("From"))
	if len(h.all("From")) == 1 {
		m.author = onlyAddress(h.written("From"))
	}
	m.Sender, _ = first(h.text("Sender"))
	m.ReturnPath, _ = first(h.written("Return-Path"))
	m.MessageID = betweenAngles(h.written("Message-Id"))
	m.ListID = betweenAngles(h.written("List-Id"))
	m.Subject = h.text("Subject")
	if text := h.undecoded("Subject"); !utf8.ValidString(text) {
		m.undecoded = text
	}
	m.Date = h.written("Date")
	m.Automatic, m.Returned, m.Daemon = h.automatic(), h.returned(), h.daemon()
	m.Role = isRole(m.From) || isAnswer(m.Subject)
	for _, value := range h.all("Authentication-Results") {
		m.authResults = append(m.authResults, decodeText([]byte(value), ""))
	}
	for _, value := range h.all("Dkim-Signature") {
		if domain, cut := cutSignature(value); cut {
			m.cutSigned = append(m.cutSigned, domain)
		}
	}
	for _, name := range []string{"To", "Cc", "Delivered-To"} {
		if v := h.text(name); v != "" {
			m.To = append(m.To, v)
		}
	}
}

func (m *Message) damage(format string, args ...any) {
	if len(m.Damage) < maxDamage {
		m.Damage = append(m.Damage, fmt.Sprintf(format, args...))
	}
}

// first returns the first address of a field that may break the grammar, and the name
// before it.
func first(field string) (address, name string) {
	if field == "" {
		return "", ""
	}
	for _, form := range addressForms(field) {
		if list, err := mail.ParseAddressList(form); err == nil && len(list) > 0 {
			return list[0].Address, list[0].Name
		}
	}
	return brokenAddress(field), brokenName(field)
}

// addressForms returns a field of addresses as it is and, if it has comments or blanks within an address,
// without them: the library accepts few of them.
//
// Source: RFC 5322 sections 3.2.2 and 4.4.
func addressForms(field string) []string {
	if !strings.ContainsAny(field, "(@") || len(field) > maxField {
		return []string{field}
	}
	var out strings.Builder
	depth, quoted, blank := 0, false, false
	last := byte(0) // that was written
	for i := 0; i < len(field); i++ {
		switch c := field[i]; {
		case c == '\\' && i+1 < len(field) && (quoted || depth > 0):
			if i++; depth == 0 {
				out.WriteString(field[i-1 : i+1])
			}
		case c == '"' && depth == 0:
			quoted = !quoted
			fallthrough
		case quoted && depth == 0:
			if blank && last != '@' && last != 0 {
				out.WriteByte(' ')
			}
			blank, last = false, c
			out.WriteByte(c)
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth > 0:
		case isWhite(c):
			blank = true
		default:
			if blank && c != '@' && last != '@' && last != 0 {
				out.WriteByte(' ')
			}
			blank, last = false, c
			out.WriteByte(c)
		}
	}
	if plain := out.String(); plain != field {
		return []string{field, plain}
	}
	return []string{field}
}

func brokenAddress(field string) string {
	if inner := betweenAngles(field); inner != strings.TrimSpace(field) {
		return inner
	}
	for _, word := range strings.FieldsFunc(field, func(r rune) bool {
		return r <= ' ' ||
			strings.ContainsRune(",;()\"", r)
	}) {
		if strings.Contains(word, "@") {
			return strings.Trim(word, "<>")
		}
	}
	return ""
}

func brokenName(field string) string {
	name, _, ok := strings.Cut(field, "<")
	if !ok {
		return ""
	}
	return strings.Trim(name, " \t\"")
}

// onlyAddress returns the address of a field that has exactly one, however it is read, and "" for
// other fields. The field is as written: encoded words are names.
func onlyAddress(field string) string {
	for _, form := range addressForms(field) {
		if list, err := mail.ParseAddressList(form); err == nil {
			if len(list) != 1 {
				return ""
			}
			return list[0].Address
		}
	}
	// Broken names are common, but two addresses in one pair of angle brackets are not seen in
	// practice.
	if strings.Count(field, "<") == 1 && strings.HasSuffix(field, ">") && strings.Count(field, "@") == 1 {
		return betweenAngles(field)
	}
	return ""
}

// betweenAngles returns what stands between the last < and the > that follows,
// or the whole trimmed field if there is none.
func betweenAngles(field string) string {
	if i := strings.LastIndexByte(field, '<'); i >= 0 {
		if j := strings.IndexByte(field[i:], '>'); j > 0 {
			return strings.TrimSpace(field[i+1 : i+j])
		}
	}
	return strings.TrimSpace(field)
}
