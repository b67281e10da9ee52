package load

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// An HTTP makes clients that check or report some signatures with each request.
type HTTP struct {
	Options
	Address, Op, Token string
	Known              uint64 // different signatures; 0: all are new
	Signatures         int    // of each request; 0: 1
	HTTP2              bool   // over TLS, whose certificate is not verified
}

// place is where the sum of a signature is written in a prepared body.
const place = "0000000000000000000000000000000000000000"

// body returns a prepared body, and the digits within for each of its signatures.
func (o *HTTP) body() (body []byte, digits [][]byte) {
	body = []byte(`{"signatures":["` + strings.Repeat(`pyzor/digest:`+place+`","`, max(o.Signatures, 1)-1) +
		`pyzor/digest:` + place + `"]}`)
	for rest := body; ; {
		at := bytes.Index(rest, []byte(place))
		if at < 0 {
			return body, digits
		}
		digits, rest = append(digits, rest[at:][:len(place)]), rest[at+len(place):]
	}
}

// Connect returns client i. Its requests differ only in the signatures, so that it makes one
// by writing 40 hexadecimal digits for each.
func (o *HTTP) Connect(i int) (Client, error) {
	if err := LoopbackOnly(o.Address); err != nil {
		return nil, err
	}
	body, digits := o.body()
	rng := rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))
	renew := func() {
		for _, d := range digits {
			n := rng.Uint64()
			if o.Known > 0 {
				n %= o.Known
			}
			var sum [20]byte
			// Spread by a multiplication, so that equal numbers give equal sums.
			binary.BigEndian.PutUint64(sum[:], n*0x9e3779b97f4a7c15)
			binary.BigEndian.PutUint64(sum[8:], n)
			hex.Encode(d, sum[:])
		}
	}
	if o.HTTP2 {
		return o.connect2(body, renew), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", o.Op,
		o.Address, len(body))
	if o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.Token)
	}
	head := []byte(b.String() + "\r\n")
	var request []byte
	return NewHTTPClient(o.Address, 30*time.Second, func() []byte {
		renew()
		request = append(append(request[:0], head...), body...)
		return request
	})
}

// An http2Client sends requests over one connection of HTTP/2.
type http2Client struct {
	http   *http.Client
	header http.Header
	url    string
	body   []byte
	renew  func()
}

func (o *HTTP) connect2(body []byte, renew func()) *http2Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	c := &http2Client{
		http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}},
		header: http.Header{"Content-Type": {"application/json"}},
		url:    "https://" + o.Address + "/v1/" + o.Op, body: body, renew: renew,
	}
	if o.Token != "" {
		c.header.Set("Authorization", "Bearer "+o.Token)
	}
	return c
}

// Close implements [Client].
func (c *http2Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Do implements [Client]. Any status but 200 and any protocol but HTTP/2 is an error.
func (c *http2Client) Do() error {
	c.renew()
	req, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	req.Header = c.header
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		return fmt.Errorf("status %d over %s", resp.StatusCode, resp.Proto)
	}
	return nil
}
