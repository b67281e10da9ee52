package edge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
)

// An Upstream is a remote node; [admin.Client] implements it.
type Upstream interface {
	Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error
	Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error
	CheckBatch(context.Context, []bulkhead.Query) ([]client.Checked, error)
	ReportBatch(context.Context, []bulkhead.Report) ([]client.Reported, error)
	Node(context.Context) (*admin.NodeState, error)
}

// Options are the settings of an edge.
type Options struct {
	Upstream Upstream
	// Open returns the Upstream of a shard. It is called by [Edge.Use] instead of Upstream, which is nil then.
	Open func(shard.Shard) Upstream
	// Default is the shard of requests that name no mailbox; "", or a shard that the map does not have: the map's.
	Default string
	// Domain completes the names of users without one, so that they go where their deliveries go.
	Domain string
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

// An Edge is a Counter in front of a remote node, or of the shards of a site. Its methods may be called concurrently.
type Edge struct {
	o     Options
	spool *Spool // nil for none
	every time.Duration
	retry time.Duration // of [Edge.Watch], after no answer
	sent  sent
	ready readiness
	Stats Stats

	mu     sync.RWMutex
	routes *routes
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
	e := &Edge{o: o, spool: o.Spool, every: deliverEvery, retry: time.Minute, sent: sent{now: o.Now}}
	e.routes = &routes{next: make(chan struct{})}
	if o.Upstream != nil {
		t := e.target("", o.Upstream)
		e.routes.all, e.routes.rest = []*target{t}, t
	}
	return e
}

// Up reports whether each upstream answered the last request.
func (e *Edge) Up() bool {
	all := e.current().all
	return len(all) > 0 && !slices.ContainsFunc(all, func(t *target) bool { return t.health.away() })
}

// Check implements [bulkhead.Clearinghouse]. If the upstream does not answer in time, the verdict
// is unknown.
func (e *Edge) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	if err := valid(q.Signatures); err != nil {
		return bulkhead.Verdict{}, err
	}
	mailbox := askedFor(&q)
	q.Mailbox = "" // the upstream does not need it, and the answer does not depend on it
	key, keyed := keyOf(q)
	short, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	for t := e.current().of(mailbox); t != nil; t = e.movedFrom(t, mailbox) {
		if v, ok := t.cache.get(key, q.Signatures); keyed && ok {
			e.Stats.Cached.Add(1)
			return v, nil
		}
		if !t.health.mayAsk() {
			continue
		}
		asked := e.o.Now()
		v, err := t.checks.do(short, q)
		switch {
		case err == nil:
			t.cache.put(key, &v, asked)
			return v, nil
		case ctx.Err() != nil:
			return bulkhead.Verdict{}, ctx.Err()
		case errors.Is(err, bulkhead.ErrMalformed):
			return bulkhead.Verdict{}, err
		}
	}
	return e.unknown(&q), nil
}

// movedFrom returns the present target of a mailbox if it is another one than a target that did not answer: that one
// may have been taken out of service since. It returns nil otherwise.
func (e *Edge) movedFrom(t *target, mailbox string) *target {
	if now := e.current().of(mailbox); now != t {
		return now
	}
	return nil
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
	repeated := repeatKey(&r)
	if e.spool != nil && r.ID == "" {
		r.ID = "edge-" + rand.Text() // it may be sent twice
	}
	t, may, now := e.towards(&r, repeated)
	if !now {
		return e.keep(r, may, errAway)
	}
	defer t.cache.forget(r.Signatures)
	receipt, err := t.reports.do(ctx, r)
	switch {
	case err == nil:
		return receipt, nil
	case ctx.Err() != nil:
		return bulkhead.Receipt{}, ctx.Err()
	case down(err), errors.Is(err, bulkhead.ErrReadOnly):
		return e.keep(r, t.name, err)
	case refusesEdge(err):
		return bulkhead.Receipt{}, e.temporary(err)
	}
	return bulkhead.Receipt{}, err
}

// towards returns the target of a report, and whether to send the report now. If not, may is the name of the shard that
// may have it already, "" for none.
func (e *Edge) towards(r *bulkhead.Report, repeated uint64) (t *target, may string, now bool) {
	e.mu.RLock() // so that no report overtakes one that a new map gives to the same shard
	defer e.mu.RUnlock()
	t = e.routes.of(mailboxOf(r))
	var marked string
	if e.spool != nil { // first: when a delivery ends, the shard is in e.sent before the mark goes
		marked = e.spool.marked(repeated)
	}
	had := cmp.Or(marked, e.sent.get(repeated))
	if other := e.routes.named(had); other != nil {
		t, may = other, had
	}
	if t == nil || e.spool != nil && e.spool.waits(t.name) || !t.health.mayAsk() {
		return t, may, false
	}
	e.sent.put(repeated, t.name)
	return t, "", true
}

// keep puts a report that the upstream did not take into the spool. may is the name of the shard that may have it, ""
// for none. Its signatures are then pending. Without a spool, keep refuses the report because of err.
func (e *Edge) keep(r bulkhead.Report, may string, err error) (bulkhead.Receipt, error) {
	if e.spool == nil {
		return bulkhead.Receipt{}, e.temporary(err)
	}
	if err := e.spool.put(r, may, e.o.Now()); err != nil {
		e.Stats.Temporary.Add(1)
		return bulkhead.Receipt{}, err
	}
	e.Stats.Spooled.Add(1)
	if t := e.current().of(mailboxOf(&r)); t != nil {
		t.cache.forget(r.Signatures)
	}
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
	short, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	for t := e.current().rest; t != nil; t = e.movedFrom(t, "") {
		if !t.health.mayAsk() {
			continue
		}
		e.Stats.Requests.Add(1)
		at := t.health.sent()
		err := t.up.Look(short, sigs, out, what)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t.health.note(at, err)
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
	t := e.current().rest
	if t == nil || !t.health.mayAsk() {
		return e.temporary(errAway)
	}
	defer t.cache.forget(sigs)
	e.Stats.Requests.Add(1)
	long, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	at := t.health.sent()
	err := t.up.Count(long, sigs, n)
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	t.health.note(at, err)
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
