package client

import (
	"context"
	"net/url"
	"strconv"
)

// Config returns the configuration of the node without its secrets. This method and all that follow
// are for administrators only.
func (c *Client) Config(ctx context.Context) (*Configuration, error) {
	return call[*Configuration](ctx, c, exchange{method: "GET", path: "/v1/config"})
}

// CheckConfig checks the text of a configuration file, and changes nothing.
func (c *Client) CheckConfig(ctx context.Context, text string) (*ConfigCheck, error) {
	return call[*ConfigCheck](ctx, c, exchange{method: "POST", path: "/v1/config/check", body: ConfigText{Text: text}})
}

// ReloadConfig makes the node read its configuration file again, as SIGHUP does.
func (c *Client) ReloadConfig(ctx context.Context) (*ConfigCheck, error) {
	return call[*ConfigCheck](ctx, c, exchange{method: "POST", path: "/v1/config/reload"})
}

// TopRateKeys returns the keys with the highest rates, up to limit for every rate limit. A limit of
// 0 means 20.
func (c *Client) TopRateKeys(ctx context.Context, limit int) ([]TopKeys, error) {
	q := make(url.Values)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return call[[]TopKeys](ctx, c, exchange{method: "GET", path: "/v1/ratelimits/top", query: q})
}

// Weights returns what the votes of each account were worth over time.
func (c *Client) Weights(ctx context.Context) ([]Weights, error) {
	return call[[]Weights](ctx, c, exchange{method: "GET", path: "/v1/weights"})
}
