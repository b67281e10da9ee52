package trial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/dcc"
	sums "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

const recognised = "knows the test message"

// maxReply is the longest answer that is read, in bytes.
const maxReply = 64 << 10

// stranger is the pretended origin of the test message, because mail from the machine itself is
// exempt.
const stranger = "192.0.2.7"

func (p *Prober) of(scheme bulkhead.Scheme) []bulkhead.Signature {
	var all []bulkhead.Signature
	for _, s := range p.sigs {
		if s.Scheme() == scheme {
			all = append(all, s)
		}
	}
	return all
}

// dial connects to a door, "host:port" or the path of a socket, until ctx ends.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if strings.HasPrefix(address, "/") || strings.HasPrefix(address, "unix:") {
		network, address = "unix", strings.TrimPrefix(address, "unix:")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(at)
	}
	return conn, err
}

// exchange sends a request, ends that side, and returns the answer.
func exchange(ctx context.Context, address, request string) (string, error) {
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return "", err
		}
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxReply))
	return string(answer), err
}

func (p *Prober) http(ctx context.Context, _ string) (string, error) {
	v, err := p.Node.CheckMessage(ctx, []byte(Message), client.MessageOptions{})
	if err != nil {
		return "", err
	}
	if !IsReason(v.Reasons) {
		return "", unrecognised("class " + v.Class)
	}
	return recognised, nil
}

func (p *Prober) razor2(ctx context.Context, address string) (string, error) {
	c, err := razor2.Dial(ctx, address, &razor2.Options{Timeout: p.Timeout})
	if err != nil {
		return "", err
	}
	defer c.Close()
	answers, err := c.Check(ctx, p.of(bulkhead.RazorE4)...)
	if err != nil {
		return "", err
	}
	if len(answers) == 0 || !answers[0].Spam {
		return "", unrecognised(fmt.Sprintf("%+v", answers))
	}
	return recognised, nil
}

func (p *Prober) razorHelper(ctx context.Context, address string) (string, error) {
	answer, err := exchange(ctx, address, Message)
	if err == nil && answer != "spam" {
		err = unrecognised(fmt.Sprintf("%.80q", answer))
	}
	return recognised, err
}

func (p *Prober) pyzor(ctx context.Context, address string) (string, error) {
	c, err := pyzor.Dial(ctx, address, &pyzor.Options{Timeout: p.Timeout})
	if err != nil {
		return "", err
	}
	defer c.Close()
	r, err := c.Do(ctx, pyzor.OpCheck, p.of(bulkhead.PyzorDigest)...)
	if errors.Is(err, bulkhead.ErrForbidden) || errors.Is(err, bulkhead.ErrUnauthorised) {
		return "answers, to accounts alone", nil
	}
	if err != nil {
		return "", err
	}
	n, err := r.Count("Count")
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "", unrecognised("Count 0")
	case n < 5:
		return "", &fault{fmt.Sprintf("spam has a Count of %d", n),
			"SpamAssassin takes 5 and more for spam: listed_count = 5 in [pyzor]"}
	}
	return recognised, nil
}

func (p *Prober) pyzorHelper(ctx context.Context, address string) (string, error) {
	answer, err := exchange(ctx, address, Message)
	if err != nil {
		return "", err
	}
	fields := strings.Split(strings.TrimSpace(answer), "\t")
	if len(fields) != 4 {
		return "", unrecognised(fmt.Sprintf("%.80q", answer))
	}
	if n, err := strconv.Atoi(fields[2]); err != nil || n == 0 {
		return "", unrecognised("Count " + fields[2])
	}
	return recognised, nil
}

