package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// An Upstream is a remote node; [admin.Client] implements it.
type Upstream interface {
	bulkhead.Counter
	CheckBatch(context.Context, []bulkhead.Query) ([]client.Checked, error)
	ReportBatch(context.Context, []bulkhead.Report) ([]client.Reported, error)
	Node(context.Context) (*admin.NodeState, error)
}

// Options are the settings of an edge.
type Options struct {
	Upstream Upstream
	// Timeout limits the time that a check waits.
	Timeout time.Duration
	// Cache is the time for which an "unknown" answer is reused; 0: never.
	Cache time.Duration
	// Spool keeps reports while the upstream takes none; nil: they are refused. The caller closes it.
	Spool *Spool
	// Network is the fingerprint of the secret with which the edge's doors compute signatures; see
	// [Edge.Watch].
	Network string
	// Log records when the upstream becomes unreachable and reachable; nil discards.
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Limits of an edge.
const (
	batchSize     = 64               // messages in one request
	maxWaiting    = 4096             // messages waiting for a request
	reportTimeout = 15 * time.Second // for requests that wait for the upstream's disk
	probeEvery    = time.Second      // interval of attempts at an unreachable upstream
)

// An Edge is a Counter in front of a remote node. Its methods may be called
// concurrently.
type Edge struct {
	up       Upstream
	timeout  time.Duration
	network  network
	checks   batcher[bulkhead.Query, bulkhead.Verdict]
	reports  batcher[bulkhead.Report, bulkhead.Receipt]
	cache    *cache
	spool    *Spool // nil for none
	health   health
	ready    readiness
	delivery delivery
	Stats    Stats
}

// Stats are the counters of an edge.
type Stats struct {
	Requests  atomic.Int64 // requests to the upstream
	Cached    atomic.Int64 // checks answered from the cache
	FailOpen  atomic.Int64 // checks and looks answered "unknown" because the upstream did not answer
	Temporary atomic.Int64 // reports and counts refused temporarily for the same reason
	Spooled   atomic.Int64 // reports that went into the spool
	Delivered atomic.Int64 // reports of the spool that the upstream has taken
	Dropped   atomic.Int64 // reports of the spool that the upstream refuses for good
}

// New returns an edge.
func New(o Options) *Edge {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Edge{up: o.Upstream, timeout: o.Timeout, cache: newCache(o.Cache, o.Now),
		spool: o.Spool, delivery: delivery{every: deliverEvery}}
	e.health = health{log: o.Log, now: o.Now, back: make(chan struct{}, 1)}
	e.network.own, e.network.retry = o.Network, time.Minute
	e.checks = batcher[bulkhead.Query, bulkhead.Verdict]{send: e.sendChecks, timeout: o.Timeout, size: batchSize,
		limit: maxWaiting}
	e.reports = batcher[bulkhead.Report, bulkhead.Receipt]{send: e.sendReports, timeout: reportTimeout, size: batchSize,
		limit: maxWaiting}
	return e
}

// Up reports whether the upstream answered the last request.
func (e *Edge) Up() bool { return !e.health.away() }

func (e *Edge) sendChecks(ctx context.Context, queries []bulkhead.Query) ([]result[bulkhead.Verdict], error) {
	e.Stats.Requests.Add(1)
	at := e.health.sent()
	got, err := e.up.CheckBatch(ctx, queries)
	e.health.note(at, err)
	out := make([]result[bulkhead.Verdict], len(got))
	for i := range got {
		out[i] = result[bulkhead.Verdict]{got[i].Verdict, got[i].Err}
	}
	return out, err
}

func (e *Edge) sendReports(ctx context.Context, reports []bulkhead.Report) ([]result[bulkhead.Receipt], error) {
	e.Stats.Requests.Add(1)
	at := e.health.sent()
	got, err := e.up.ReportBatch(ctx, reports)
	e.health.note(at, err)
	out := make([]result[bulkhead.Receipt], len(got))
	for i := range got {
		out[i] = result[bulkhead.Receipt]{got[i].Receipt, got[i].Err}
	}
	return out, err
}

// Check implements [bulkhead.Clearinghouse]. If the upstream does not answer in time, the verdict
// is unknown.
func (e *Edge) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	if err := valid(q.Signatures); err != nil {
		return bulkhead.Verdict{}, err
	}
	key, keyed := keyOf(q)
	if v, ok := e.cache.get(key, q.Signatures); keyed && ok {
		e.Stats.Cached.Add(1)
		return v, nil
	}
	if !e.health.mayAsk() {
		return e.unknown(&q), nil
	}
	asked := e.cache.now()
	short, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	v, err := e.checks.do(short, q)
	switch {
	case err == nil:
		e.cache.put(key, &v, asked)
		return v, nil
	case ctx.Err() != nil:
		return bulkhead.Verdict{}, ctx.Err()
	case errors.Is(err, bulkhead.ErrMalformed):
		return bulkhead.Verdict{}, err
	}
	return e.unknown(&q), nil
}

