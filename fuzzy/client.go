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
)

// A Client queries a fuzzy storage, ours or rspamd's. Its methods may be called
// concurrently; requests wait for each other.
type Client struct {
	// Timeout is how long an answer may take before the request is sent again;
	// 0 means 1 s.
	Timeout time.Duration
	// Retransmits is how often a request is sent again; 0 means 3, below 0 never.
	Retransmits int

	mu     sync.Mutex
	conn   net.Conn
	server *[32]byte
	own    KeyPair
	shared *sharedKey
}

// Dial returns a client of the storage at address, "host:port" of UDP. Requests
// are encrypted if serverKey, the storage's public key, is not nil. The caller
// closes the client.
func Dial(ctx context.Context, address string, serverKey *[32]byte) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("fuzzy: %w", err)
	}
	c := &Client{conn: conn, server: serverKey}
	if serverKey != nil {
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
	timeout, again := c.Timeout, c.Retransmits
	if timeout <= 0 {
		timeout = time.Second
	}
	if again == 0 {
		again = 3
	}
	for range 1 + max(again, 0) {
		if _, err := c.conn.Write(datagram); err != nil {
			return Reply{}, fmt.Errorf("fuzzy: %w", err)
		}
		reply, err := c.await(ctx, r.Tag, time.Now().Add(timeout))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if ctx.Err() == nil {
				continue
			}
			err = fmt.Errorf("fuzzy: %w", ctx.Err()) // it ended just after the read
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
	if c.server == nil {
		return plain, nil
	}
	return sealRequest(nil, c.server, &c.own.Public, c.shared, plain)
}

// await reads replies until one has the given tag. Unreadable replies are skipped: any host may
// have sent them.
func (c *Client) await(ctx context.Context, tag uint32, deadline time.Time) (Reply, error) {
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return Reply{}, fmt.Errorf("fuzzy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 2048)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return Reply{}, fmt.Errorf("fuzzy: %w", err)
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