func (p *Prober) dcc(ctx context.Context, address string) (string, error) {
	c, err := dcc.Dial(ctx, address, nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	sum := dcc.Checksum{Type: sums.TypeBody}
	for _, s := range p.of(bulkhead.DCCBody) {
		copy(sum.Sum[:], s.Sum())
	}
	totals, err := c.Query(ctx, []dcc.Checksum{sum})
	if errors.Is(err, dcc.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return "", &fault{"no answer",
			"are anonymous clients of this address served? [dcc] anonymous; does a firewall let UDP through?"}
	}
	if err != nil {
		return "", err
	}
	if len(totals) != 1 || totals[0].Current < dcc.Many {
		return "", unrecognised(fmt.Sprintf("%+v", totals))
	}
	return recognised, nil
}

func (p *Prober) dccifd(ctx context.Context, address string) (string, error) {
	answer, err := exchange(ctx, address, "header query\n"+stranger+
		"\nmx.example.com\ntest@example.com\npostmaster@example.com\n\n"+strings.ReplaceAll(Message, "\r\n", "\n"))
	if err != nil {
		return "", err
	}
	if !strings.Contains(answer, "many") {
		return "", unrecognised(fmt.Sprintf("%.80q", answer))
	}
	return recognised, nil
}

func (p *Prober) fuzzy(ctx context.Context, address string) (string, error) {
	c, err := fuzzy.Dial(ctx, address, &fuzzy.Options{Timeout: p.Timeout / 3, Retransmits: 1})
	if err != nil {
		return "", err
	}
	defer c.Close()
	all := p.of(bulkhead.RspamdText)
	if len(all) == 0 {
		return "", &fault{"the node makes no digest of the test message",
			"[fuzzy] min_length and min_bytes leave out texts of 190 words: so they do of mail"}
	}
	var digest [fuzzy.DigestSize]byte
	copy(digest[:], all[0].Sum())
	r, err := c.Check(ctx, digest, nil)
	if errors.Is(err, bulkhead.ErrUnauthorised) {
		return "answers, to encrypted requests alone", nil
	}
	if errors.Is(err, fuzzy.ErrNoReply) {
		return "", &fault{"no answer", "encrypted_only lets rspamd in that has the key; else a firewall that keeps UDP out"}
	}
	if err != nil {
		return "", err
	}
	if !r.OK() {
		return "", unrecognised(fmt.Sprintf("prob %g, value %d", r.Prob, r.Value))
	}
	return recognised, nil
}

func (p *Prober) policy(ctx context.Context, address string) (string, error) {
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// At CONNECT only rules for this state count.
	if _, err := io.WriteString(conn, "request=smtpd_access_policy\nprotocol_state=CONNECT\nclient_address="+stranger+
		"\n\n"); err != nil {
		return "", err
	}
	answer := make([]byte, 512)
	n, err := io.ReadAtLeast(conn, answer, len("action="))
	if err != nil {
		return "", err
	}
	action, ok := strings.CutPrefix(string(answer[:n]), "action=")
	if !ok {
		return "", unrecognised(fmt.Sprintf("%.80q", answer[:n]))
	}
	return "answers " + strings.TrimSpace(action), nil
}

// dnsbl asks for a name outside all zones, and accepts any answer, because only the configuration
// knows the zones.
func (p *Prober) dnsbl(ctx context.Context, address string) (string, error) {
	name, err := dnsmessage.NewName("2.0.0.127.bulkhead-doctor.invalid.")
	if err != nil {
		return "", err
	}
	const id = 4711
	// A dnsmessage.Message would link the parsers of all kinds of records.
	question := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id})
	err = errors.Join(question.StartQuestions(),
		question.Question(dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}))
	if err != nil {
		return "", err
	}
	packed, err := question.Finish()
	if err != nil {
		return "", err
	}
	conn, err := dial(ctx, "udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write(packed); err != nil {
		return "", err
	}
	buf := make([]byte, 1500)
	n, err := conn.Read(buf)
	if err != nil {
		return "", err
	}
	var answer dnsmessage.Parser
	if h, err := answer.Start(buf[:n]); err != nil || h.ID != id || !h.Response {
		return "", unrecognised("what is no answer of DNS")
	}
	return "answers", nil
}

// milter acts as a mail server that wants a reply to each step.
func (p *Prober) milter(ctx context.Context, address string) (string, error) {
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	m := &milterConn{conn}
	// Version 6, all actions, every step.
	reply, _, err := m.step('O', "\x00\x00\x00\x06\x00\x00\x01\xff\x00\x00\x00\x00")
	if err != nil {
		return "", err
	}
	if reply != 'O' {
		return "", unrecognised(fmt.Sprintf("negotiation %q", reply))
	}
	header, body, _ := strings.Cut(Message, "\r\n\r\n")
	type step struct {
		command byte
		data    string
	}
	steps := []step{
		{'C', "mx.example.com\x004" + string(binary.BigEndian.AppendUint16(nil, 25)) + stranger + "\x00"},
		{'H', "mx.example.com\x00"}, {'M', "<test@example.com>\x00"}, {'R', "<postmaster@example.com>\x00"}, {'T', ""},
	}
	for line := range strings.SplitSeq(header, "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		steps = append(steps, step{'L', name + "\x00" + value + "\x00"})
	}
	steps = append(steps, step{'N', ""}, step{'B', body})
	for _, s := range steps {
		reply, _, err := m.step(s.command, s.data)
		switch {
		case err != nil:
			return "", err
		case reply == 'a' || reply == 'd':
			return "", &fault{fmt.Sprintf("it lets mail from %s pass unseen, at step %q", stranger, s.command),
				"exempt_networks in [milter] has networks of strangers: take them out"}
		case reply != 'c' && reply != 's':
			return "", &fault{fmt.Sprintf("it answers %q at step %q", reply, s.command),
				"a rate limit, or a full node: the log says which"}
		}
	}
	reply, data, err := m.step('E', "")
	for ; err == nil; reply, data, err = m.read() {
		switch {
		case reply == 'i' || reply == 'm' || reply == 'h': // a header: name and value
			if i := strings.Index(data, "X-Bulkhead\x00"); i >= 0 && strings.HasPrefix(data[i:], "X-Bulkhead\x00spam") {
				return recognised, nil
			}
		case reply == 'y' || reply == 'r' || reply == 'q' || reply == 't' || reply == 'd':
			return recognised + ", and refuses or holds spam", nil
		case reply == 'a' || reply == 'c':
			return "", &fault{"it lets the test message pass without a word",
				`spam = "none" in [milter], or exempt_networks has strangers, or the message was not judged in time: see the log`}
		}
	}
	return "", err
}

// A milterConn carries packets of the milter protocol: length, command, data.
type milterConn struct{ net.Conn }

func (m *milterConn) step(command byte, data string) (reply byte, answer string, err error) {
	packet := binary.BigEndian.AppendUint32(nil, uint32(len(data)+1))
	if _, err := m.Write(append(append(packet, command), data...)); err != nil {
		return 0, "", err
	}
	return m.read()
}

func (m *milterConn) read() (reply byte, answer string, err error) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(m, head[:]); err != nil {
			return 0, "", err
		}
		size := binary.BigEndian.Uint32(head[:4])
		if size == 0 || size > maxReply {
			return 0, "", fmt.Errorf("%w: packet of %d bytes", bulkhead.ErrMalformed, size)
		}
		data := make([]byte, size-1)
		if _, err := io.ReadFull(m, data); err != nil {
			return 0, "", err
		}
		if head[4] != 'p' { // progress
			return head[4], string(data), nil
		}
	}
}
