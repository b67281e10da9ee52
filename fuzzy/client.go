package fuzzy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/deadline"
)

// A Client queries one fuzzy storage, ours or rspamd's. Its methods may be called concurrently;
// requests wait for each other.
type Client struct {
	opts    Options
	address string // "host:port"

	mu     sync.Mutex
	conn   net.Conn // nil for a connection that is to be made
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
	// TCP sends requests over one connection and not as datagrams. A connection that fails is made again.
	TCP bool
	// Resolver finds the storage of a service; nil means the system's.
	Resolver *net.Resolver
}

// Dial returns a client of the storage at "host:port", or at the first target of a service in rspamd's notation:
// "service=fuzzy+example.com" asks for the SRV record _fuzzy._tcp.example.com. The storage may be absent: Dial sends
// it nothing. The caller closes the client.
//
// Source: docs/specs/rspamd-fuzzy.md#client-behaviour.
func Dial(ctx context.Context, address string, o *Options) (*Client, error) {
	c := new(Client)
	if o != nil {
		c.opts = *o
	}
	var err error
	if c.address, err = c.resolve(ctx, address); err != nil {
		return nil, err
	}
	if !c.opts.TCP {
		if c.conn, err = c.dial(ctx, "udp"); err != nil {
			return nil, err
		}
	}
	if serverKey := c.opts.ServerKey; serverKey != nil {
		if c.own, err = NewKeyPair(nil); err == nil {
			c.shared, err = deriveShared(&c.own.Secret, serverKey)
		}
		if err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func (c *Client) dial(ctx context.Context, network string) (net.Conn, error) {
	d := net.Dialer{Resolver: c.opts.Resolver}
	conn, err := d.DialContext(ctx, network, c.address)
	if err != nil {
		return nil, fmt.Errorf("fuzzy: %w", err)
	}
	return conn, nil
}

// resolve returns the "host:port" of an address, which may be a service.
func (c *Client) resolve(ctx context.Context, address string) (string, error) {
	service, ok := strings.CutPrefix(address, "service=")
	if !ok {
		return address, nil
	}
	name, domain, ok := strings.Cut(service, "+")
	if domain, _, _ = strings.Cut(domain, ":"); !ok || name == "" || domain == "" { // a weight among others follows
		return "", fmt.Errorf("fuzzy: %w: address %q, want service=NAME+DOMAIN", bulkhead.ErrMalformed, address)
	}
	resolver := c.opts.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	_, targets, err := resolver.LookupSRV(ctx, name, "tcp", domain)
	if err != nil {
		return "", fmt.Errorf("fuzzy: %w", err)
	}
	if len(targets) == 0 {
		return "", fmt.Errorf("fuzzy: no storage of %s", address)
	}
	return net.JoinHostPort(targets[0].Target, strconv.Itoa(int(targets[0].Port))), nil
}

// Close ends the client's use. With TCP it waits for the present request.
func (c *Client) Close() error {
	if !c.opts.TCP {
		return c.conn.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hangUp()
}

// hangUp closes the connection, if there is one.
func (c *Client) hangUp() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

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
	for attempt := range 1 + max(again, 0) {
		reply, err := c.attempt(ctx, datagram, r.Tag, timeout)
		if err != nil && c.opts.TCP && attempt == 0 && ctx.Err() == nil {
			continue // the connection may have been idle for too long
		}
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
	return Reply{}, fmt.Errorf("%w from %s within %d times %v", ErrNoReply, c.address, 1+max(again, 0), timeout)
}

func (c *Client) datagram(r *Request) ([]byte, error) {
	plain := r.Append(nil)
	if c.opts.ServerKey == nil {
		return plain, nil
	}
	return sealRequest(nil, c.opts.ServerKey, &c.own.Public, c.shared, plain)
}

// attempt sends a request and reads replies until one has the given tag. Unreadable replies are
// skipped: any host may have sent them. A connection without an answer is given up.
func (c *Client) attempt(ctx context.Context, datagram []byte, tag uint32, timeout time.Duration) (reply Reply,
	err error,
) {
	if c.opts.TCP {
		defer func() {
			if err != nil {
				c.hangUp()
			}
		}()
		datagram = append(binary.LittleEndian.AppendUint16(nil, uint16(len(datagram))), datagram...)
	}
	if c.conn == nil {
		dialling, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if c.conn, err = c.dial(dialling, "tcp"); err != nil {
			return Reply{}, err
		}
	}
	if !c.opts.TCP { // a datagram is sent at once, however little time there is for the answer
		if _, err := c.conn.Write(datagram); err != nil {
			return Reply{}, fmt.Errorf("fuzzy: %w", err)
		}
	}
	release, err := deadline.Set(ctx, c.conn, time.Now().Add(timeout))
	if err != nil {
		return Reply{}, fmt.Errorf("fuzzy: %w", err)
	}
	defer release()
	if c.opts.TCP {
		if _, err := c.conn.Write(datagram); err != nil {
			return Reply{}, fmt.Errorf("fuzzy: %w", deadline.Cause(ctx, err))
		}
	}
	buf := make([]byte, 2048)
	for {
		data, err := c.read(buf)
		if err != nil {
			return Reply{}, fmt.Errorf("fuzzy: %w", deadline.Cause(ctx, err))
		}
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

// read reads a datagram or a frame.
func (c *Client) read(buf []byte) ([]byte, error) {
	if !c.opts.TCP {
		n, err := c.conn.Read(buf)
		return buf[:n], err
	}
	if _, err := io.ReadFull(c.conn, buf[:2]); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint16(buf))
	if n > len(buf) {
		return nil, fmt.Errorf("fuzzy: %w: frame of %d bytes, want at most %d", bulkhead.ErrMalformed, n, len(buf))
	}
	_, err := io.ReadFull(c.conn, buf[:n])
	return buf[:n], err
}

// Ping returns how long the storage takes to answer. As rspamd does, it sends the milliseconds since midnight.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	day := begin.UTC().Truncate(24 * time.Hour)
	sent := int32(begin.Sub(day).Milliseconds())
	reply, err := c.Do(ctx, Request{Command: Ping, Value: sent})
	switch {
	case err != nil:
		return 0, err
	case !reply.OK() || reply.Value != sent:
		return 0, fmt.Errorf("fuzzy: %w: a ping of %d is answered with %d", bulkhead.ErrMalformed, sent, reply.Value)
	}
	return time.Since(begin), nil
}

// Stored returns how many digests the storage has.
func (c *Client) Stored(ctx context.Context) (uint64, error) {
	reply, err := c.Do(ctx, Request{Command: Stat})
	return uint64(reply.Flag) | uint64(uint32(reply.Value))<<32, err
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
