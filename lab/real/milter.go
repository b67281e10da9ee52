package real

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A milterConn is a connection of a mail server, for one SMTP client.
type milterConn struct {
	net.Conn
	steps uint32 // what the milter does not reply to
}

// Steps that a milter can do without, or asks for: libmilter's SMFIP_NOHELO, SMFIP_NODATA and
// SMFIP_HDR_LEADSPC.
const (
	noHelo       = 1 << 1
	noData       = 1 << 9
	leadingSpace = 1 << 20
)

// noReply has the flag of the steps that suppresses the reply to a command.
var noReply = map[byte]uint32{
	'C': 1 << 12, 'H': 1 << 13, 'M': 1 << 14, 'R': 1 << 15, 'T': 1 << 16, 'N': 1 << 18, 'L': 1 << 7,
	'B': 1 << 19,
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
	if c.steps&noHelo == 0 {
		send('H', m.Helo+"\x00")
	}
	macros := "Mi\x004XvQ2z1\x00"
	if login != "" {
		macros += "{auth_authen}\x00" + login + "\x00"
	}
	send('D', macros)
	send('M', "<"+m.Sender+">\x00")
	send('R', "<"+m.Recipient+">\x00")
	if c.steps&noData == 0 {
		send('T', "")
	}
	head, body, _ := bytes.Cut(m.Raw, []byte("\r\n\r\n"))
	for _, field := range fields(head) {
		name, value, _ := strings.Cut(field, ":")
		if c.steps&leadingSpace == 0 {
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
	class, reason := "", ""
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
			switch {
			case strings.EqualFold(name, "X-Bulkhead"):
				class = strings.TrimSpace(value)
			case strings.EqualFold(name, "X-Bulkhead-Results"):
				_, reason, _ = strings.Cut(value, "reason=")
			}
		case 'm', 'q':
		case 'd':
			return Answer{}, errDiscarded
		case 'a', 'c':
			a, err := milterAnswer(class)
			a.Reason = strings.Trim(reason, "\"\x00")
			return a, err
		case 'y':
			if text, ok := strings.CutPrefix(data, "550 5.7.1 "); ok { // spam, at a site that refuses it
				return Answer{Class: bulkhead.ClassSpam, Reason: strings.Trim(text, "\x00")}, nil
			}
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
		return shown(Milter, bulkhead.ClassUnknown), nil
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
