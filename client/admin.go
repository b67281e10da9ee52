package client

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// RateLimits returns every rule of the rate limits.
func (c *Client) RateLimits(ctx context.Context) ([]RateLimit, error) {
	return call[[]RateLimit](ctx, c, exchange{method: "GET", path: "/v1/ratelimits"})
}

// ApplyRateLimits counts one event, given by attributes of the Postfix policy
// protocol.
func (c *Client) ApplyRateLimits(ctx context.Context, attributes map[string]string) (*RateDecision, error) {
	return call[*RateDecision](ctx, c, exchange{method: "POST", path: "/v1/ratelimits",
		body: RateRequest{Attributes: attributes}})
}

// PeekRateLimits is ApplyRateLimits without counting: the rates exclude this event.
func (c *Client) PeekRateLimits(ctx context.Context, attributes map[string]string) (*RateDecision, error) {
	return call[*RateDecision](ctx, c, exchange{method: "POST", path: "/v1/ratelimits",
		body: RateRequest{Attributes: attributes, Readonly: true}})
}

// RateKeys returns what is counted for one key, in all rules if rule is "". It needs
// an administrator's token.
func (c *Client) RateKeys(ctx context.Context, rule, key string) ([]RateKey, error) {
	return call[[]RateKey](ctx, c, exchange{method: "GET", path: "/v1/ratelimits/keys", query: rateQuery(rule, key)})
}

// ResetRateKey forgets one key, in all rules if rule is "". It needs an
// administrator's token.
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

// Users returns every account. This method and all that follow are for administrators only.
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

// UndoVotes takes back the votes of a voter since a time. The voter is an account, or a user on
// whose behalf services report. If several voters have that name, the error is a [Problem] with
// status 409 that gives a name for each: account:NAME, user:NAME of programs on the node's machine,
// user:SERVICE=NAME of the account SERVICE.
func (c *Client) UndoVotes(ctx context.Context, name string, since time.Time) (*Undone, error) {
	return call[*Undone](ctx, c, exchange{method: "POST", path: userPath(name) + "/undo", body: Undo{Since: since}})
}

// PreviewUndo returns what [Client.UndoVotes] would do now. It changes nothing.
func (c *Client) PreviewUndo(ctx context.Context, name string, since time.Time) (*Undone, error) {
	return call[*Undone](ctx, c, exchange{method: "GET", path: userPath(name) + "/undo" + sinceQuery(since)})
}

// PreviewClose returns what closing an account would do now. It changes nothing.
func (c *Client) PreviewClose(ctx context.Context, name string) (*Closing, error) {
	return call[*Closing](ctx, c, exchange{method: "GET", path: userPath(name) + "/closing"})
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

// pathSegment escapes a name for a path. Servers and proxies would take a name of dots alone for a
// folder.
func pathSegment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// NewLoginLink makes a link that logs a browser in as the account of c's token.
func (c *Client) NewLoginLink(ctx context.Context) (*LoginLink, error) {
	return call[*LoginLink](ctx, c, exchange{method: "POST", path: "/v1/login"})
}

// Whoami returns the identity that c has for the node.
func (c *Client) Whoami(ctx context.Context) (*Viewer, error) {
	return call[*Viewer](ctx, c, exchange{method: "GET", path: "/v1/whoami"})
}
