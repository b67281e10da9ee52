package api

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// metrics holds the server's own metrics in /metrics. Labels are resolved when routes are mounted,
// so that a request costs two atomic additions.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	verdicts [bulkhead.NumClasses]prometheus.Counter
	votes    [bulkhead.NumVotes]prometheus.Counter
	times    door.Times // of all routes
}

func newMetrics(reg *prometheus.Registry, node Node, peers Peers) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bulkhead_http_requests_total", Help: "HTTP requests by route and status.",
		}, []string{"method", "path", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bulkhead_http_request_seconds", Help: "Time to answer an HTTP request.",
			Buckets: []float64{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10},
		}, []string{"method", "path"}),
	}
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bulkhead_http_verdicts_total", Help: "Answers to checks over HTTP.",
	}, []string{"class"})
	votes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bulkhead_http_votes_total", Help: "Votes taken over HTTP.",
	}, []string{"vote"})
	for c := range bulkhead.NumClasses {
		m.verdicts[c] = verdicts.WithLabelValues(c.String())
	}
	for v := range bulkhead.NumVotes {
		m.votes[v] = votes.WithLabelValues(v.String())
	}
	collectors := []prometheus.Collector{m.requests, m.seconds, verdicts, votes}
	if node != nil {
		collectors = append(collectors, newNodeCollector(node))
	}
	if peers != nil {
		collectors = append(collectors, newPeerCollector(peers))
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) verdict(v *bulkhead.Verdict) {
	if v.Class < bulkhead.NumClasses {
		m.verdicts[v.Class].Inc()
	}
}

func (m *metrics) vote(v bulkhead.Vote) { m.votes[v].Inc() }

// A routeMetrics holds the metrics of one route.
type routeMetrics struct {
	m            *metrics
	method, path string
	seconds      prometheus.Observer
}

func (m *metrics) route(method, path string) *routeMetrics {
	m.requests.WithLabelValues(method, path, "200") // there from the start
	return &routeMetrics{m: m, method: method, path: path, seconds: m.seconds.WithLabelValues(method, path)}
}

func (r *routeMetrics) observe(status int, d time.Duration) {
	r.seconds.Observe(d.Seconds())
	r.m.times.Add(d, 1)
	r.m.requests.WithLabelValues(r.method, r.path, strconv.Itoa(status)).Inc()
}

// A nodeCollector reads the node's state whenever metrics are read.
type nodeCollector struct {
	node                                  Node
	counters                              [8]*prometheus.Desc // in the order of Counters
	bytes, keys, fill, ghost, wrong, bulk *prometheus.Desc
	mature, readOnly, doubts, missing     *prometheus.Desc
	ageing                                *prometheus.Desc
	healed                                *prometheus.Desc
	free, needed                          *prometheus.Desc
}

func newNodeCollector(n Node) *nodeCollector {
	labels := []string{"book", "generation", "array"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("bulkhead_"+name, help, labels, nil)
	}
	return &nodeCollector{
		node:     n,
		bytes:    desc("array_bytes", "Memory of an array. Generation 0 is the newest.", labels...),
		keys:     desc("array_keys", "Distinct keys added to an array.", labels...),
		fill:     desc("array_fill_ratio", "Share of cells or bits that are not zero.", labels...),
		ghost:    desc("array_ghost_ratio", "Probability that an absent key is found, at the present fill.", labels...),
		wrong:    desc("array_count_wrong_ratio", "Expected share of counts that are too high.", labels...),
		bulk:     desc("array_bulk_wrong_ratio", "Probability that an absent key shows the bulk threshold.", labels...),
		free:     desc("disk_free_bytes", "Room in the file system of the data folder."),
		needed:   desc("disk_needed_bytes", "Bytes that a snapshot of everything would take there."),
		mature:   desc("mature", "1 once the node knows what mail usually comes to it."),
		readOnly: desc("read_only", "1 while the node refuses reports."),
		ageing:   desc("ageing_held", "1 while the clock is implausibly far ahead, so that no generation expires."),
		missing: desc("parts_missing",
			"Files and folders of the data folder that were gone when the node started, and began anew."),
		doubts: desc("parts_in_doubt",
			"Pages of arrays, and rows of journal entries, that a salvage of a damaged store has lost: counts may be low."),
		healed: desc("pages_healed_total", "Pages of arrays that a salvage had lost and that a peer's replica made whole.",
			"peer"),
		counters: [8]*prometheus.Desc{
			desc("checks_total", "Checks through all doors."),
			desc("reports_total", "Reports and revokes taken through all doors."),
			desc("reports_refused_total", "Reports and revokes refused."),
			desc("journal_entries_total", "Entries written to the journal."),
			desc("checkpoints_total", "Snapshots written."),
			desc("recoveries_total", "Times that the node got over a failed write."),
			desc("generations_forgotten_total", "Generations given up before their time for want of memory."),
			desc("gatherings_total",
				"Times that votes looked like an attack: many on a text that get nothing, votes on known senders, a "+
					"listing of what many received."),
		},
	}
}

// Describe implements [prometheus.Collector].
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range append([]*prometheus.Desc{c.bytes, c.keys, c.fill, c.ghost, c.wrong, c.bulk, c.mature, c.readOnly,
		c.ageing, c.doubts, c.missing, c.healed, c.free, c.needed}, c.counters[:]...) {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	state := c.node.State(context.Background())
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if d := state.Disk; d != nil {
		gauge(c.free, float64(d.Free))
		gauge(c.needed, float64(d.Needed))
	}
	parts := 0
	for _, d := range state.Doubts {
		parts += max(1, d.Pages)
	}
	gauge(c.doubts, float64(parts))
	gauge(c.missing, float64(len(state.Missing)))
	for _, h := range state.Healed {
		ch <- prometheus.MustNewConstMetric(c.healed, prometheus.CounterValue, float64(h.Pages), h.Peer)
	}
	for _, b := range state.Books {
		for i, g := range b.Generations {
			for _, a := range g.Arrays {
				labels := []string{b.Name, strconv.Itoa(i), a.Name}
				gauge(c.bytes, float64(a.Bytes), labels...)
				gauge(c.keys, float64(a.Keys), labels...)
				gauge(c.fill, a.Fill, labels...)
				gauge(c.ghost, a.Ghost, labels...)
				gauge(c.wrong, a.Wrong, labels...)
				gauge(c.bulk, a.Bulk, labels...)
			}
		}
	}
	n := state.Counters
	for i, v := range []uint64{n.Checks, n.Reports, n.Refused, n.Entries, n.Checkpoints, n.Recoveries, n.Forgotten,
		n.Gatherings} {
		ch <- prometheus.MustNewConstMetric(c.counters[i], prometheus.CounterValue, float64(v))
	}
	flag := func(d *prometheus.Desc, on bool) {
		v := 0.0
		if on {
			v = 1
		}
		gauge(d, v)
	}
	flag(c.mature, state.Mature)
	flag(c.ageing, state.Ageing != nil)
	flag(c.readOnly, state.ReadOnly != "")
}
