package milter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
)

// maxRecipients bounds the recipients kept for one message; mail servers accept at most
// a thousand by default, some of them any number.
const maxRecipients = 10_000

// maxForged bounds the headers of ours that are removed from a message: a mail server
// scans the header from its top for each, so a message full of them would keep it busy
// for hours.
const maxForged = 100

// A session is one connection of a mail server: the messages of SMTP clients, one after
// the other.
type session struct {
	server *Server
	conn   *door.Conn
	opts   options // the negotiated options
	macros map[byte]map[string]string
	named  bool // macros arrived for the next sender

	client client
	msg    message
	held   door.Hold // the memory of msg
	buf    []byte
	out    []byte
}

// A message is the part of a message received so far.
type message struct {
	envelope
	raw      bytes.Buffer // header and body, lines ending in CRLF
	replyTo  []string
	forged   map[string]int // headers of ours that came with it, by name in lower case
	spoofs   int            // how many headers of ours came; forged has the first maxForged
	exempt   bool
	oversize bool          // too large, or too many recipients: it passes unread
	crowded  error         // why there is no memory for it: it is not read
	waited   time.Duration // for memory
	held     string        // why it is put on hold
	ballot   ballotMail
}

// errQuit ends a session in good order.
var errQuit = errors.New("milter: quit")

// serve serves one mail server until it quits.
func (s *Server) serve(ctx context.Context, c *door.Conn) {
	k := &session{server: s, conn: c, held: s.Memory.Hold(), macros: make(map[byte]map[string]string)}
	defer k.held.Release()
	r := bufio.NewReaderSize(c, 16<<10)
	for {
		c.Await()
		var p packet
		var err error
		if p, k.buf, err = readPacket(r, k.buf); err == nil {
			err = k.command(ctx, p)
		}
		if err != nil {
			s.ended(c, err)
			return
		}
		// Replies to commands that came together are sent together.
		if len(k.out) > 0 && r.Buffered() == 0 {
			if _, err := c.Write(k.out); err != nil {
				return
			}
			k.out = k.out[:0]
		}
	}
}

// ended logs the reason why a connection ended, unless the mail server just disconnected.
func (s *Server) ended(c *door.Conn, err error) {
	var op *net.OpError
	switch {
	case errors.Is(err, errQuit), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err,
		os.ErrDeadlineExceeded), errors.Is(err, door.ErrClientGone), errors.As(err, &op):
		return
	}
	s.Stats.Malformed.Add(1)
	s.Log.Warn("milter connection failed", "mta", c.Client(), "err", err)
}

// command handles one packet and appends the reply, if there is one, to out.
func (k *session) command(ctx context.Context, p packet) error {
	if k.opts.version == 0 && p.cmd != cmdOptions {
		return malformed("command %q before the negotiation", p.cmd)
	}
	switch p.cmd {
	case cmdOptions:
		return k.negotiate(p.data)
	case cmdMacro:
		return k.setMacros(p.data)
	case cmdAbort:
		k.reset()
		return nil
	case cmdNewConn:
		k.reset()
		k.client = client{}
		clear(k.macros)
		return nil
	case cmdQuit:
		return errQuit
	case cmdEnd:
		return k.end(ctx, p.data)
	}
	reply, err := k.step(p)
	if err != nil {
		return err
	}
	if mask := noReply[p.cmd]; mask != 0 && k.opts.steps&mask != 0 {
		return nil
	}
	k.out = append(k.out, reply...)
	return nil
}

var (
	packetContinue = appendPacket(nil, replyContinue)
	packetAccept   = appendPacket(nil, replyAccept)
	packetTempfail = appendPacket(nil, replyTempfail)
	packetDiscard  = appendPacket(nil, replyDiscard)
	packetSkip     = appendPacket(nil, replySkip)
)

// step handles the commands that each have one reply, and returns it.
func (k *session) step(p packet) (reply []byte, err error) {
	switch p.cmd {
	case cmdConnect:
		k.reset()
		if k.client, err = parseConnect(p.data); err != nil {
			return nil, err
		}
		k.server.Stats.Connections.Add(1)
	case cmdHelo, cmdData, cmdUnknown:
	case cmdMail:
		return k.mail(p.data)
	case cmdRcpt:
		return k.rcpt(p.data)
	case cmdHeader:
		return packetContinue, k.header(p.data)
	case cmdEOH:
		k.msg.raw.WriteString("\r\n")
	case cmdBody:
		if k.body(p.data); (k.msg.oversize || k.msg.crowded != nil) && k.opts.steps&canSkip != 0 {
			return packetSkip, nil
		}
	default:
		return nil, malformed("unknown command %q", p.cmd)
	}
	return packetContinue, nil
}

