package dcc

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

// A Client is a client of one DCC server. Its methods may be called concurrently; requests wait for
// each other.
type Client struct {
	id       uint32
	password string
	host     [8]byte // h and p of our packets

	mu     sync.Mutex
	conn   net.Conn
	number uint32
}

// Options configure a [Client]. nil and the zero Options make an anonymous client.
type Options struct {
	ID       uint32 // client-id or server-id; 0 means AnonymousID
	Password string // of ID, 1 to MaxPassword bytes; anonymous clients have none
}

// ErrNoAnswer means that the server did not answer.
var ErrNoAnswer = errors.New("dcc: no answer")

// Waits between transmissions, docs/specs/dcc.md#retransmission.
const (
	maxTransmissions = 4
	firstWait        = 350 * time.Millisecond
	maxWait          = 4 * time.Second
)

// Dial returns a client of the server at "host:port" of UDP. The server may be absent: Dial sends
// nothing. The caller closes the client.
func Dial(ctx context.Context, address string, o *Options) (*Client, error) {
	id, password := uint32(AnonymousID), ""
	if o != nil && o.ID != 0 {
		id = o.ID
	}
	if o != nil {
		password = o.Password
	}
	if id != AnonymousID && (id < MinServerID || id > MaxClientID) {
		return nil, fmt.Errorf("dcc: client id %d, want %d or %d to %d", id, AnonymousID, MinServerID, MaxClientID)
	}
	if len(password) > MaxPassword || id != AnonymousID && password == "" {
		return nil, fmt.Errorf("dcc: password of %d bytes, want 1 to %d", len(password), MaxPassword)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("dcc: %w", err)
	}
	c := &Client{id: id, password: password, conn: conn}
	if id == AnonymousID {
		c.password = ""
	}
	rand.Read(c.host[:])
	return c, nil
}

// Close ends the client's use.
func (c *Client) Close() error { return c.conn.Close() }

// appendRequest appends a request with an empty transmission number.
func (c *Client) appendRequest(dst []byte, op Op, number uint32, body []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, MaxVersion, byte(op))
	dst = binary.BigEndian.AppendUint32(dst, c.id)
	dst = append(dst, c.host[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = append(dst, body...)
	binary.BigEndian.PutUint16(dst[start:], uint16(len(dst)-start+signatureSize))
	return append(dst, make([]byte, signatureSize)...)
}

// transmit numbers and signs a request that appendRequest made.
func (c *Client) transmit(request []byte, transmission uint32) {
	binary.LittleEndian.PutUint32(request[20:], transmission)
	if c.password != "" {
		at := len(request) - signatureSize
		sum := sign(c.password, request[:at])
		copy(request[at:], sum[:])
	}
}

// do sends a request until it is answered and returns the operation and the
// body of the answer.
func (c *Client) do(ctx context.Context, op Op, body []byte) (Op, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	request := c.appendRequest(nil, op, c.number, body)
	wait := firstWait
	for n := range uint32(maxTransmissions) {
		c.transmit(request, n+1)
		answer, err := c.attempt(ctx, request, wait)
		if err == nil {
			return Op(answer[3]), answer[headerSize : len(answer)-signatureSize], nil
		}
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, nil, fmt.Errorf("dcc: %w", err)
		}
		wait = min(2*wait, maxWait)
	}
	return 0, nil, fmt.Errorf("%w from %s to %d transmissions", ErrNoAnswer, c.conn.RemoteAddr(), maxTransmissions)
}

// attempt sends a request and waits for its answer.
func (c *Client) attempt(ctx context.Context, request []byte, wait time.Duration) ([]byte, error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	release, err := deadline.Set(ctx, c.conn, time.Now().Add(wait))
	if err != nil {
		return nil, err
	}
	defer release()
	return c.await(request)
}

// await reads until the answer to request comes, and skips everything else.
func (c *Client) await(request []byte) ([]byte, error) {
	buf := make([]byte, 2048)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return nil, err
		}
		a := buf[:n]
		if n < minPacket || int(binary.BigEndian.Uint16(a)) != n || string(a[8:20]) != string(request[8:20]) {
			continue
		}
		if c.password != "" && !signedBy(a, c.password) {
			continue
		}
		return a, nil
	}
}

