package milter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// An mta is the mail server's side of the protocol, for tests.
type mta struct {
	t     testing.TB
	c     net.Conn
	r     *bufio.Reader
	steps uint32 // as negotiated
}

// A result is the set of changes and the reply for a message.
type result struct {
	code       byte
	text       string
	inserted   map[string]string
	deleted    []string // "index name"
	quarantine string
}

// serve runs a server and returns a function that connects to it.
func serve(t testing.TB, s *Server) func(version, steps uint32) *mta {
	t.Helper()
	return serveWith(t, s, 0x1ff)
}

// serveWith is serve for a mail server that permits these actions.
func serveWith(t testing.TB, s *Server, actions uint32) func(version, steps uint32) *mta {
	t.Helper()
	address := prototest.ServeStream(t, "127.0.0.1:0", s)
	return func(version, steps uint32) *mta {
		c, err := net.Dial("tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		m := &mta{t: t, c: c, r: bufio.NewReader(c)}
		m.send(cmdOptions, options{version, actions, steps}.append(nil)[5:])
		p := m.read()
		agreed, err := parseOptions(p.data)
		if err != nil || p.cmd != cmdOptions {
			t.Fatalf("negotiation: %q, %v", p.cmd, err)
		}
		m.steps = agreed.steps
		return m
	}
}

func (m *mta) send(cmd byte, parts ...[]byte) {
	m.t.Helper()
	if _, err := m.c.Write(appendPacket(nil, cmd, parts...)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mta) read() packet {
	m.t.Helper()
	p, _, err := readPacket(m.r, nil)
	if err != nil {
		m.t.Fatalf("reading a reply: %v", err)
	}
	return p
}

// step sends a command and returns its reply, replyContinue if it has none.
func (m *mta) step(cmd byte, parts ...[]byte) packet {
	m.t.Helper()
	m.send(cmd, parts...)
	if mask := noReply[cmd]; mask != 0 && m.steps&mask != 0 {
		return packet{cmd: replyContinue}
	}
	return m.read()
}

func (m *mta) connect(addr string) {
	m.t.Helper()
	family := "4"
	if strings.Contains(addr, ":") {
		family = "6"
	}
	if p := m.step(cmdConnect, []byte("client.example.org\x00"+family+"\x04\xd2"+addr+"\x00")); p.cmd != replyContinue {
		m.t.Fatalf("connect: %q", p.cmd)
	}
	if m.steps&noHelo == 0 {
		m.step(cmdHelo, []byte("client.example.org\x00"))
	}
}

// macro sends macros as name and value pairs.
func (m *mta) macro(cmd byte, pairs ...string) {
	m.t.Helper()
	m.send(cmdMacro, append([]byte{cmd}, strings.Join(pairs, "\x00")+"\x00"...))
}

// begin sends everything up to the end of the message; it returns false, and
// the reply, if the milter decided before.
func (m *mta) begin(from string, to []string, text string) (packet, bool) {
	m.t.Helper()
	if p := m.step(cmdMail, []byte("<"+from+">\x00SIZE=5\x00")); p.cmd != replyContinue {
		return p, false
	}
	for _, r := range to {
		if p := m.step(cmdRcpt, []byte("<"+r+">\x00")); p.cmd != replyContinue {
			return p, false
		}
	}
	if m.steps&noData == 0 {
		m.step(cmdData)
	}
	head, body, _ := strings.Cut(text, "\n\n")
	folds := strings.NewReplacer("\n\t", "\x01", "\n ", "\x02")
	unfolds := strings.NewReplacer("\x01", "\n\t", "\x02", "\n ")
	for line := range strings.SplitSeq(folds.Replace(head), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if m.steps&headerSpace == 0 {
			value = strings.TrimPrefix(value, " ")
		}
		m.step(cmdHeader, []byte(name+"\x00"+unfolds.Replace(value)+"\x00"))
	}
	m.step(cmdEOH)
	body = strings.ReplaceAll(body, "\n", "\r\n")
	for chunk := []byte(body); len(chunk) > 0; chunk = chunk[min(len(chunk), 65535):] {
		if p := m.step(cmdBody, chunk[:min(len(chunk), 65535)]); p.cmd == replySkip {
			break
		}
	}
	return packet{}, true
}

// message sends one message and returns its result.
func (m *mta) message(from string, to []string, text string) result {
	m.t.Helper()
	if p, ok := m.begin(from, to, text); !ok {
		return result{code: p.cmd, text: string(bytes.TrimRight(p.data, "\x00"))}
	}
	m.macro(cmdEnd, "i", "4711")
	m.send(cmdEnd)
	r := result{inserted: make(map[string]string)}
	for {
		p := m.read()
		fields := strings.Split(string(p.data), "\x00")
		switch p.cmd {
		case replyInsert:
			if binary.BigEndian.Uint32(p.data) != 0 {
				m.t.Errorf("header at %d, want the top", binary.BigEndian.Uint32(p.data))
			}
			name, value, _ := strings.Cut(string(p.data[4:]), "\x00")
			value = strings.TrimSuffix(value, "\x00")
			if text, ok := strings.CutPrefix(value, " "); ok == (m.steps&headerSpace != 0) {
				value = text
			} else {
				m.t.Errorf("header %s: value %q; the steps agreed on are %x", name, value, m.steps)
			}
			r.inserted[name] = value
		case replyChange:
			name, value, _ := strings.Cut(string(p.data[4:]), "\x00")
			if value != "\x00" {
				m.t.Errorf("header %s changed to %q", name, value)
			}
			r.deleted = append(r.deleted, fmt.Sprint(binary.BigEndian.Uint32(p.data), " ", name))
		case replyQuarantine:
			r.quarantine = fields[0]
		default:
			r.code, r.text = p.cmd, fields[0]
			return r
		}
	}
}