// negotiate agrees on the features that the mail server offers and this milter uses.
func (k *session) negotiate(data []byte) error {
	if k.opts.version != 0 {
		return malformed("second negotiation")
	}
	offer, err := parseOptions(data)
	if err != nil {
		return err
	}
	want := uint32(noHelo | noUnknown | noData | canSkip | noReplyConn | noReplyHdr | noReplyEOH | noReplyBody |
		noReplyHelo | noReplyData | noReplyUnkn | headerSpace)
	if k.server.Limiter == nil {
		want |= noReplyRcpt
	}
	if offer.version < maxVersion {
		want &= noHelo | noReplyHdr // supported by version 2
	}
	k.opts = options{
		version: min(offer.version, maxVersion),
		actions: offer.actions & (actAddHeaders | actChangeHeaders | actQuarantine | actSetMacros),
		steps:   offer.steps & want,
	}
	k.out = k.opts.append(k.out)
	return nil
}

func (k *session) setMacros(data []byte) error {
	cmd, pairs, err := parseMacros(data)
	if err != nil {
		return err
	}
	m := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		m[strings.Trim(pairs[i], "{}")] = pairs[i+1]
	}
	k.macros[cmd] = m
	k.named = k.named || cmd == cmdMail
	return nil
}

// macro returns the value of a macro from the latest stage that has it.
func (k *session) macro(name string) string {
	for _, cmd := range []byte{cmdEnd, cmdData, cmdRcpt, cmdMail, cmdHelo, cmdConnect} {
		if v, ok := k.macros[cmd][name]; ok {
			return v
		}
	}
	return ""
}

// reset discards the message and keeps the connection.
func (k *session) reset() {
	raw := k.msg.raw
	raw.Reset()
	if raw.Cap() > keptBytes {
		raw = bytes.Buffer{} // memory that no message holds is not in the budget
	}
	k.msg = message{raw: raw}
	k.held.Release()
	for _, cmd := range []byte{cmdRcpt, cmdData, cmdEnd} {
		delete(k.macros, cmd)
	}
}

// mail begins a message. Mail of authenticated and local senders passes at once.
func (k *session) mail(data []byte) ([]byte, error) {
	k.reset()
	// A mail server without macros for a sender may send none. The macros of the previous sender,
	// such as the login, must not apply.
	if !k.named {
		delete(k.macros, cmdMail)
	}
	k.named = false
	sender, err := parseAddress(data)
	if err != nil {
		return nil, err
	}
	k.msg.client, k.msg.sender = k.client, sender
	k.msg.login = k.macro("auth_authen")
	if k.msg.exempt = k.server.exempts(&k.msg.envelope); k.msg.exempt && k.server.Limiter == nil &&
		len(k.server.setup.ballots) == 0 {
		k.server.Stats.Exempt.Add(1)
		return packetAccept, nil
	}
	return packetContinue, nil
}

func (k *session) rcpt(data []byte) ([]byte, error) {
	recipient, err := parseAddress(data)
	if err != nil {
		return nil, err
	}
	if len(k.msg.recipients) >= maxRecipients {
		// Closing the connection would also let the client's next messages pass
		// unexamined.
		if k.opts.steps&noReplyRcpt == 0 {
			return smtpReply("452 4.5.3", "too many recipients"), nil
		}
		k.msg.oversize = true
		return packetContinue, nil
	}
	if k.server.Limiter != nil {
		if refusal := k.limit(recipient); refusal != nil {
			return refusal, nil
		}
	}
	k.msg.recipients = append(k.msg.recipients, recipient)
	k.noteBallot(recipient)
	return packetContinue, nil
}

// header keeps one header, as it stood in the message.
func (k *session) header(data []byte) error {
	name, value, err := parseHeader(data)
	if err != nil {
		return err
	}
	if n := string(name); ours(n) {
		if k.msg.forged == nil {
			k.msg.forged = make(map[string]int)
		}
		if k.msg.spoofs++; k.msg.spoofs <= maxForged {
			k.msg.forged[strings.ToLower(n)]++
		}
		return nil // it does not affect signatures either
	}
	if have := len(k.msg.replyTo); have < maxReplyTo && strings.EqualFold(string(name), "Reply-To") {
		added := addresses(string(value))
		k.msg.replyTo = append(k.msg.replyTo, added[:min(len(added), maxReplyTo-have)]...)
	}
	if !k.room(len(name) + len(value) + 4) {
		return nil
	}
	w := &k.msg.raw
	w.Write(name)
	w.WriteString(":")
	if k.opts.steps&headerSpace == 0 {
		w.WriteString(" ") // omitted by mail servers that do not send headers unchanged
	}
	// Folded lines end in LF or CRLF, depending on the mail server.
	for line := range bytes.Lines(value) {
		end := len(line)
		line = bytes.TrimRight(line, "\r\n")
		w.Write(line)
		if len(line) < end {
			w.WriteString("\r\n")
		}
	}
	w.WriteString("\r\n")
	return nil
}