// unknown returns the verdict for a query that the upstream did not answer.
func (e *Edge) unknown(q *bulkhead.Query) bulkhead.Verdict {
	e.Stats.FailOpen.Add(1)
	v := bulkhead.Verdict{Threshold: q.Threshold, Findings: make([]bulkhead.Finding, len(q.Signatures))}
	for i := range q.Signatures {
		v.Findings[i].Signature = q.Signatures[i]
	}
	if !q.Terse {
		v.Reasons = []string{"unknown: the upstream did not answer"}
	}
	return v
}

// Report implements [bulkhead.Clearinghouse]. A report that the upstream did not acknowledge goes into the
// spool, with an ID, by which it counts once even if it had arrived. Without a spool it is refused with an error
// that wraps [bulkhead.ErrReadOnly], and may have been counted nevertheless.
func (e *Edge) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	if err := valid(r.Signatures); err != nil {
		return bulkhead.Receipt{}, err
	}
	if r.Vote >= bulkhead.NumVotes {
		return bulkhead.Receipt{}, fmt.Errorf("edge: %w: vote %d", bulkhead.ErrMalformed, r.Vote)
	}
	if e.spool != nil {
		if r.ID == "" {
			r.ID = "edge-" + rand.Text() // it may be sent twice
		}
		if n, _ := e.spool.Len(); n > 0 { // reports that came before are still there
			return e.keep(r, errAway)
		}
	}
	if !e.health.mayAsk() {
		return e.keep(r, errAway)
	}
	defer e.cache.forget(r.Signatures)
	receipt, err := e.reports.do(ctx, r)
	switch {
	case err == nil:
		return receipt, nil
	case ctx.Err() != nil:
		return bulkhead.Receipt{}, ctx.Err()
	case down(err), errors.Is(err, bulkhead.ErrReadOnly):
		return e.keep(r, err)
	case refusesEdge(err):
		return bulkhead.Receipt{}, e.temporary(err)
	}
	return bulkhead.Receipt{}, err
}

// keep puts a report that the upstream did not take into the spool. Its signatures are then pending. Without a
// spool it refuses the report because of err.
func (e *Edge) keep(r bulkhead.Report, err error) (bulkhead.Receipt, error) {
	if e.spool == nil {
		return bulkhead.Receipt{}, e.temporary(err)
	}
	if err := e.spool.put(r, e.cache.now()); err != nil {
		e.Stats.Temporary.Add(1)
		return bulkhead.Receipt{}, err
	}
	e.Stats.Spooled.Add(1)
	e.cache.forget(r.Signatures)
	return bulkhead.Receipt{Pending: len(r.Signatures)}, nil
}

// refusesEdge reports whether the upstream refuses the edge itself, for its account or rate, and
// not the reporter. Front doors tolerate a refused reporter ([bulkhead.Tolerate]) and would
// acknowledge a report that was not counted.
func refusesEdge(err error) bool {
	return errors.Is(err, bulkhead.ErrForbidden) || errors.Is(err, bulkhead.ErrUnauthorised) ||
		errors.Is(err, bulkhead.ErrOverLimit)
}

// Look implements [bulkhead.Counter]. While the upstream is unreachable, every answer is unknown.
func (e *Edge) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	out = out[:len(sigs)]
	if len(sigs) == 0 {
		return nil
	}
	if err := valid(sigs); err != nil {
		return err
	}
	if e.health.mayAsk() {
		e.Stats.Requests.Add(1)
		short, cancel := context.WithTimeout(ctx, e.timeout)
		at := e.health.sent()
		err := e.up.Look(short, sigs, out, what)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.health.note(at, err)
		if err == nil || errors.Is(err, bulkhead.ErrMalformed) {
			return err
		}
	}
	e.Stats.FailOpen.Add(1)
	clear(out)
	return nil
}

// Count implements [bulkhead.Counter]; see [Edge.Report].
func (e *Edge) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if err := bulkhead.ValidCounts(sigs, n); err != nil || len(sigs) == 0 {
		return err
	}
	if !e.health.mayAsk() {
		return e.temporary(errAway)
	}
	defer e.cache.forget(sigs)
	e.Stats.Requests.Add(1)
	long, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	at := e.health.sent()
	err := e.up.Count(long, sigs, n)
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	e.health.note(at, err)
	if down(err) || refusesEdge(err) {
		return e.temporary(err)
	}
	return err
}

func (e *Edge) temporary(err error) error {
	e.Stats.Temporary.Add(1)
	return fmt.Errorf("edge: %w: %v", bulkhead.ErrReadOnly, err)
}

// valid returns an error for signatures that the upstream would refuse, so that they do not spoil a
// batch.
func valid(sigs []bulkhead.Signature) error {
	if len(sigs) == 0 {
		return fmt.Errorf("edge: %w: no signature", bulkhead.ErrMalformed)
	}
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("edge: %w: signature %d of %d is invalid", bulkhead.ErrMalformed, i+1, len(sigs))
		}
	}
	return nil
}
