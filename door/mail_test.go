package door

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMailServerDeadline: the answer to a mail has a deadline.
func TestMailServerDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	m := &MailServer{RequestTime: time.Minute, Handler: func(ctx context.Context, c *Conn, mail []byte) {
		end, ok := ctx.Deadline()
		if !ok || time.Until(end) > time.Minute {
			mail = append(mail, " without a deadline"...)
		}
		_, _ = c.Write(mail)
	}}
	go func() { served <- m.Serve(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "mail"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "mail" || err != nil {
		t.Errorf("answer %q, %v", got, err)
	}
	if err := m.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != ErrServerClosed {
		t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
	}
}

// TestMailServerRefusals: mail that is too large, too much or too often gets no answer.
func TestMailServerRefusals(t *testing.T) {
	crowded := NewMemory(100)
	hold := crowded.Hold()
	if err := hold.Take(t.Context(), 100, 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		server *MailServer
		size   int
		want   []bool // answers to one mail after the other
	}{
		{"largest", &MailServer{MaxMail: 1000}, 1000, []bool{true, true}},
		{"too large", &MailServer{MaxMail: 1000}, 1001, []bool{false, false}},
		{"rate", &MailServer{Rate: Rate{PerSecond: 1e-6, Burst: 2}}, 10, []bool{true, true, false}},
		{"exempt", &MailServer{Rate: Rate{PerSecond: 1e-6, Burst: 1}, Exempt: Loopback()}, 10, []bool{true, true}},
		{"memory", &MailServer{Memory: crowded, RequestTime: time.Millisecond}, 10, []bool{false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			m := tt.server
			var handled atomic.Int64
			m.Handler = func(_ context.Context, c *Conn, mail []byte) { handled.Add(1); _, _ = c.Write(mail) }
			served := make(chan error)
			go func() { served <- m.Serve(l) }()
			mail := strings.Repeat("x", tt.size)
			for i, want := range tt.want {
				c := dial(t, l.Addr())
				io.WriteString(c, mail)
				c.(*net.TCPConn).CloseWrite()
				// Input that was not read resets the connection.
				if got, err := io.ReadAll(c); want && (err != nil || string(got) != mail) || !want && len(got) > 0 {
					t.Errorf("mail %d of %d bytes: %d bytes, %v", i, tt.size, len(got), err)
				}
				c.Close()
			}
			if err := m.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-served; err != ErrServerClosed {
				t.Errorf("Serve = %v, want %v", err, ErrServerClosed)
			}
			answers := 0
			for _, want := range tt.want {
				if want {
					answers++
				}
			}
			if got := handled.Load(); got != int64(answers) {
				t.Errorf("%d mails handled, want %d", got, answers)
			}
			if got := m.ConnStats().Accepted.Load(); got != int64(len(tt.want)) {
				t.Errorf("%d connections counted, want %d", got, len(tt.want))
			}
		})
	}
}
