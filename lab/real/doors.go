package real

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// deliver hands a mail to a door, as the mail server or filter behind it does, and returns the
// answer. What is not refused is delivered, and counted by the door or by the filter.
func (p *process) deliver(ctx context.Context, door Door, m *Mail, rejects bool) (Answer, error) {
	switch door {
	case Milter:
		return p.askMilter(ctx, m, "")
	case Dccifd:
		return p.askDccifd(ctx, m)
	}
	return p.askPlugin(ctx, door, m, rejects)
}

// A milterConn is a connection of a mail server, for one SMTP client.
type milterConn struct {
	net.Conn
	steps uint32 // what the milter does not reply to
}

const (
	milterNoReplyHeader = 1 << 7
	milterNoReplyBody   = 1 << 19
	milterNoHelo        = 1 << 1
)

// noReply has the flag of the steps that suppresses the reply to a command.
var noReply = map[byte]uint32{
	'C': 1 << 12, 'H': 1 << 13, 'M': 1 << 14, 'R': 1 << 15, 'T': 1 << 16, 'N': 1 << 18, 'L': milterNoReplyHeader, 'B': milterNoReplyBody,
}

// errDiscarded is returned for mail that the milter has discarded.
var errDiscarded = errors.New("real: the milter has discarded the mail")

// askMilter sends a mail as Postfix does: version 6 of the protocol, with macros. login is the
// user who has logged in to send it, "" for mail from elsewhere.
func (p *process) askMilter(ctx context.Context, m *Mail, login string) (Answer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", p.milter)
	if err != nil {
		return Answer{}, err
	}
	c := &milterConn{Conn: conn}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return Answer{}, err
	}
	answer, err := c.exchange(m, login)
	if err != nil && !errors.Is(err, errDiscarded) && !errors.As(err, new(refusal)) {
		err = fmt.Errorf("real: milter: %w", err)
	}
	return answer, err
}

// exchange sends one message, and reads the replies.
func (c *milterConn) exchange(m *Mail, login string) (Answer, error) {
	if _, err := c.Write(packet('O', "\x00\x00\x00\x06\x00\x00\x01\xff\x00\x1f\xff\xff")); err != nil {
		return Answer{}, err
	}
	code, data, err := c.read()
	if err != nil {
		return Answer{}, err
	}
	if code != 'O' || len(data) < 12 {
		return Answer{}, fmt.Errorf("reply %q of %d bytes to the negotiation", code, len(data))
	}
	c.steps = binary.BigEndian.Uint32([]byte(data[8:]))
	var out bytes.Buffer
	replies := 0
	send := func(cmd byte, text string) {
		out.Write(packet(cmd, text))
		if mask, ok := noReply[cmd]; ok && (mask == 0 || c.steps&mask == 0) {
			replies++
		}
	}
	send('D', "Cj\x00mx.site.example\x00{client_addr}\x00"+m.Client.String()+"\x00")
	family := "4"
	if m.Client.Is6() {
		family = "6"
	}
	send('C', m.Helo+"\x00"+family+"\x9c\x40"+m.Client.String()+"\x00")
	if c.steps&milterNoHelo == 0 {
		send('H', m.Helo+"\x00")
	}
	macros := "Mi\x004XvQ2z1\x00"
	if login != "" {
		macros += "{auth_authen}\x00" + login + "\x00"
	}
	send('D', macros)
	send('M', "<"+m.Sender+">\x00")
	send('R', "<"+m.Recipient+">\x00")
	if c.steps&(1<<9) == 0 {
		send('T', "")
	}
	head, body, _ := bytes.Cut(m.Raw, []byte("\r\n\r\n"))
	for _, field := range fields(head) {
		name, value, _ := strings.Cut(field, ":")
		if c.steps&(1<<20) == 0 {
			value = strings.TrimPrefix(value, " ")
		}
		send('L', name+"\x00"+value+"\x00")
	}
	send('N', "")
	for len(body) > 0 {
		n := min(len(body), 65_535)
		send('B', string(body[:n]))
		body = body[n:]
	}
	out.Write(packet('E', ""))
	if _, err := c.Write(out.Bytes()); err != nil {
		return Answer{}, err
	}
	for range replies {
		code, data, err := c.read()
		if err != nil {
			return Answer{}, err
		}
		if code == 'y' || code == 't' || code == 'r' {
			return Answer{}, fmt.Errorf("refused before the end: %q %q", code, data)
		}
		if code == 'a' || code == 'd' {
			return Answer{}, fmt.Errorf("reply %q before the end: the mail is not looked at", code)
		}
	}
	return c.verdict()
}

// verdict reads the replies to the end of the message.
func (c *milterConn) verdict() (Answer, error) {
	class := ""
	for {
		code, data, err := c.read()
		if err != nil {
			return Answer{}, err
		}
		switch code {
		case 'i', 'h': // a header field
			if code == 'i' && len(data) > 4 {
				data = data[4:]
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(data, "\x00"), "\x00")
			if strings.EqualFold(name, "X-Bulkhead") {
				class = strings.TrimSpace(value)
			}
		case 'm', 'q':
		case 'd':
			return Answer{}, errDiscarded
		case 'a', 'c':
			return milterAnswer(class)
		case 'y':
			return Answer{}, refusal{fmt.Errorf("milter: %q", data)}
		default:
			return Answer{}, fmt.Errorf("reply %q at the end", code)
		}
	}
}

