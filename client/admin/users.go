package admin

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// RateLimits returns every rule of the rate limits.
func (c *Client) RateLimits(ctx context.Context) ([]RateLimit, error) {
	return call[[]RateLimit](ctx, c, "GET", "/v1/ratelimits", nil, nil)
}

// ApplyRateLimits counts one event, given by attributes of the Postfix policy
// protocol.
func (c *Client) ApplyRateLimits(ctx context.Context, attributes map[string]string) (*RateDecision, error) {
	return call[*RateDecision](ctx, c, "POST", "/v1/ratelimits", nil, RateRequest{Attributes: attributes})
}

// PeekRateLimits is ApplyRateLimits without counting: the rates exclude this event.
func (c *Client) PeekRateLimits(ctx context.Context, attributes map[string]string) (*RateDecision, error) {
	return call[*RateDecision](ctx, c, "POST", "/v1/ratelimits", nil, RateRequest{Attributes: attributes, Readonly: true})
}

// RateKeys returns what is counted for one key, in all rules if rule is "".
func (c *Client) RateKeys(ctx context.Context, rule, key string) ([]RateKey, error) {
	return call[[]RateKey](ctx, c, "GET", "/v1/ratelimits/keys", rateQuery(rule, key), nil)
}

// ResetRateKey forgets one key, in all rules if rule is "".
func (c *Client) ResetRateKey(ctx context.Context, rule, key string) (*RateReset, error) {
	return call[*RateReset](ctx, c, "DELETE", "/v1/ratelimits/keys", rateQuery(rule, key), nil)
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
	return call[[]List](ctx, c, "GET", "/v1/lists", nil, nil)
}

// EditList adds entries to a list, or removes entries from it.
func (c *Client) EditList(ctx context.Context, name string, e ListEdit) (*ListEdited, error) {
	return call[*ListEdited](ctx, c, "POST", "/v1/lists/"+pathSegment(name)+"/entries", nil, e)
}

// FindInLists looks an address, domain, URL or IP address up in all lists.
func (c *Client) FindInLists(ctx context.Context, entry string) ([]ListMatch, error) {
	return call[[]ListMatch](ctx, c, "GET", "/v1/lists/find", url.Values{"entry": {entry}}, nil)
}

// Users returns every account.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	return call[[]User](ctx, c, "GET", "/v1/users", nil, nil)
}

// User returns one account.
func (c *Client) User(ctx context.Context, name string) (*User, error) {
	return call[*User](ctx, c, "GET", userPath(name), nil, nil)
}

// AddUser creates an account and returns its token.
func (c *Client) AddUser(ctx context.Context, u NewUser) (*Token, error) {
	return call[*Token](ctx, c, "POST", "/v1/users", nil, u)
}

// ChangeUser changes an account.
func (c *Client) ChangeUser(ctx context.Context, name string, change UserChange) (*User, error) {
	return call[*User](ctx, c, "PATCH", userPath(name), nil, change)
}

// RemoveUser removes an account.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	_, err := call[*struct{}](ctx, c, "DELETE", userPath(name), nil, nil)
	return err
}

// NewToken replaces the token of an account and returns the new one.
func (c *Client) NewToken(ctx context.Context, name string) (*Token, error) {
	return call[*Token](ctx, c, "POST", userPath(name)+"/token", nil, nil)
}

// UndoVotes takes back the votes of a voter since a time. The voter is an account, or a user on
// whose behalf services report. If several voters have that name, the error is a [Problem] with
// status 409 that gives a name for each: account:NAME, user:NAME of programs on the node's machine,
// user:SERVICE=NAME of the account SERVICE.
func (c *Client) UndoVotes(ctx context.Context, name string, since time.Time) (*Undone, error) {
	return call[*Undone](ctx, c, "POST", userPath(name)+"/undo", nil, Undo{Since: since})
}

// PreviewUndo returns what [Client.UndoVotes] would do now. It changes nothing.
func (c *Client) PreviewUndo(ctx context.Context, name string, since time.Time) (*Undone, error) {
	return call[*Undone](ctx, c, "GET", userPath(name)+"/undo"+sinceQuery(since), nil, nil)
}

// PreviewClose returns what closing an account would do now. It changes nothing.
func (c *Client) PreviewClose(ctx context.Context, name string) (*Closing, error) {
	return call[*Closing](ctx, c, "GET", userPath(name)+"/closing", nil, nil)
}

// SetSecret sets the secret that an account shares with the clients of a
// protocol; "" removes it.
func (c *Client) SetSecret(ctx context.Context, name, protocol, secret string) error {
	_, err := call[*struct{}](ctx, c, "PUT", userPath(name)+"/secrets/"+pathSegment(protocol), nil, Secret{Secret: secret})
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
	return call[*LoginLink](ctx, c, "POST", "/v1/login", nil, nil)
}

// Whoami returns the identity that c has for the node.
func (c *Client) Whoami(ctx context.Context) (*Viewer, error) {
	return call[*Viewer](ctx, c, "GET", "/v1/whoami", nil, nil)
}
