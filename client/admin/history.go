package admin

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// History returns a page of the checks and votes that the node remembers.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*HistoryPage, error) {
	v := make(url.Values)
	setTimes(v, q.Since, q.Until)
	for name, text := range map[string]string{
		"door": q.Door, "kind": q.Kind, "class": q.Class, "outcome": q.Outcome, "reporter": q.Reporter,
		"domain": q.Domain, "from": q.From, "link": q.Link, "message_id": q.MessageID, "signature": q.Signature,
	} {
		setText(v, name, text)
	}
	setNumbers(v, q.Before, q.Limit)
	return call[*HistoryPage](ctx, c, "GET", "/v1/history", v, nil)
}

// HistoryEntry returns one entry with its signatures.
func (c *Client) HistoryEntry(ctx context.Context, id int64) (*HistoryEntry, error) {
	return call[*HistoryEntry](ctx, c, "GET", "/v1/history/"+strconv.FormatInt(id, 10), nil, nil)
}

// Explain returns what the node knows at present of the message of an entry. It counts nothing.
func (c *Client) Explain(ctx context.Context, id int64) (*client.Verdict, error) {
	return call[*client.Verdict](ctx, c, "GET", "/v1/history/"+strconv.FormatInt(id, 10)+"/verdict", nil, nil)
}

// Audit returns a page of what administrators did.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (*AuditPage, error) {
	v := make(url.Values)
	setTimes(v, q.Since, q.Until)
	setText(v, "account", q.Account)
	setText(v, "action", q.Action)
	setNumbers(v, q.Before, q.Limit)
	return call[*AuditPage](ctx, c, "GET", "/v1/audit", v, nil)
}

// ReportEntry votes on the message of an entry of the history.
func (c *Client) ReportEntry(ctx context.Context, id int64, v RememberedVote) (*client.Receipt, error) {
	return call[*client.Receipt](ctx, c, "POST", "/v1/history/"+strconv.FormatInt(id, 10), nil, v)
}

// Waves returns groups of messages with the same text or nearly so.
func (c *Client) Waves(ctx context.Context, q WaveQuery) (*WavePage, error) {
	v := make(url.Values)
	setText(v, "class", q.Class)
	setText(v, "sort", q.Sort)
	if q.Posts {
		v.Set("posts", "true")
	}
	setNumbers(v, 0, q.Limit)
	return call[*WavePage](ctx, c, "GET", "/v1/waves", v, nil)
}

// Wave returns one group, and the verdict on it.
func (c *Client) Wave(ctx context.Context, id int64) (*WaveDetail, error) {
	return call[*WaveDetail](ctx, c, "GET", "/v1/waves/"+strconv.FormatInt(id, 10), nil, nil)
}

// Whitelist returns the signatures that were put on the whitelist while the node ran.
func (c *Client) Whitelist(ctx context.Context) ([]Cleared, error) {
	return call[[]Cleared](ctx, c, "GET", "/v1/whitelist", nil, nil)
}

// Clear puts the text of an entry of the history on the whitelist, by all signatures of
// the whole text, and returns these.
func (c *Client) Clear(ctx context.Context, clear Clear) ([]Cleared, error) {
	return call[[]Cleared](ctx, c, "POST", "/v1/whitelist", nil, clear)
}

// Unclear takes a signature off that whitelist.
func (c *Client) Unclear(ctx context.Context, s bulkhead.Signature) error {
	_, err := call[*struct{}](ctx, c, "DELETE", "/v1/whitelist", url.Values{"signature": {s.String()}}, nil)
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
