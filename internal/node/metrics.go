package node

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// processMetrics are the metrics of the process: the library's standard go_ and process_ metrics,
// and the program's version.
func processMetrics(version string) []prometheus.Collector {
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bulkhead_build_info", Help: "1; the labels are the versions of the program and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	return []prometheus.Collector{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}

func messageMetrics(m *door.Memory) []prometheus.Collector {
	usage := func(i int) float64 {
		limit, held, refusals := m.Usage()
		return float64([]int64{limit, held, refusals}[i])
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bulkhead_message_memory_limit_bytes",
			Help: "Largest memory of current messages and datagrams, through all doors."}, func() float64 {
			return usage(0)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bulkhead_message_memory_bytes",
			Help: "Memory of current messages and datagrams."}, func() float64 { return usage(1) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "bulkhead_messages_crowded_total",
			Help: "Messages and datagrams that were not taken for want of that memory."}, func() float64 { return usage(2) }),
	}
}

// A memoryCollector collects the metrics of the memory of messages.
type memoryCollector struct {
	front                  *front
	digests, bytes, joined *prometheus.Desc
	votes                  *prometheus.Desc
}

func newMemoryCollector(f *front) *memoryCollector {
	return &memoryCollector{
		front:   f,
		digests: prometheus.NewDesc("bulkhead_memory_digests", "Digests of messages that were seen lately.", nil, nil),
		bytes:   prometheus.NewDesc("bulkhead_memory_bytes", "Bytes in which these messages are remembered.", nil, nil),
		joined: prometheus.NewDesc("bulkhead_memory_joined_total",
			"Votes (report) and questions (check) by a digest alone that were taken for the whole message.", []string{"what"},
			nil),
		votes: prometheus.NewDesc("bulkhead_votes_joined_total",
			"Votes by how the delivery that they are about was found: message-id, text, near or unknown.",
			[]string{"delivery"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.digests
	ch <- c.bytes
	ch <- c.joined
	ch <- c.votes
}

// Collect implements [prometheus.Collector].
func (c *memoryCollector) Collect(ch chan<- prometheus.Metric) {
	if c.front.recent == nil {
		return
	}
	digests, bytes := c.front.recent.Size()
	ch <- prometheus.MustNewConstMetric(c.digests, prometheus.GaugeValue, float64(digests))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(bytes))
	s := &c.front.joining.Stats
	ch <- prometheus.MustNewConstMetric(c.joined, prometheus.CounterValue, float64(s.Reports.Load()), "report")
	ch <- prometheus.MustNewConstMetric(c.joined, prometheus.CounterValue, float64(s.Checks.Load()), "check")
	for j := bulkhead.JoinedByID; j < bulkhead.NumJoins; j++ {
		ch <- prometheus.MustNewConstMetric(c.votes, prometheus.CounterValue, float64(s.Joins[j].Load()), j.String())
	}
}

// A historyCollector collects the metrics of the history.
type historyCollector struct {
	records                                                       *records
	entries, bytes, written, lost, unaudit, unwritten, unreadable *prometheus.Desc
}

func newHistoryCollector(r *records) *historyCollector {
	return &historyCollector{
		records: r,
		entries: prometheus.NewDesc("bulkhead_history_entries", "Checks and votes in the history.", nil, nil),
		bytes:   prometheus.NewDesc("bulkhead_history_bytes", "Bytes of the history that are in use.", nil, nil),
		written: prometheus.NewDesc("bulkhead_history_written_total", "Entries written to the history.", nil, nil),
		lost: prometheus.NewDesc("bulkhead_history_lost_total",
			"Entries that the history lost: because more came than it takes (full), or because they could not be "+
				"written (write).",
			[]string{"why"}, nil),
		unaudit: prometheus.NewDesc("bulkhead_audit_lost_total",
			"Entries of the record of administration that could not be written.", nil, nil),
		unwritten: prometheus.NewDesc("bulkhead_sums_unwritten_total",
			"Times that the numbers of verdicts over time could not be written. They are tried again, and are lost "+
				"if the node ends before.",
			nil, nil),
		unreadable: prometheus.NewDesc("bulkhead_sums_damaged_total",
			"Parts of the numbers of verdicts over time that could not be read, and are lost.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *historyCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.entries, c.bytes, c.written, c.lost, c.unaudit, c.unwritten, c.unreadable} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *historyCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.unaudit, prometheus.CounterValue, float64(c.records.audit.Lost.Load()))
	ch <- prometheus.MustNewConstMetric(c.unwritten, prometheus.CounterValue, float64(c.records.sums.Stats.Failed.Load()))
	damaged := float64(c.records.sums.Stats.Damaged.Load())
	ch <- prometheus.MustNewConstMetric(c.unreadable, prometheus.CounterValue, damaged)
	if c.records.book == nil {
		return
	}
	state, s := c.records.book.State(), &c.records.book.Stats
	ch <- prometheus.MustNewConstMetric(c.entries, prometheus.GaugeValue, float64(state.Entries))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(state.Bytes))
	ch <- prometheus.MustNewConstMetric(c.written, prometheus.CounterValue, float64(s.Written.Load()))
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(s.Lost.Load()), "full")
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(s.Failed.Load()), "write")
}
