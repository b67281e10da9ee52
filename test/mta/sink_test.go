//go:build interop

package mta

import (
	"bufio"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A sink is an SMTP server that takes every message and keeps it.
type sink struct {
	addr string
	mu   sync.Mutex
	got  []delivery
}

// A delivery is one message as the sink got it.
type delivery struct {
	from string
	to   []string
	data string
}

func startSink(t testing.TB) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{addr: l.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := make(map[net.Conn]bool)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			wg.Go(func() { s.serve(c); c.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *sink) serve(c net.Conn) {
	tp := textproto.NewConn(c)
	fmt.Fprint(c, "220 sink.example.net\r\n")
	var d delivery
	for {
		line, err := tp.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(verb) {
		case "MAIL":
			d = delivery{from: address(rest)}
		case "RCPT":
			d.to = append(d.to, address(rest))
		case "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			data, err := tp.ReadDotBytes()
			if err != nil {
				return
			}
			d.data = string(data)
			s.mu.Lock()
			s.got = append(s.got, d)
			s.mu.Unlock()
		case "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		}
		fmt.Fprint(c, "250 ok\r\n")
	}
}

func address(args string) string {
	_, rest, _ := strings.Cut(args, "<")
	a, _, _ := strings.Cut(rest, ">")
	return a
}

// find returns the message that holds text, and whether there is one.
func (s *sink) find(text string) (delivery, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.got {
		if strings.Contains(d.data, text) {
			return d, true
		}
	}
	return delivery{}, false
}

// await returns the message that holds text as soon as it has arrived.
func (s *sink) await(t testing.TB, text string) delivery {
	t.Helper()
	nodetest.Await(t, "message with "+text, func() bool { _, ok := s.find(text); return ok })
	d, _ := s.find(text)
	return d
}

// An smtpClient talks to a mail server.
type smtpClient struct {
	c net.Conn
	r *bufio.Reader
}

func dialSMTP(t testing.TB, addr string) *smtpClient {
	t.Helper()
	s, code, text := dialSMTPFrom(t, "127.0.0.1", addr)
	if code != 220 {
		t.Fatalf("greeting %d %s", code, text)
	}
	s.ok(t, 250, "EHLO client.example.org")
	return s
}

// dialSMTPFrom connects from an address of this machine, and returns the greeting.
func dialSMTPFrom(t testing.TB, from, addr string) (s *smtpClient, code int, text string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s = &smtpClient{c: c, r: bufio.NewReader(c)}
	code, text = s.reply(t)
	return s, code, text
}

func (s *smtpClient) reply(t testing.TB) (code int, text string) {
	t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			t.Fatalf("reading a reply: %v", err)
		}
		if _, err := fmt.Sscanf(line, "%d", &code); err != nil || len(line) < 4 {
			t.Fatalf("reply %q", line)
		}
		text += line[4:]
		if line[3] != '-' {
			return code, strings.TrimSpace(text)
		}
	}
}

func (s *smtpClient) send(t testing.TB, format string, args ...any) (code int, text string) {
	t.Helper()
	if _, err := fmt.Fprintf(s.c, format+"\r\n", args...); err != nil {
		t.Fatal(err)
	}
	return s.reply(t)
}

func (s *smtpClient) ok(t testing.TB, want int, format string, args ...any) {
	t.Helper()
	if code, text := s.send(t, format, args...); code != want {
		t.Fatalf(format+": %d %s, want %d", append(args, code, text, want)...)
	}
}

// message sends one message and returns the reply to its end.
func (s *smtpClient) message(t testing.TB, from string, to []string, data string) (code int, text string) {
	t.Helper()
	s.ok(t, 250, "MAIL FROM:<%s>", from)
	for _, r := range to {
		s.ok(t, 250, "RCPT TO:<%s>", r)
	}
	s.ok(t, 354, "DATA")
	lines := strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\n.", "\n..")
	return s.send(t, "%s\r\n.", strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\r\n"))
}
