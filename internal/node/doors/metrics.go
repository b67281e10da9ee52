package doors

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/internal/verify"
)

// A family is a family of counters in /metrics that differ in one label.
type family struct {
	desc   *prometheus.Desc
	counts map[string]*atomic.Int64 // by the label's value
}

func newFamily(name, help, label string, counts map[string]*atomic.Int64) *family {
	return &family{desc: prometheus.NewDesc(name, help, []string{label}, nil), counts: counts}
}

// doorEvents is the family of events at a door for another clearinghouse's clients.
func doorEvents(door string, counts map[string]*atomic.Int64) []prometheus.Collector {
	return []prometheus.Collector{&family{counts: counts, desc: prometheus.NewDesc("bulkhead_door_events_total",
		"Events of the doors for clients of other clearinghouses, by door and event; see their pages in docs/protocols.",
		[]string{"event"}, prometheus.Labels{"door": door})}}
}

// verifyMetrics is the family of signatures and messages that a door did not verify because of a
// limit.
func verifyMetrics(door string, s *verify.Stats) prometheus.Collector {
	return &family{desc: prometheus.NewDesc("bulkhead_verify_skipped_total",
		"DKIM signatures (signature, surplus) and messages (header, queries, time) that a door did not verify, by "+
			"the limit that they exceeded.",
		[]string{"limit"}, prometheus.Labels{"door": door}), counts: map[string]*atomic.Int64{
		"surplus": &s.Surplus, "header": &s.Headers, "signature": &s.Signatures, "queries": &s.Queries, "time": &s.Late,
	}}
}

// Describe implements [prometheus.Collector].
func (f *family) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

// Collect implements [prometheus.Collector].
func (f *family) Collect(ch chan<- prometheus.Metric) {
	for value, n := range f.counts {
		ch <- prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, float64(n.Load()), value)
	}
}
