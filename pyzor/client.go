package pyzor

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Client queries one Pyzor server, for use by one goroutine. With only Address set, it
// is anonymous and waits for five seconds.
type Client struct {
	Address string // "host:port"
	User    string // "" is anonymous
	Key     string // of the user: 40 hexadecimal characters
	Timeout time.Duration
}

// A Reply is the answer of a server.
type Reply struct {
	Code   int
	Diag   string
	Thread string
	Values map[string]string // all headers by their name as written
}

// Err returns nil for code 200, and an error that names code and text otherwise.
func (r *Reply) Err() error {
	switch r.Code {
	case 200:
		return nil
	case 401:
		return fmt.Errorf("%w: pyzor: %s", bulkhead.ErrUnauthorised, r.Diag)
	case 403, 422:
		return fmt.Errorf("%w: pyzor: %s", bulkhead.ErrForbidden, r.Diag)
	case 400, 505:
		return fmt.Errorf("%w: pyzor: %s", bulkhead.ErrMalformed, r.Diag)
	}
	return fmt.Errorf("pyzor: server answered %d %s", r.Code, r.Diag)
}

// Count returns a count of the answer, by the name of its header.
func (r *Reply) Count(name string) (int64, error) {
	n, err := strconv.ParseInt(r.Values[name], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: pyzor: %s: %v", bulkhead.ErrMalformed, name, err)
	}
	return n, nil
}

// ParseReply reads an answer.
func ParseReply(data []byte) (*Reply, error) {
	r := &Reply{Values: make(map[string]string)}
	for line := range bytes.Lines(data) {
		name, value, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		if !ok {
			continue
		}
		if _, twice := r.Values[string(name)]; !twice {
			r.Values[string(name)] = string(value)
		}
	}
	code, err := strconv.Atoi(r.Values["Code"])
	if err != nil {
		return nil, fmt.Errorf("%w: pyzor: answer without a code: %.80q", bulkhead.ErrMalformed, data)
	}
	thread, ok := r.Values["Thread"]
	if !ok || !strings.HasPrefix(r.Values["PV"], "2.") {
		return nil, fmt.Errorf("%w: pyzor: answer without Thread or PV 2: %.80q", bulkhead.ErrMalformed, data)
	}
	r.Code, r.Diag, r.Thread = code, r.Values["Diag"], thread
	return r, nil
}

// Do sends one request and waits for the answer. If its code is not 200, the error is
// the Reply's.
func (c *Client) Do(ctx context.Context, op Op, sigs ...bulkhead.Signature) (*Reply, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("pyzor: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	thread := strconv.Itoa(1024 + rand.IntN(65536-1024))
	r := Request{
		Op: []byte(op), Thread: []byte(thread), User: []byte(c.User),
		Time: strconv.AppendInt(nil, time.Now().Unix(), 10),
	}
	for i := range sigs {
		r.Digests = append(r.Digests, hex.AppendEncode(nil, sigs[i].Sum()))
	}
	if _, err := conn.Write(r.Append(nil, []byte(c.Key))); err != nil {
		return nil, fmt.Errorf("pyzor: %w", err)
	}
	buf := make([]byte, maxDatagram)
	for {
		n, err := conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("pyzor: no answer from %s: %w", c.Address, context.Cause(ctx))
		}
		if err != nil {
			return nil, fmt.Errorf("pyzor: %w", err)
		}
		reply, err := ParseReply(buf[:n])
		if err != nil {
			return nil, err
		}
		if reply.Thread == thread {
			return reply, reply.Err()
		}
	}
}
