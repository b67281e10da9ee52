package upstream

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
)

// Collector returns the metrics of an edge.
func (u *Upstream) Collector() prometheus.Collector {
	var s metric.Set
	up := s.Gauge("bulkhead_upstream_up",
		"1 if the upstream, or each shard, answered when it was last asked, or else 0.")
	waiting := s.Gauge("bulkhead_upstream_spool_reports", "Reports that wait on disk for the upstream.")
	bytes := s.Gauge("bulkhead_upstream_spool_bytes", "Bytes of these reports.")
	other := s.Gauge("bulkhead_upstream_other_network",
		"1 if the upstream has another network secret, so that near copies are not recognised, or else 0.")
	total := s.Counter("bulkhead_upstream_total",
		"Requests to the upstream (request), checks answered without one (cached), checks that it did not answer "+
			"and that were answered \"unknown\" (fail_open), reports refused for now for the same reason (temporary), "+
			"kept on disk (spooled), delivered later (delivered), or refused for good then (dropped).", "what")
	shards := shardMetrics(&s)
	return s.Collector(func(ch chan<- prometheus.Metric) {
		up(ch, metric.One(u.edge.Up()))
		if u.spool != nil {
			n, size := u.spool.Len()
			waiting(ch, float64(n))
			bytes(ch, float64(size))
		}
		other(ch, metric.One(u.edge.OtherNetwork()))
		stats := &u.edge.Stats
		for what, v := range map[string]*atomic.Int64{"request": &stats.Requests, "cached": &stats.Cached,
			"fail_open": &stats.FailOpen, "temporary": &stats.Temporary, "spooled": &stats.Spooled,
			"delivered": &stats.Delivered, "dropped": &stats.Dropped} {
			total(ch, float64(v.Load()), what)
		}
		if state := u.State(); state != nil {
			shards(ch, state)
		}
	})
}

// shardMetrics adds the metrics of the map of the shards to s. It returns a function that sends them.
func shardMetrics(s *metric.Set) func(chan<- prometheus.Metric, *admin.Shards) {
	version := s.Gauge("bulkhead_shards_version",
		"Version of the map of the shards that the edge uses; 0: it has none. Absent without shards.")
	age := s.Gauge("bulkhead_shards_read_seconds",
		"When the servers of the map last had a valid one, Unix time; 0: never since the start.")
	up := s.Gauge("bulkhead_shard_up", "1 if the shard answered when it was last asked, or else 0.", "shard")
	slots := s.Gauge("bulkhead_shard_slots", "Slots of the 1,024 that the shard has.", "shard")
	waiting := s.Gauge("bulkhead_shard_spool_reports", "Reports that wait on disk for the shard.", "shard")
	return func(ch chan<- prometheus.Metric, m *admin.Shards) {
		version(ch, float64(m.Version))
		read := 0.0
		if !m.Read.IsZero() {
			read = float64(m.Read.Unix())
		}
		age(ch, read)
		for _, x := range m.Shards {
			up(ch, metric.One(x.Up), x.Name)
			slots(ch, float64(x.Slots), x.Name)
			waiting(ch, float64(x.Waiting), x.Name)
		}
	}
}
