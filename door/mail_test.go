package door

import (
	"context"
	"io"
	"net"
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
