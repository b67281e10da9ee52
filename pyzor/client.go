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
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/deadline"
)

// A Client queries one Pyzor server. Its methods may be called concurrently; requests wait for each
// other.
type Client struct {
	opts Options

	mu   sync.Mutex
	conn net.Conn
}

// Options of a [Client]. nil and the zero Options are the defaults.
type Options struct {
	User string // "" is anonymous
	Key  string // of the user: 40 hexadecimal characters
	// Timeout is how long the answer to one request may take; 0 means 5 s.
	Timeout time.Duration
}

// Dial returns a client of the server at "host:port" of UDP. The server may be absent: Dial sends
// nothing. The caller closes the client.
func Dial(ctx context.Context, address string, o *Options) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("pyzor: %w", err)
	}
	c := &Client{conn: conn}
	if o != nil {
		c.opts = *o
	}
	if c.opts.Timeout <= 0 {
		c.opts.Timeout = 5 * time.Second
	}
	return c, nil
}

// Close ends the client's use.
func (c *Client) Close() error { return c.conn.Close() }

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
	c.mu.Lock()
	defer c.mu.Unlock()
	release, err := deadline.Set(ctx, c.conn, time.Now().Add(c.opts.Timeout))
	if err != nil {
		return nil, fmt.Errorf("pyzor: %w", err)
	}
	defer release()
	thread := strconv.Itoa(1024 + rand.IntN(65536-1024))
	r := Request{
		Op: []byte(op), Thread: []byte(thread), User: []byte(c.opts.User),
		Time: strconv.AppendInt(nil, time.Now().Unix(), 10),
	}
	for i := range sigs {
		r.Digests = append(r.Digests, hex.AppendEncode(nil, sigs[i].Sum()))
	}
	if _, err := c.conn.Write(r.Append(nil, []byte(c.opts.Key))); err != nil {
		return nil, fmt.Errorf("pyzor: %w", deadline.Cause(ctx, err))
	}
	buf := make([]byte, maxDatagram)
	for {
		n, err := c.conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("pyzor: no answer from %s: %w", c.conn.RemoteAddr(), deadline.Cause(ctx, err))
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