// result returns the body of an answer, or the error that it states.
func result(op Op, body []byte, err error, want Op) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case op == want:
		return body, nil
	case op == Error && len(body) > 0:
		return nil, fmt.Errorf("dcc: %w: the server says %q", bulkhead.ErrForbidden, body[:len(body)-1])
	}
	return nil, fmt.Errorf("dcc: %w: answer %v, want %v", bulkhead.ErrMalformed, op, want)
}

// Brand asks a server for its brand, by a NOP.
func (c *Client) Brand(ctx context.Context) (string, error) {
	op, body, err := c.do(ctx, NOP, nil)
	if body, err = result(op, body, err, OK); err != nil {
		return "", err
	}
	if len(body) != 4+brandSize {
		return "", fmt.Errorf("dcc: %w: OK of %d bytes", bulkhead.ErrMalformed, len(body))
	}
	brand := body[4:]
	for i, b := range brand {
		if b == 0 {
			brand = brand[:i]
			break
		}
	}
	return string(brand), nil
}

// Report counts checksums for a number of targets, or as spam, and returns their
// totals. The checksums must be in ascending order of their types.
func (c *Client) Report(ctx context.Context, targets uint32, spam bool, sums []Checksum) ([]Total, error) {
	if targets > maxTargets {
		return nil, fmt.Errorf("dcc: %w: %d targets, limit %d", bulkhead.ErrMalformed, targets, maxTargets)
	}
	if spam {
		targets |= targetsSpam
	}
	return c.totals(ctx, Report, targets, sums)
}

// Query returns the totals of checksums and counts nothing.
func (c *Client) Query(ctx context.Context, sums []Checksum) ([]Total, error) {
	return c.totals(ctx, Query, 0, sums)
}

func (c *Client) totals(ctx context.Context, op Op, targets uint32, sums []Checksum) ([]Total, error) {
	if len(sums) > maxChecksums {
		return nil, fmt.Errorf("dcc: %w: %d checksums, limit %d", bulkhead.ErrMalformed, len(sums), maxChecksums)
	}
	got, body, err := c.do(ctx, op, appendChecksums(nil, targets, sums))
	if body, err = result(got, body, err, Answer); err != nil {
		return nil, err
	}
	if len(body) != 8*len(sums) {
		return nil, fmt.Errorf("dcc: %w: ANSWER of %d bytes to %d checksums", bulkhead.ErrMalformed, len(body), len(sums))
	}
	totals := make([]Total, len(sums))
	for i := range totals {
		totals[i] = Total{binary.BigEndian.Uint32(body[8*i:]), binary.BigEndian.Uint32(body[8*i+4:])}
	}
	return totals, nil
}

func appendChecksums(dst []byte, targets uint32, sums []Checksum) []byte {
	dst = binary.BigEndian.AppendUint32(dst, targets)
	for i := range sums {
		dst = append(dst, byte(sums[i].Type), checksumSize)
		dst = append(dst, sums[i].Sum[:]...)
	}
	return dst
}

// Delete makes the total of a checksum 0. It takes a server-id.
func (c *Client) Delete(ctx context.Context, sum Checksum) error {
	body := appendChecksums(nil, uint32(time.Now().Unix()), []Checksum{sum})
	op, body, err := c.do(ctx, Delete, append(body, 0, 0))
	_, err = result(op, body, err, OK)
	return err
}

// Stats asks a server for its statistics, as text.
func (c *Client) Stats(ctx context.Context) (string, error) {
	body := binary.BigEndian.AppendUint32(nil, uint32(time.Now().Unix()))
	body = binary.BigEndian.AppendUint32(body, maxStatsText)
	op, body, err := c.do(ctx, Admin, append(body, adminStats, 0, 0, 0))
	body, err = result(op, body, err, Admin)
	return string(body), err
}
