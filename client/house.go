package client

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

var _ bulkhead.Counter = (*Client)(nil)

// Check implements [bulkhead.Clearinghouse]. It sends the whole query except its reporter. For the
// node, the reporter is the holder of the token.
func (c *Client) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := call[*Verdict](ctx, c, exchange{method: "POST", path: "/v1/check", body: checkOf(&q), reads: true})
	if err != nil {
		return bulkhead.Verdict{}, err
	}
	return verdictFor(&q, v)
}

// Report implements [bulkhead.Clearinghouse]. The report counts for the account of the token,
// regardless of the account that its reporter names. If the reporter has the address of another
// machine, the report counts as a report by a stranger at that address. The account must then be
// trusted or an administrator's.
func (c *Client) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	in, err := reportOf(&r)
	if err != nil {
		return bulkhead.Receipt{}, err
	}
	got, err := call[*Receipt](ctx, c, exchange{method: "POST", path: "/v1/report", body: in})
	if err != nil {
		return bulkhead.Receipt{}, err
	}
	if got == nil {
		return bulkhead.Receipt{}, errNoAnswer("/v1/report")
	}
	return got.Bulkhead(), nil
}

// A Checked is the answer to one query of a batch: a verdict or an error.
type Checked struct {
	Verdict bulkhead.Verdict
	Err     error
}

// MaxBatchSignatures is the largest number of signatures in one request to check several messages.
const MaxBatchSignatures = 1 << 16

// CheckBatch asks about several messages in one request: at most 1024, as the node is configured by
// default, with at most [MaxBatchSignatures] signatures together. The answers are in the order of the
// queries. An error applies to the whole batch: one malformed query makes the batch fail.
func (c *Client) CheckBatch(ctx context.Context, queries []bulkhead.Query) ([]Checked, error) {
	return c.checkBatch(ctx, queries, false)
}

// CheckBrief is [Client.CheckBatch] without reasons and findings, which are most of the work: a node
// answers several times as many messages a second. Nodes of version 0.1 refuse such a request.
func (c *Client) CheckBrief(ctx context.Context, queries []bulkhead.Query) ([]Checked, error) {
	return c.checkBatch(ctx, queries, true)
}

func (c *Client) checkBatch(ctx context.Context, queries []bulkhead.Query, brief bool) ([]Checked, error) {
	in := make([]Check, len(queries))
	for i := range queries {
		in[i] = checkOf(&queries[i])
		in[i].Brief = brief
	}
	answers, err := call[[]BatchVerdict](ctx, c, exchange{method: "POST", path: "/v1/check", body: in, reads: true})
	if err != nil {
		return nil, err
	}
	if len(answers) != len(queries) {
		return nil, fmt.Errorf("client: /v1/check: %d answers to %d messages", len(answers), len(queries))
	}
	out := make([]Checked, len(queries))
	for i := range answers {
		if p := answers[i].Problem; p != nil {
			out[i].Err = fmt.Errorf("client: %w", p)
			continue
		}
		q := &queries[i]
		if brief {
			q = &bulkhead.Query{}
		}
		out[i].Verdict, out[i].Err = verdictFor(q, answers[i].Verdict)
	}
	return out, nil
}

// A Reported is the answer to one report of a batch: a receipt or an error.
type Reported struct {
	Receipt bulkhead.Receipt
	Err     error
}

// ReportBatch makes several reports in one request; see [Client.CheckBatch].
func (c *Client) ReportBatch(ctx context.Context, reports []bulkhead.Report) ([]Reported, error) {
	in := make([]Report, len(reports))
	for i := range reports {
		var err error
		if in[i], err = reportOf(&reports[i]); err != nil {
			return nil, err
		}
	}
	answers, err := call[[]BatchReceipt](ctx, c, exchange{method: "POST", path: "/v1/report", body: in})
	if err != nil {
		return nil, err
	}
	if len(answers) != len(reports) {
		return nil, fmt.Errorf("client: /v1/report: %d answers to %d reports", len(answers), len(reports))
	}
	out := make([]Reported, len(reports))
	for i := range answers {
		switch p, r := answers[i].Problem, answers[i].Receipt; {
		case p != nil:
			out[i].Err = fmt.Errorf("client: %w", p)
		case r == nil:
			out[i].Err = errNoAnswer("/v1/report")
		default:
			out[i].Receipt = r.Bulkhead()
		}
	}
	return out, nil
}

