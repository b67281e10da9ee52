package node

import (
	"context"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node/upstream"
)

// edgeCapacity is the size of an edge's books, in signatures: nothing is counted there.
const edgeCapacity = 1000

// asEdge returns cfg, with the smallest books if it is an edge's. The engine of an edge keeps the
// accounts of its own doors.
func asEdge(cfg *config.Config) *config.Config {
	if !cfg.IsEdge() {
		return cfg
	}
	small := *cfg
	small.Tally.Capacity, small.Blocklist.Capacity = edgeCapacity, edgeCapacity
	return &small
}

// startUpstream makes the doors of an edge use remote nodes in place of the engine.
func (n *Node) startUpstream(_ context.Context, st *stage) (err error) {
	cfg := n.cfg.Load()
	if !cfg.IsEdge() {
		return nil
	}
	n.upstream, err = upstream.Open(upstream.Options{Config: cfg, Dir: n.dir, Network: fingerprint(n.secret()),
		Read: ReadSecret, Log: n.log})
	if err != nil {
		return err
	}
	edge := n.upstream.Edge()
	st.tasks = append(st.tasks, task{name: "upstream", run: edge.Watch},
		task{name: "spool of reports", run: edge.Deliver}, task{name: "map of shards", run: n.upstream.Follow})
	n.front.house = n.remembering(edge)
	n.registry.MustRegister(n.upstream.Collector())
	if cfg.Upstream.URL != "" {
		n.log.Info("queries and reports of this edge go to the upstream", "upstream", cfg.Upstream.URL)
	} else {
		n.log.Info("queries and reports of this edge go to the shards of a site", "site", cfg.Shards.Site)
	}
	st.close = n.upstream.Close
	return nil
}