func (k *session) body(chunk []byte) {
	if k.room(len(chunk)) {
		k.msg.raw.Write(chunk)
	}
}

// room reports whether n more bytes of the message are kept. A message beyond the limit
// is not kept at all, since half of it would have other signatures.
func (k *session) room(n int) bool {
	if k.msg.exempt && !k.votes() {
		return false // it will not be read
	}
	if !k.msg.oversize && k.msg.raw.Len()+n > k.server.MaxMessage {
		k.msg.oversize = true
		k.msg.raw = bytes.Buffer{}
		k.held.Release()
	}
	if k.msg.oversize || k.msg.crowded != nil {
		return false
	}
	// The first bytes wait for their turn. Half of the time limit is left for judging.
	begun := time.Now()
	err := k.held.Take(context.Background(), int64(door.Cost*n), k.server.Timeout/2)
	k.msg.waited += time.Since(begun)
	if err != nil {
		k.msg.crowded, k.msg.raw = err, bytes.Buffer{}
		k.held.Release()
	}
	return err == nil
}

// keptBytes is the memory in bytes that a connection keeps between two messages.
const keptBytes = 64 << 10

// end judges the message and appends the changes and the reply.
func (k *session) end(ctx context.Context, rest []byte) error {
	k.body(rest) // the last chunk may come with the end
	k.msg.queueID = k.macro("i")
	s := k.server
	s.Stats.Messages.Add(1)
	begun := time.Now()
	defer func() { s.Stats.Times.Add(time.Since(begun), 1) }()
	defer k.reset() // the connection may be idle for long, and must not keep the message's memory
	if k.votes() {
		k.endVote(ctx)
		return nil
	}
	if k.msg.ballot.recipients > 0 {
		s.Stats.Ballots.Unauthenticated.Add(1)
	}
	switch {
	case k.msg.exempt:
		s.Stats.Exempt.Add(1)
		k.accept()
		return nil
	case k.msg.spoofs > maxForged:
		s.Stats.Forged.Add(int64(k.msg.spoofs))
		s.Log.Warn("message refused for its forged headers", "queue_id", k.msg.queueID, "client", k.client.addr, "headers",
			k.msg.spoofs)
		k.out = append(k.out, smtpReply("550 5.7.1", fmt.Sprintf("more than %d headers that only this server may add",
			maxForged))...)
		return nil
	case k.msg.oversize:
		s.Stats.Oversize.Add(1)
		k.cleanForged()
		k.accept()
		return nil
	}
	if k.msg.crowded != nil {
		k.fault(k.msg.crowded)
		return nil
	}
	f, err := k.judge(ctx)
	if errors.Is(err, door.ErrClientGone) {
		return err
	}
	if err != nil {
		k.fault(err)
		return nil
	}
	for _, fault := range f.faults {
		s.Stats.Faults.Add(1)
		s.Log.Warn("message was checked but not counted", "queue_id", k.msg.queueID, "err", fault)
	}
	k.carryOut(f)
	return nil
}

// judge is Server.judge with a time limit, and with a panic turned into an error. It ends when the mail
// server disconnects.
func (k *session) judge(ctx context.Context) (f *findings, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.server.Timeout-k.msg.waited)
	defer cancel()
	if k.conn != nil {
		watched, unwatch := k.conn.Watch(ctx)
		defer unwatch()
		ctx = watched
	}
	defer func() {
		if p := recover(); p != nil {
			k.server.Log.Error("panic while judging a message", "panic", p, "stack", string(debug.Stack()))
			f, err = nil, errPanic
		}
	}()
	f, err = k.server.judge(ctx, &k.msg.envelope, k.msg.raw.Bytes(), k.msg.replyTo)
	if gone := context.Cause(ctx); err != nil && errors.Is(gone, door.ErrClientGone) {
		err = gone
	}
	return f, err
}

// accept appends the reply that lets the message pass, on hold if its policy or
// a rate limit says so.
func (k *session) accept() {
	if k.msg.held != "" {
		k.quarantine("bulkhead: " + k.msg.held)
	}
	k.out = append(k.out, packetAccept...)
}

// fault appends the reply if there is no result for a message.
func (k *session) fault(err error) {
	k.server.Stats.Faults.Add(1)
	k.server.Log.Error("message not judged", "queue_id", k.msg.queueID, "err", err, "tempfail", k.server.FailTempfail)
	if k.server.FailTempfail {
		k.out = append(k.out, packetTempfail...)
		return
	}
	k.cleanForged()
	k.accept()
}
