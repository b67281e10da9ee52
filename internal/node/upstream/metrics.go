package upstream

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A collector collects the metrics of an edge.
type collector struct {
	u                             *Upstream
	up, other, total              *prometheus.Desc
	waiting, bytes                *prometheus.Desc
	version, age                  *prometheus.Desc
	shardUp, shardSlots, shardFor *prometheus.Desc
}

// Collector returns the metrics of an edge.
func (u *Upstream) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &collector{
		u:       u,
		waiting: desc("bulkhead_upstream_spool_reports", "Reports that wait on disk for the upstream."),
		bytes:   desc("bulkhead_upstream_spool_bytes", "Bytes of these reports."),
		up: desc("bulkhead_upstream_up",
			"1 if the upstream, or each shard, answered when it was last asked, or else 0."),
		other: desc("bulkhead_upstream_other_network",
			"1 if the upstream has another network secret, so that near copies are not recognised, or else 0."),
		total: desc("bulkhead_upstream_total",
			"Requests to the upstream (request), checks answered without one (cached), checks that it did not answer "+
				"and that were answered \"unknown\" (fail_open), reports refused for now for the same reason (temporary), "+
				"kept on disk (spooled), delivered later (delivered), or refused for good then (dropped).", "what"),
		version: desc("bulkhead_shards_version",
			"Version of the map of the shards that the edge uses; 0: it has none. Absent without shards."),
		age: desc("bulkhead_shards_read_seconds",
			"When the servers of the map last had a valid one, Unix time; 0: never since the start."),
		shardUp:    desc("bulkhead_shard_up", "1 if the shard answered when it was last asked, or else 0.", "shard"),
		shardSlots: desc("bulkhead_shard_slots", "Slots of the 1,024 that the shard has.", "shard"),
		shardFor:   desc("bulkhead_shard_spool_reports", "Reports that wait on disk for the shard.", "shard"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.other, c.total, c.waiting, c.bytes, c.version, c.age, c.shardUp,
		c.shardSlots, c.shardFor} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.up, one(c.u.edge.Up()))
	if c.u.spool != nil {
		n, bytes := c.u.spool.Len()
		gauge(c.waiting, float64(n))
		gauge(c.bytes, float64(bytes))
	}
	gauge(c.other, one(c.u.edge.OtherNetwork()))
	s := &c.u.edge.Stats
	for what, v := range map[string]*atomic.Int64{"request": &s.Requests, "cached": &s.Cached, "fail_open": &s.FailOpen,
		"temporary": &s.Temporary, "spooled": &s.Spooled, "delivered": &s.Delivered, "dropped": &s.Dropped} {
		ch <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(v.Load()), what)
	}
	if state := c.u.State(); state != nil {
		c.shards(state, gauge)
	}
}

// shards collects the metrics of the map.
func (c *collector) shards(s *admin.Shards, gauge func(*prometheus.Desc, float64, ...string)) {
	gauge(c.version, float64(s.Version))
	read := 0.0
	if !s.Read.IsZero() {
		read = float64(s.Read.Unix())
	}
	gauge(c.age, read)
	for _, x := range s.Shards {
		gauge(c.shardUp, one(x.Up), x.Name)
		gauge(c.shardSlots, float64(x.Slots), x.Name)
		gauge(c.shardFor, float64(x.Waiting), x.Name)
	}
}

func one(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
