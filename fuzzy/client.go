package fuzzy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/deadline"
)

// A Client queries one fuzzy storage, ours or rspamd's. Its methods may be called concurrently;
// requests wait for each other.
type Client struct {
	opts Options

	mu     sync.Mutex
	conn   net.Conn
	own    KeyPair
	shared *sharedKey
}

// Options of a [Client]. nil and the zero Options are the defaults.
type Options struct {
	// ServerKey is the storage's public key, with which requests are encrypted; nil means not at all.
	ServerKey *[32]byte
	// Timeout is how long an answer may take before the request is sent again; 0 means 1 s.
	Timeout time.Duration
	// Retransmits is how often a request is sent again; 0 means 3, below 0 never.
	Retransmits int
}

// Dial returns a client of the storage at "host:port" of UDP. The storage may be absent: Dial sends
// nothing. The caller closes the client.
func Dial(ctx context.Context, address string, o *Options) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("fuzzy: %w", err)
	}
	c := &Client{conn: conn}
	if o != nil {
		c.opts = *o
	}
	if serverKey := c.opts.ServerKey; serverKey != nil {
		if c.own, err = NewKeyPair(nil); err == nil {
			c.shared, err = deriveShared(&c.own.Secret, serverKey)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close ends the client's use.
func (c *Client) Close() error { return c.conn.Close() }

// ErrNoReply means that the storage did not answer.
var ErrNoReply = errors.New("fuzzy: no reply")

// Do sends r and returns the reply to it. Version 0 means 4 with the long form; a Tag of 0 is
// replaced by a random one. Errors wrap [ErrNoReply] or the errors of [Reply.Err], or are errors of
// the network.
func (c *Client) Do(ctx context.Context, r Request) (Reply, error) {
	if r.Version == 0 {
		r.Version, r.LongForm = 4, true
	}
	var random [4]byte
	for r.Tag == 0 {
		rand.Read(random[:])
		r.Tag = binary.LittleEndian.Uint32(random[:])
	}
	datagram, err := c.datagram(&r)
	if err != nil {
		return Reply{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	timeout, again := c.opts.Timeout, c.opts.Retransmits
	if timeout <= 0 {
		timeout = time.Second
	}
	if again == 0 {
		again = 3
	}
	for range 1 + max(again, 0) {
		reply, err := c.attempt(ctx, datagram, r.Tag, timeout)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if ctx.Err() == nil {
				continue
			}
			err = fmt.Errorf("fuzzy: %w", ctx.Err())
		}
		if err == nil {
			err = reply.Err()
		}
		if err != nil {
			return Reply{}, err
		}
		return reply, nil
	}
	return Reply{}, fmt.Errorf("%w from %s within %d times %v", ErrNoReply, c.conn.RemoteAddr(), 1+max(again, 0), timeout)
}

func (c *Client) datagram(r *Request) ([]byte, error) {
	plain := r.Append(nil)
	if c.opts.ServerKey == nil {
		return plain, nil
	}
	return sealRequest(nil, c.opts.ServerKey, &c.own.Public, c.shared, plain)
}

// attempt sends a request and reads replies until one has the given tag. Unreadable replies are
// skipped: any host may have sent them.
func (c *Client) attempt(ctx context.Context, datagram []byte, tag uint32, timeout time.Duration) (Reply, error) {
	if _, err := c.conn.Write(datagram); err != nil {
		return Reply{}, fmt.Errorf("fuzzy: %w", err)
	}
	release, err := deadline.Set(ctx, c.conn, time.Now().Add(timeout))
	if err != nil {
		return Reply{}, fmt.Errorf("fuzzy: %w", err)
	}
	defer release()
	buf := make([]byte, 2048)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return Reply{}, fmt.Errorf("fuzzy: %w", deadline.Cause(ctx, err))
		}
		data := buf[:n]
		if c.shared != nil {
			if data, err = c.shared.openReply(data); err != nil {
				continue
			}
		}
		if reply, err := ParseReply(data); err == nil && reply.Tag == tag {
			return reply, nil
		}
	}
}

// Check looks up a digest and, if shingles is not nil, near copies.
func (c *Client) Check(ctx context.Context, digest [DigestSize]byte, shingles *[32]uint64) (Reply, error) {
	r := Request{Command: Check, Digest: digest}
	if shingles != nil {
		r.Shingled, r.Shingles = true, *shingles
	}
	return c.Do(ctx, r)
}

// Write adds value to a digest on a list.
func (c *Client) Write(ctx context.Context, digest [DigestSize]byte, shingles *[32]uint64,
	flag uint8, value int32) error {
	r := Request{Command: Write, Digest: digest, Flag: flag, Value: value}
	if shingles != nil {
		r.Shingled, r.Shingles = true, *shingles
	}
	return accepted(c.Do(ctx, r))
}

// Delete forgets a digest and, if shingles is not nil, its near copies.
func (c *Client) Delete(ctx context.Context, digest [DigestSize]byte, shingles *[32]uint64) error {
	r := Request{Command: Delete, Digest: digest}
	if shingles != nil {
		r.Shingled, r.Shingles = true, *shingles
	}
	return accepted(c.Do(ctx, r))
}

func accepted(r Reply, err error) error {
	if err == nil && !r.OK() {
		err = fmt.Errorf("fuzzy: %w: not accepted", bulkhead.ErrForbidden)
	}
	return err
}
