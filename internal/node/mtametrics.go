package node

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// An mtaCollector collects the metrics of rate limits and lists.
type mtaCollector struct {
	m     *mta
	descs map[string]*prometheus.Desc
}

var mtaHelp = []struct{ name, label, help string }{
	{"bulkhead_ratelimit_requests_total", "result", "Requests that the rate limits looked at."},
	{"bulkhead_ratelimit_keys", "rule", "Keys of a rate limit."},
	{"bulkhead_ratelimit_bytes", "rule", "Memory of a rate limit."},
	{"bulkhead_ratelimit_evicted_total", "rule", "Keys that gave way because the memory was spent."},
	{"bulkhead_list_entries", "list", "Entries of a list."},
	{"bulkhead_list_error", "list", "Expected error of a list, for one element."},
	{"bulkhead_list_updated_seconds", "list", "When a list was built or changed, Unix time."},
	{"bulkhead_list_unread", "list",
		"1 if the file of a list cannot be read: the node goes on with what it had, or knows nothing of the list."},
	{"bulkhead_list_reloads_total", "result", "List files that were taken over, or could not be."},
}

func newMTACollector(m *mta) *mtaCollector {
	c := &mtaCollector{m: m, descs: make(map[string]*prometheus.Desc)}
	for _, h := range mtaHelp {
		c.descs[h.name] = prometheus.NewDesc(h.name, h.help, []string{h.label}, nil)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *mtaCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *mtaCollector) Collect(ch chan<- prometheus.Metric) {
	counter := func(name, label string, v *atomic.Int64) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, float64(v.Load()), label)
	}
	gauge := func(name, label string, v float64) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, v, label)
	}
	s := &c.m.limits.Stats
	counter("bulkhead_ratelimit_requests_total", "all", &s.Requests)
	counter("bulkhead_ratelimit_requests_total", "refused", &s.Refused)
	counter("bulkhead_ratelimit_requests_total", "warned", &s.Warned)
	counter("bulkhead_ratelimit_requests_total", "fault", &s.Faults)
	for _, u := range c.m.limits.Usage() {
		gauge("bulkhead_ratelimit_keys", u.Rule.Name, float64(u.Keys))
		gauge("bulkhead_ratelimit_bytes", u.Rule.Name, float64(u.Bytes))
		ch <- prometheus.MustNewConstMetric(c.descs["bulkhead_ratelimit_evicted_total"], prometheus.CounterValue,
			float64(u.Evicted), u.Rule.Name)
	}
	for _, h := range c.m.lists.Handles() {
		unread := 0.0
		if h.Fault() != nil {
			unread = 1
		}
		gauge("bulkhead_list_unread", h.Name(), unread)
		l := h.List()
		if l == nil {
			continue
		}
		gauge("bulkhead_list_entries", h.Name(), float64(l.Count()))
		gauge("bulkhead_list_error", h.Name(), l.ErrorRate())
		gauge("bulkhead_list_updated_seconds", h.Name(), float64(h.Updated().Unix()))
	}
	counter("bulkhead_list_reloads_total", "taken", &c.m.lists.Reloads)
	counter("bulkhead_list_reloads_total", "refused", &c.m.lists.Faults)
}
