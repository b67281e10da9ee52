package admin

import (
	"context"
	"net/url"

	"github.com/bulkhead-mail/bulkhead/client"
)

// A Client inspects and administers a node. It has all methods of a [client.Client] besides its own,
// and may be used concurrently. A refusal of the node is returned as a [*client.Problem].
type Client struct {
	client.Client
}

// New returns a client of the node at a base URL, such as "http://127.0.0.1:8420". token is the bearer
// token of an account; "" asks anonymously.
func New(server, token string) *Client {
	return &Client{client.Client{Server: server, Token: token}}
}

// call returns the decoded answer to a request, and the zero T if the answer has no content.
func call[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (T, error) {
	var none, out T
	if err := c.Do(ctx, method, path, query, in, &out); err != nil {
		return none, err
	}
	return out, nil
}

// Node returns the node's state.
func (c *Client) Node(ctx context.Context) (*NodeState, error) {
	return call[*NodeState](ctx, c, "GET", "/v1/node", nil, nil)
}

// Promote makes a node that follows another one decide in its place. It returns the node's state afterwards.
func (c *Client) Promote(ctx context.Context) (*NodeState, error) {
	return call[*NodeState](ctx, c, "POST", "/v1/standby/promote", nil, nil)
}

// BringBack opens the generations again that have aged out lately and would not expire by the node's
// present clock.
func (c *Client) BringBack(ctx context.Context) (*BroughtBack, error) {
	return call[*BroughtBack](ctx, c, "POST", "/v1/ageing/restore", nil, nil)
}

// ConfirmClock confirms that a node's clock is right while its ageing is held. Overdue generations
// then expire. It returns the node's state afterwards.
func (c *Client) ConfirmClock(ctx context.Context) (*NodeState, error) {
	return call[*NodeState](ctx, c, "POST", "/v1/ageing/confirm", nil, nil)
}
