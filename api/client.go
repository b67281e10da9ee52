package api

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

// A Client asks a node over HTTP. The zero Client is not usable: set Server.
// Its methods may be called concurrently. A refusal of the node is returned as
// a [*Problem], which wraps the sentinels of package bulkhead.
type Client struct {
	Server string       // base URL, for example "http://127.0.0.1:8420"
	Token  string       // bearer token; "" asks anonymously
	HTTP   *http.Client // nil means http.DefaultClient, which has no timeout: bound the context
}

// MessageOptions goes with a whole message. The zero value adds nothing to
// what the headers say.
type MessageOptions struct {
	Source    bulkhead.Source // fields that are not empty win over the headers
	Threshold uint32          // of a check; 0: the node's own
	Vote      bulkhead.Vote   // of a report
	Count     uint32          // of a report: recipients; 0 means 1
	ID        string          // of a report: idempotency key; "" for none
}

// CheckMessage asks about a whole message.
func (c *Client) CheckMessage(ctx context.Context, raw []byte, o MessageOptions) (*Verdict, error) {
	q := sourceQuery(o.Source)
	if o.Threshold != 0 {
		q.Set("threshold", strconv.FormatUint(uint64(o.Threshold), 10))
	}
	return call[*Verdict](ctx, c, exchange{method: "POST", path: "/v1/check", query: q, mail: raw})
}

// ReportMessage votes on a whole message.
func (c *Client) ReportMessage(ctx context.Context, raw []byte, o MessageOptions) (*Receipt, error) {
	q := voteQuery(o)
	q.Set("vote", o.Vote.String())
	return call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/report", query: q, mail: raw, id: o.ID})
}

// MessageSignatures returns the signatures of a whole message.
func (c *Client) MessageSignatures(ctx context.Context, raw []byte) (*Signatures, error) {
	return call[*Signatures](ctx, c, exchange{method: "POST", path: "/v1/signatures", mail: raw})
}

// Check asks about a message by its ready signatures.
func (c *Client) Check(ctx context.Context, in Check) (*Verdict, error) {
	return call[*Verdict](ctx, c, exchange{method: "POST", path: "/v1/check", body: in})
}

// CheckBatch asks about several messages. The answers are in their order.
func (c *Client) CheckBatch(ctx context.Context, in []Check) ([]BatchVerdict, error) {
	return call[[]BatchVerdict](ctx, c, exchange{method: "POST", path: "/v1/check", body: in})
}

// Report votes on a message by its ready signatures.
func (c *Client) Report(ctx context.Context, in Report) (*Receipt, error) {
	return call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/report", body: in})
}

// ReportBatch votes on several messages. The answers are in their order.
func (c *Client) ReportBatch(ctx context.Context, in []Report) ([]BatchReceipt, error) {
	return call[[]BatchReceipt](ctx, c, exchange{method: "POST", path: "/v1/report", body: in})
}

// Node returns what the node says of itself.
func (c *Client) Node(ctx context.Context) (*NodeState, error) {
	return call[*NodeState](ctx, c, exchange{method: "GET", path: "/v1/node"})
}

// RateLimits returns every rule of the rate limits.
func (c *Client) RateLimits(ctx context.Context) ([]RateLimit, error) {
	return call[[]RateLimit](ctx, c, exchange{method: "GET", path: "/v1/ratelimits"})
}

// ApplyRateLimits counts one event, given by attributes of the Postfix policy
// protocol.
func (c *Client) ApplyRateLimits(ctx context.Context, attributes map[string]string) (*RateDecision, error) {
	return call[*RateDecision](ctx, c, exchange{method: "POST", path: "/v1/ratelimits", body: RateRequest{Attributes: attributes}})
}

// RateKeys returns what is counted of one key, in all rules if rule is ""; for
// administrators.
func (c *Client) RateKeys(ctx context.Context, rule, key string) ([]RateKey, error) {
	return call[[]RateKey](ctx, c, exchange{method: "GET", path: "/v1/ratelimits/keys", query: rateQuery(rule, key)})
}

// ResetRateKey forgets one key, in all rules if rule is ""; for administrators.
func (c *Client) ResetRateKey(ctx context.Context, rule, key string) (*RateReset, error) {
	return call[*RateReset](ctx, c, exchange{method: "DELETE", path: "/v1/ratelimits/keys", query: rateQuery(rule, key)})
}

