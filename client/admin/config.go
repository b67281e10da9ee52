package admin

import (
	"context"
	"net/url"
	"strconv"
)

// Config returns the configuration of the node without its secrets.
func (c *Client) Config(ctx context.Context) (*Configuration, error) {
	return call[*Configuration](ctx, c, "GET", "/v1/config", nil, nil)
}

// CheckConfig checks the text of a configuration file, and changes nothing.
func (c *Client) CheckConfig(ctx context.Context, text string) (*ConfigCheck, error) {
	return call[*ConfigCheck](ctx, c, "POST", "/v1/config/check", nil, ConfigText{Text: text})
}

// PreviewReload returns what [Client.ReloadConfig] would do now. It changes nothing.
func (c *Client) PreviewReload(ctx context.Context) (*ConfigCheck, error) {
	return call[*ConfigCheck](ctx, c, "GET", "/v1/config/reload", nil, nil)
}

// ReloadConfig makes the node read its configuration file again, as SIGHUP does.
func (c *Client) ReloadConfig(ctx context.Context) (*ConfigCheck, error) {
	return call[*ConfigCheck](ctx, c, "POST", "/v1/config/reload", nil, nil)
}

// TopRateKeys returns the keys with the highest rates, up to limit for every rate limit. A limit of
// 0 means 20.
func (c *Client) TopRateKeys(ctx context.Context, limit int) ([]TopKeys, error) {
	q := make(url.Values)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return call[[]TopKeys](ctx, c, "GET", "/v1/ratelimits/top", q, nil)
}

// Weights returns what the votes of each account were worth over time.
func (c *Client) Weights(ctx context.Context) ([]Weights, error) {
	return call[[]Weights](ctx, c, "GET", "/v1/weights", nil, nil)
}
