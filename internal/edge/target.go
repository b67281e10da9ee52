package edge

import (
	"context"

	"github.com/bulkhead-mail/bulkhead"
)

// A target is one upstream of an edge: a node with its standbys.
type target struct {
	name     string // of the shard; "" for the only upstream
	urls     []string
	up       Upstream
	checks   batcher[bulkhead.Query, bulkhead.Verdict]
	reports  batcher[bulkhead.Report, bulkhead.Receipt]
	cache    *cache
	health   health
	network  network
	delivery delivery
	stats    *Stats
}

// target returns a new target.
func (e *Edge) target(name string, up Upstream) *target {
	t := &target{name: name, up: up, cache: newCache(e.o.Cache, e.o.Now), stats: &e.Stats}
	log := e.o.Log
	if name != "" {
		log = log.With("shard", name)
	}
	t.health = health{log: log, now: e.o.Now, back: make(chan struct{}, 1)}
	t.network = network{own: e.o.Network, timeout: e.o.Timeout, retry: e.retry}
	t.checks = batcher[bulkhead.Query, bulkhead.Verdict]{send: t.sendChecks, timeout: e.o.Timeout, size: batchSize,
		limit: maxWaiting}
	t.reports = batcher[bulkhead.Report, bulkhead.Receipt]{send: t.sendReports, timeout: reportTimeout, size: batchSize,
		limit: maxWaiting}
	return t
}

func (t *target) sendChecks(ctx context.Context, queries []bulkhead.Query) ([]result[bulkhead.Verdict], error) {
	t.stats.Requests.Add(1)
	at := t.health.sent()
	got, err := t.up.CheckBatch(ctx, queries)
	t.health.note(at, err)
	out := make([]result[bulkhead.Verdict], len(got))
	for i := range got {
		out[i] = result[bulkhead.Verdict]{got[i].Verdict, got[i].Err}
	}
	return out, err
}

func (t *target) sendReports(ctx context.Context, reports []bulkhead.Report) ([]result[bulkhead.Receipt], error) {
	t.stats.Requests.Add(1)
	at := t.health.sent()
	got, err := t.up.ReportBatch(ctx, reports)
	t.health.note(at, err)
	out := make([]result[bulkhead.Receipt], len(got))
	for i := range got {
		out[i] = result[bulkhead.Receipt]{got[i].Receipt, got[i].Err}
	}
	return out, err
}
