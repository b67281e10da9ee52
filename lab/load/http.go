package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// An HTTPClient sends prepared HTTP/1.1 requests over one persistent connection, one at a
// time.
type HTTPClient struct {
	conn    net.Conn
	in      *bufio.Reader
	next    func() []byte
	timeout time.Duration
}

// NewHTTPClient connects to address. next returns the bytes of each request,
// header and body; it is called from one goroutine and may reuse its memory.
func NewHTTPClient(address string, timeout time.Duration, next func() []byte) (*HTTPClient, error) {
	if err := LoopbackOnly(address); err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &HTTPClient{conn: conn, in: bufio.NewReaderSize(conn, 8<<10), next: next, timeout: timeout}, nil
}

// Close implements [Client].
func (c *HTTPClient) Close() error { return c.conn.Close() }

// Do implements [Client]. Any status but 200 is an error.
func (c *HTTPClient) Do() error {
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.next()); err != nil {
		return err
	}
	status, err := readAnswer(c.in, io.Discard)
	if err != nil {
		c.conn.Close() // the next answer could not be separated from the rest of this one
		return err
	}
	if status != 200 {
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// readAnswer reads one HTTP/1.1 answer with as little work as its framing
// allows, and writes its body to w.
func readAnswer(in *bufio.Reader, w io.Writer) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("%.40q is no HTTP/1.1 answer", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("%.40q is no HTTP/1.1 answer", line)
	}
	length, chunked := int64(-1), false
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil || length < 0 {
				return 0, fmt.Errorf("content length %.40q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		}
	}
	switch {
	case chunked:
		if _, err = io.Copy(w, httputil.NewChunkedReader(in)); err == nil {
			_, err = in.ReadSlice('\n') // the empty trailer
		}
	case length >= 0:
		_, err = io.CopyN(w, in, length)
	default:
		err = errors.New("answer without a length")
	}
	return status, err
}