func rateQuery(rule, key string) url.Values {
	q := url.Values{"key": {key}}
	if rule != "" {
		q.Set("rule", rule)
	}
	return q
}

// Lists returns every black, white and grey list.
func (c *Client) Lists(ctx context.Context) ([]List, error) {
	return call[[]List](ctx, c, exchange{method: "GET", path: "/v1/lists"})
}

// FindInLists looks an address, domain, URL or IP address up in all lists.
func (c *Client) FindInLists(ctx context.Context, entry string) ([]ListMatch, error) {
	return call[[]ListMatch](ctx, c, exchange{method: "GET", path: "/v1/lists/find", query: url.Values{"entry": {entry}}})
}

// Users returns every account; administrators only, as all that follows.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	return call[[]User](ctx, c, exchange{method: "GET", path: "/v1/users"})
}

// User returns one account.
func (c *Client) User(ctx context.Context, name string) (*User, error) {
	return call[*User](ctx, c, exchange{method: "GET", path: userPath(name)})
}

// AddUser creates an account and returns its token.
func (c *Client) AddUser(ctx context.Context, u NewUser) (*Token, error) {
	return call[*Token](ctx, c, exchange{method: "POST", path: "/v1/users", body: u})
}

// ChangeUser changes an account.
func (c *Client) ChangeUser(ctx context.Context, name string, change UserChange) (*User, error) {
	return call[*User](ctx, c, exchange{method: "PATCH", path: userPath(name), body: change})
}

// RemoveUser removes an account.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	_, err := call[*struct{}](ctx, c, exchange{method: "DELETE", path: userPath(name)})
	return err
}

// NewToken replaces the token of an account and returns the new one.
func (c *Client) NewToken(ctx context.Context, name string) (*Token, error) {
	return call[*Token](ctx, c, exchange{method: "POST", path: userPath(name) + "/token"})
}

// SetSecret sets the secret that an account shares with the clients of a
// protocol; "" removes it.
func (c *Client) SetSecret(ctx context.Context, name, protocol, secret string) error {
	_, err := call[*struct{}](ctx, c, exchange{
		method: "PUT", path: userPath(name) + "/secrets/" + pathSegment(protocol), body: Secret{Secret: secret},
	})
	return err
}

func userPath(name string) string { return "/v1/users/" + pathSegment(name) }

// pathSegment escapes a name for a path. Dots alone would be taken for folders,
// by servers and by what stands before them.
func pathSegment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
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
	return q
}

// An exchange is one request: a mail, or a value to encode, or neither.
type exchange struct {
	method, path string
	query        url.Values
	mail         []byte
	body         any
	id           string
}

func (k *exchange) request(ctx context.Context, c *Client) (*http.Request, error) {
	target := strings.TrimSuffix(c.Server, "/") + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	body, mediaType := k.mail, mailType
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return nil, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
		}
		mediaType = requestType
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
	if k.id != "" {
		r.Header.Set("Idempotency-Key", k.id)
	}
	return r, nil
}

// maxAnswer is the longest answer that a client reads, bytes.
const maxAnswer = 256 << 20

func call[T any](ctx context.Context, c *Client, k exchange) (T, error) {
	var none, out T
	r, err := k.request(ctx, c)
	if err != nil {
		return none, fmt.Errorf("api: %w", err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		return none, fmt.Errorf("api: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil: // as the errors of Do are
		return none, fmt.Errorf("api: %w", &url.Error{Op: "Read", URL: k.path, Err: err})
	case len(body) > maxAnswer:
		return none, fmt.Errorf("api: %s: answer of more than %d bytes", k.path, maxAnswer)
	case resp.StatusCode >= 300:
		return none, fmt.Errorf("api: %w", refusal(resp, body))
	case resp.StatusCode == http.StatusNoContent:
		return none, nil
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return none, fmt.Errorf("api: %s: answer is not a node's: %w", k.path, err)
	}
	return out, nil
}

func refusal(resp *http.Response, body []byte) error {
	p := &Problem{}
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if mediaType == "application/problem+json" && json.Unmarshal(body, p) == nil && p.Status == resp.StatusCode {
		return p
	}
	return errors.New("the server answers " + resp.Status + ", and not as a node does")
}
