package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// A Client asks a node over HTTP, and is a [bulkhead.Counter]. The zero Client is
// not usable: set Server. Its methods may be called concurrently. A refusal of the
// node is returned as a [*Problem], which wraps the sentinels of package bulkhead.
type Client struct {
	Server string       // base URL, for example "http://127.0.0.1:8420"
	Token  string       // bearer token; "" asks anonymously
	HTTP   *http.Client // nil means http.DefaultClient, which has no timeout: bound the context
}

// MessageOptions accompanies a whole message. The zero value adds nothing to the headers.
type MessageOptions struct {
	Source     bulkhead.Source // fields that are not empty win over the headers
	Threshold  uint32          // of a check; 0: the node's own
	Vote       bulkhead.Vote   // of a report
	Count      uint32          // of a report: recipients; 0 means 1
	Recipients []string        // of a check, whose first counts, or a sighting: mailboxes that it is for
	User       string          // of a report: the user on whose behalf it is made; see [bulkhead.Reporter]
	ID         string          // of a report: idempotency key; "" for none
}

// CheckMessage asks about a whole message.
func (c *Client) CheckMessage(ctx context.Context, raw []byte, o MessageOptions) (*Verdict, error) {
	q := sourceQuery(o.Source)
	if len(o.Recipients) > 0 {
		q.Set("mailbox", o.Recipients[0])
	}
	if o.Threshold != 0 {
		q.Set("threshold", strconv.FormatUint(uint64(o.Threshold), 10))
	}
	return call[*Verdict](ctx, c, exchange{method: "POST", path: "/v1/check", query: q, mail: raw, reads: true})
}

// ReportMessage votes on a whole message.
func (c *Client) ReportMessage(ctx context.Context, raw []byte, o MessageOptions) (*Receipt, error) {
	q := voteQuery(o)
	q.Set("vote", o.Vote.String())
	return call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/report", query: q, mail: raw, id: o.ID})
}

// LearnMessage has the node learn the words and the style of a whole message: of spam, or of delivered
// mail. It takes a trusted account. The message does not count for signatures, and is learnt
// once. It returns an error that wraps [bulkhead.ErrMalformed] if the message has too little text.
func (c *Client) LearnMessage(ctx context.Context, raw []byte, spam bool) error {
	as := "delivered"
	if spam {
		as = "spam"
	}
	_, err := call[*Lesson](ctx, c, exchange{method: "POST", path: "/v1/learn", query: url.Values{"as": {as}}, mail: raw})
	return err
}

// MessageSignatures returns the signatures of a whole message.
func (c *Client) MessageSignatures(ctx context.Context, raw []byte) (*Signatures, error) {
	return call[*Signatures](ctx, c, exchange{method: "POST", path: "/v1/signatures", mail: raw, reads: true})
}

// Ready returns nil if the node takes requests, and otherwise an error with the reason.
func (c *Client) Ready(ctx context.Context) error {
	const path = "/readyz"
	body, err := send(ctx, c, exchange{method: "GET", path: path})
	if err == nil && strings.TrimSpace(string(body)) != "ready" {
		err = fmt.Errorf("client: %s: not a node's answer: %.40q", path, body)
	}
	return err
}

// ReportMessageID votes on a message that the node has seen lately.
func (c *Client) ReportMessageID(ctx context.Context, v MessageVote) (*Receipt, error) {
	return call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/reports", body: v})
}

// Do sends a request to a path of the node's interface, such as "/v1/node", and decodes the answer
// into out, a pointer. in is encoded as JSON; nil sends no body. If the answer has no content, out is
// unchanged; after an error its content is undefined. Package admin has a method for each path.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return exchange{method: method, path: path, query: query, body: in}.do(ctx, c, out)
}

func sourceQuery(s bulkhead.Source) url.Values {
	q := make(url.Values)
	if s.Sender != "" {
		q.Set("sender", s.Sender)
	}
	if s.Client != (netip.Addr{}) {
		q.Set("client", s.Client.String())
	}
	if s.ListID != "" {
		q.Set("list_id", s.ListID)
	}
	if len(s.DKIM) > 0 {
		q["dkim"] = s.DKIM
	}
	return q
}

func voteQuery(o MessageOptions) url.Values {
	q := sourceQuery(o.Source)
	if o.Count != 0 {
		q.Set("count", strconv.FormatUint(uint64(o.Count), 10))
	}
	if o.User != "" {
		q.Set("user", o.User)
	}
	if r := recipientsOf(o.Vote, o.Recipients); len(r) > 0 {
		q["rcpt"] = r
	}
	return q
}

// An exchange is one request: a mail, or a value to encode, or neither.
type exchange struct {
	method, path string
	query        url.Values
	mail         []byte
	body         any
	id           string
	reads        bool // it changes nothing
}

func (k *exchange) request(ctx context.Context, c *Client) (*http.Request, error) {
	target := strings.TrimSuffix(c.Server, "/") + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	body, mediaType := k.mail, mailMedia
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return nil, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
		}
		mediaType = jsonMedia
	}
	r, err := http.NewRequestWithContext(ctx, k.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if k.mail != nil || k.body != nil {
		r.Header.Set("Content-Type", mediaType)
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	switch {
	case k.id != "":
		r.Header.Set("Idempotency-Key", k.id)
	case k.reads: // net/http repeats it if the node closes an old connection, and sends no such header
		r.Header["Idempotency-Key"] = nil
	}
	return r, nil
}

// Media types of request bodies.
const (
	mailMedia = "message/rfc822"
	jsonMedia = "application/json"
)

// maxAnswer is the longest answer that a client reads, bytes.
const maxAnswer = 256 << 20

func call[T any](ctx context.Context, c *Client, k exchange) (T, error) {
	var none, out T
	if err := k.do(ctx, c, &out); err != nil {
		return none, err
	}
	return out, nil
}

// do decodes the answer into out, which stays as it is if there is no content.
func (k exchange) do(ctx context.Context, c *Client, out any) error {
	body, err := send(ctx, c, k)
	if err != nil || body == nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("client: %s: not a node's answer: %w", k.path, err)
	}
	return nil
}

// send returns the body of an answer, or nil if its status means that it has none.
func send(ctx context.Context, c *Client, k exchange) ([]byte, error) {
	r, err := k.request(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil: // in the form of the errors of Do
		return nil, fmt.Errorf("client: %w", &url.Error{Op: "Read", URL: k.path, Err: err})
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("client: %s: answer of more than %d bytes", k.path, maxAnswer)
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("client: %w", refusal(resp, body))
	case resp.StatusCode == http.StatusNoContent:
		return nil, nil
	}
	return body, nil
}

func refusal(resp *http.Response, body []byte) error {
	p := &Problem{}
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if mediaType == "application/problem+json" && json.Unmarshal(body, p) == nil && p.Status == resp.StatusCode {
		return p
	}
	return errors.New("status " + resp.Status + ": not a node's answer")
}
