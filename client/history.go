package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// History returns a page of the checks and votes that the node remembers; administrators only.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*HistoryPage, error) {
	v := make(url.Values)
	setTimes(v, q.Since, q.Until)
	for name, text := range map[string]string{
		"door": q.Door, "kind": q.Kind, "class": q.Class, "reporter": q.Reporter,
		"domain": q.Domain, "message_id": q.MessageID, "signature": q.Signature,
	} {
		setText(v, name, text)
	}
	setNumbers(v, q.Before, q.Limit)
	return call[*HistoryPage](ctx, c, exchange{method: "GET", path: "/v1/history", query: v})
}

// HistoryEntry returns one entry with its signatures; administrators only.
func (c *Client) HistoryEntry(ctx context.Context, id int64) (*HistoryEntry, error) {
	return call[*HistoryEntry](ctx, c, exchange{method: "GET", path: "/v1/history/" + strconv.FormatInt(id, 10)})
}

// Audit returns a page of what administrators did; administrators only.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (*AuditPage, error) {
	v := make(url.Values)
	setTimes(v, q.Since, q.Until)
	setText(v, "account", q.Account)
	setText(v, "action", q.Action)
	setNumbers(v, q.Before, q.Limit)
	return call[*AuditPage](ctx, c, exchange{method: "GET", path: "/v1/audit", query: v})
}

// ReportMessageID votes on a message that the node has seen lately.
func (c *Client) ReportMessageID(ctx context.Context, v MessageVote) (*Receipt, error) {
	return call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/reports", body: v})
}

// ReportEntry votes on the message of an entry of the history.
func (c *Client) ReportEntry(ctx context.Context, id int64, v RememberedVote) (*Receipt, error) {
	return call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/history/" + strconv.FormatInt(id, 10), body: v})
}

// Waves returns groups of messages with the same text or nearly so; administrators only.
func (c *Client) Waves(ctx context.Context, q WaveQuery) (*WavePage, error) {
	v := make(url.Values)
	setText(v, "class", q.Class)
	setText(v, "sort", q.Sort)
	setNumbers(v, 0, q.Limit)
	return call[*WavePage](ctx, c, exchange{method: "GET", path: "/v1/waves", query: v})
}

// Wave returns one group, and the verdict on it; administrators only.
func (c *Client) Wave(ctx context.Context, id int64) (*WaveDetail, error) {
	return call[*WaveDetail](ctx, c, exchange{method: "GET", path: "/v1/waves/" + strconv.FormatInt(id, 10)})
}

// Whitelist returns the signatures that were put on the whitelist while the node ran;
// administrators only.
func (c *Client) Whitelist(ctx context.Context) ([]Cleared, error) {
	return call[[]Cleared](ctx, c, exchange{method: "GET", path: "/v1/whitelist"})
}

// Clear puts the text of an entry of the history on the whitelist, by all signatures of
// the whole text, and returns these; administrators only.
func (c *Client) Clear(ctx context.Context, clear Clear) ([]Cleared, error) {
	return call[[]Cleared](ctx, c, exchange{method: "POST", path: "/v1/whitelist", body: clear})
}

// Unclear takes a signature off that whitelist; administrators only.
func (c *Client) Unclear(ctx context.Context, s bulkhead.Signature) error {
	_, err := call[*struct{}](ctx, c, exchange{method: "DELETE", path: "/v1/whitelist",
		query: url.Values{"signature": {s.String()}}})
	return err
}

func setTimes(v url.Values, since, until time.Time) {
	if !since.IsZero() {
		v.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	if !until.IsZero() {
		v.Set("until", until.UTC().Format(time.RFC3339Nano))
	}
}

func setText(v url.Values, name, text string) {
	if text != "" {
		v.Set(name, text)
	}
}

func setNumbers(v url.Values, before int64, limit int) {
	if before != 0 {
		v.Set("before", strconv.FormatInt(before, 10))
	}
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
}