// milterAnswer reads the class in the milter's header, which knows no good senders.
func milterAnswer(class string) (Answer, error) {
	switch class {
	case "spam", "listed":
		return Answer{Class: bulkhead.ClassSpam}, nil
	case "suspected":
		return Answer{Class: bulkhead.ClassSuspected}, nil
	case "bulk":
		return Answer{Class: bulkhead.ClassBulk}, nil
	case "none", "white", "grey":
		return Answer{Class: bulkhead.ClassUnknown, Partial: true}, nil
	}
	return Answer{}, fmt.Errorf("no class in the header: %q", class)
}

func packet(cmd byte, data string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)+1))
	return append(append(b, cmd), data...)
}

func (c *milterConn) read() (code byte, data string, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, "", err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 1 || n > 1<<20 {
		return 0, "", fmt.Errorf("packet of %d bytes", n)
	}
	b := make([]byte, n-1)
	_, err = io.ReadFull(c, b)
	return head[4], string(b), err
}

// fields splits a header into its fields, each with its continuation lines.
func fields(head []byte) (all []string) {
	for line := range strings.Lines(string(head)) {
		line = strings.TrimRight(line, "\r\n")
		if len(all) > 0 && line != "" && (line[0] == ' ' || line[0] == '\t') {
			all[len(all)-1] += "\r\n" + line
		} else if line != "" {
			all = append(all, line)
		}
	}
	return all
}

// askDccifd sends a mail as a filter that uses dccifd does. Its answer tells spam, as many, from
// the rest.
func (p *process) askDccifd(ctx context.Context, m *Mail) (Answer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", p.dccifd)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return Answer{}, err
	}
	fmt.Fprintf(conn, "header\n%v\r%s\n%s\n%s\n%s\n\n", m.Client, m.Helo, m.Helo, m.Sender, m.Recipient)
	if _, err := conn.Write(m.Raw); err != nil {
		return Answer{}, fmt.Errorf("real: dccifd: %w", err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return Answer{}, err
	}
	text, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		return Answer{}, fmt.Errorf("real: dccifd: %w", err)
	}
	if len(text) == 0 || text[0] == 'T' || !bytes.Contains(text, []byte("Body=")) && len(m.Text) > 200 {
		return Answer{}, fmt.Errorf("real: dccifd answers %.200q", text)
	}
	unfolded := strings.Join(strings.Fields(string(text)), " ")
	if strings.Contains(unfolded, "bulk") && strings.Contains(unfolded, "=many") {
		return Answer{Class: bulkhead.ClassSpam, Partial: true}, nil
	}
	return Answer{Class: bulkhead.ClassUnknown, Partial: true}, nil
}

// A source is what a filter has verified of a message, as the plugins name it.
type verified struct {
	Client string   `json:"client,omitempty"`
	Sender string   `json:"sender,omitempty"`
	DKIM   []string `json:"dkim,omitempty"`
}

func (m *Mail) verified() verified {
	v := verified{Client: m.Client.String(), DKIM: m.DKIM}
	if m.SPF != "" {
		v.Sender = m.Sender
	}
	return v
}

// askPlugin makes the requests of the plugins for rspamd and SpamAssassin: a check of the whole
// mail with what was verified, and a report of its delivery.
func (p *process) askPlugin(ctx context.Context, door Door, m *Mail, rejects bool) (Answer, error) {
	v := m.verified()
	q := url.Values{"client": {v.Client}}
	if v.Sender != "" {
		q.Set("sender", v.Sender)
	}
	q["dkim"] = v.DKIM
	answer, err := p.post(ctx, "/v1/check?"+q.Encode(), "message/rfc822", m.Raw)
	if err != nil {
		if errors.As(err, new(refusal)) { // too little text to be told from other mail
			return Answer{Class: bulkhead.ClassUnknown}, nil
		}
		return Answer{}, err
	}
	var verdict struct {
		Class    string
		Findings []struct{ Signature string }
	}
	if err := json.Unmarshal(answer, &verdict); err != nil {
		return Answer{}, fmt.Errorf("real: %s: %w", door, err)
	}
	class, err := parseClass(verdict.Class)
	if err != nil || len(verdict.Findings) == 0 || class == bulkhead.ClassSpam && (rejects || door == SpamAssassin) {
		return Answer{Class: class}, err // the plugin for SpamAssassin counts no spam
	}
	report := map[string]any{"vote": "sighting", "source": v, "recipients": []string{m.Recipient}}
	var signatures []string
	for _, f := range verdict.Findings {
		signatures = append(signatures, f.Signature)
	}
	report["signatures"] = signatures
	if door == SpamAssassin && m.MessageID != "" {
		report["id"] = "<" + m.MessageID + ">"
	}
	body, err := json.Marshal(report)
	if err != nil {
		return Answer{}, err
	}
	_, err = p.post(ctx, "/v1/report", "application/json", body)
	return Answer{Class: class}, err
}

// parseClass reads the name of a class.
func parseClass(name string) (bulkhead.Class, error) {
	for _, c := range []bulkhead.Class{
		bulkhead.ClassUnknown, bulkhead.ClassGood, bulkhead.ClassBulk, bulkhead.ClassSuspected, bulkhead.ClassSpam,
	} {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("real: class %.40q", name)
}