// Look implements [bulkhead.Counter], with a request for each [MaxLooks] signatures.
func (c *Client) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	out = out[:len(sigs)]
	for len(sigs) > 0 {
		n := min(len(sigs), MaxLooks)
		in := LookRequest{
			Signatures: sigs[:n], Counts: what&bulkhead.Counts != 0,
			Judgements: what&bulkhead.Judgements != 0, Aside: what&bulkhead.Aside != 0,
		}
		got, err := call[*Looks](ctx, c, exchange{method: "POST", path: "/v1/look", body: in, reads: true})
		if err != nil {
			return err
		}
		if got == nil || len(got.Looks) != n {
			return errNoAnswer("/v1/look")
		}
		for i := range got.Looks {
			if out[i], err = got.Looks[i].Bulkhead(); err != nil {
				return err
			}
		}
		sigs, out = sigs[n:], out[n:]
	}
	return nil
}

// Count implements [bulkhead.Counter]. It refuses more than [MaxCounts] signatures,
// which have to fit into one request, with an error that wraps
// [bulkhead.ErrOverLimit]. The account of the token must be a trusted one or an
// administrator's.
func (c *Client) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if len(sigs) > MaxCounts {
		return fmt.Errorf("client: %w: %d signatures to count, limit %d", bulkhead.ErrOverLimit, len(sigs), MaxCounts)
	}
	if err := bulkhead.ValidCounts(sigs, n); err != nil || len(sigs) == 0 {
		return err
	}
	in := CountRequest{Signatures: sigs, Counts: n}
	_, err := call[*struct{}](ctx, c, exchange{method: "POST", path: "/v1/count", body: in})
	return err
}

func checkOf(q *bulkhead.Query) Check {
	return Check{Signatures: q.Signatures, Source: sourceOf(&q.Source), Threshold: q.Threshold, Terse: q.Terse,
		Mailbox: fitting(q.Mailbox)}
}

func reportOf(r *bulkhead.Report) (Report, error) {
	if !utf8.ValidString(r.ID) { // JSON would alter it
		return Report{}, fmt.Errorf("client: %w: the id of a report is not UTF-8", bulkhead.ErrMalformed)
	}
	if r.Vote >= bulkhead.NumVotes {
		return Report{}, fmt.Errorf("client: %w: vote %d", bulkhead.ErrMalformed, r.Vote)
	}
	return Report{
		Signatures: r.Signatures, Vote: r.Vote.String(), Count: r.Count, Recipients: recipientsOf(r.Vote, r.Recipients),
		Trap: r.Trap && r.Vote == bulkhead.Spam, Source: sourceOf(&r.Source), Reporter: stranger(r.Reporter.Addr),
		User: r.Reporter.User, ID: r.ID,
	}, nil
}

// recipientsOf returns the recipients that a report of that vote may name.
func recipientsOf(v bulkhead.Vote, all []string) []string {
	if v != bulkhead.Sighting {
		return nil
	}
	all = all[:min(len(all), bulkhead.MaxRecipients)]
	if slices.ContainsFunc(all, unfit) {
		all = slices.DeleteFunc(slices.Clone(all), unfit)
	}
	return all
}

func unfit(recipient string) bool { return fitting(recipient) == "" }

// The limits of a node on the names in a request. It refuses requests beyond them.
const (
	maxName    = 998  // bytes of an address, a List-Id or a mailbox
	maxDomains = 1024 // verified domains of a message
)

// fitting returns a name, or "" if it is longer than maxName. Otherwise, the sender of a message could choose names
// with which the node refuses the whole request.
func fitting(name string) string {
	size := 0
	for _, c := range name {
		size += utf8.RuneLen(c) // in JSON, a byte that is not UTF-8 becomes the 3 bytes of U+FFFD
	}
	if size > maxName {
		return ""
	}
	return name
}

// stranger returns addr if it belongs to another machine, and otherwise the zero Addr.
func stranger(addr netip.Addr) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.IsLoopback() {
		return netip.Addr{}
	}
	return addr
}

// verdictFor returns v in the form of the root package, or an error if v does not answer q: callers
// rely on a finding for each signature.
func verdictFor(q *bulkhead.Query, v *Verdict) (bulkhead.Verdict, error) {
	if v == nil || len(v.Findings) != len(q.Signatures) {
		return bulkhead.Verdict{}, errNoAnswer("/v1/check")
	}
	for i := range v.Findings {
		if v.Findings[i].Signature != q.Signatures[i] {
			return bulkhead.Verdict{}, errNoAnswer("/v1/check")
		}
	}
	return v.Bulkhead()
}

func errNoAnswer(path string) error {
	return fmt.Errorf("client: %s: the answer does not match the request", path)
}
