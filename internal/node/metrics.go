package node

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
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

// messageMetrics are the metrics of the memory of current messages, through all doors.
func messageMetrics(m *door.Memory) prometheus.Collector {
	var s metric.Set
	limit := s.Gauge("bulkhead_message_memory_limit_bytes",
		"Largest memory of current messages and datagrams, through all doors.")
	held := s.Gauge("bulkhead_message_memory_bytes", "Memory of current messages and datagrams.")
	crowded := s.Counter("bulkhead_messages_crowded_total",
		"Messages and datagrams that were not taken for want of that memory.")
	return s.Collector(func(ch chan<- prometheus.Metric) {
		most, bytes, refusals := m.Usage()
		limit(ch, float64(most))
		held(ch, float64(bytes))
		crowded(ch, float64(refusals))
	})
}

// memoryCollector returns the metrics of the memory of messages. It has none if the node remembers no message.
func memoryCollector(f *front) prometheus.Collector {
	var s metric.Set
	digests := s.Gauge("bulkhead_memory_digests", "Digests of messages that were seen lately.")
	bytes := s.Gauge("bulkhead_memory_bytes", "Bytes in which these messages are remembered.")
	joined := s.Counter("bulkhead_memory_joined_total",
		"Votes (report) and questions (check) by a digest alone that were taken for the whole message.", "what")
	votes := s.Counter("bulkhead_votes_joined_total",
		"Votes by how the delivery that they are about was found: message-id, text, near or unknown.", "delivery")
	return s.Collector(func(ch chan<- prometheus.Metric) {
		if f.recent == nil {
			return
		}
		n, size := f.recent.Size()
		digests(ch, float64(n))
		bytes(ch, float64(size))
		stats := &f.joining.Stats
		joined(ch, float64(stats.Reports.Load()), "report")
		joined(ch, float64(stats.Checks.Load()), "check")
		for j := bulkhead.JoinedByID; j < bulkhead.NumJoins; j++ {
			votes(ch, float64(stats.Joins[j].Load()), j.String())
		}
	})
}

// historyCollector returns the metrics of the history and of the other records.
func historyCollector(r *records) prometheus.Collector {
	var s metric.Set
	entries := s.Gauge("bulkhead_history_entries", "Checks and votes in the history.")
	bytes := s.Gauge("bulkhead_history_bytes", "Bytes of the history that are in use.")
	written := s.Counter("bulkhead_history_written_total", "Entries written to the history.")
	lost := s.Counter("bulkhead_history_lost_total",
		"Entries that the history lost: because more came than it takes (full), or because they could not be "+
			"written (write).", "why")
	unaudit := s.Counter("bulkhead_audit_lost_total",
		"Entries of the record of administration that could not be written.")
	unwritten := s.Counter("bulkhead_sums_unwritten_total",
		"Times that the numbers of verdicts over time could not be written. They are tried again, and are lost "+
			"if the node ends before.")
	unreadable := s.Counter("bulkhead_sums_damaged_total",
		"Parts of the numbers of verdicts over time that could not be read, and are lost.")
	return s.Collector(func(ch chan<- prometheus.Metric) {
		unaudit(ch, float64(r.audit.Lost.Load()))
		unwritten(ch, float64(r.sums.Stats.Failed.Load()))
		unreadable(ch, float64(r.sums.Stats.Damaged.Load()))
		if r.book == nil {
			return
		}
		state, stats := r.book.State(), &r.book.Stats
		entries(ch, float64(state.Entries))
		bytes(ch, float64(state.Bytes))
		written(ch, float64(stats.Written.Load()))
		lost(ch, float64(stats.Lost.Load()), "full")
		lost(ch, float64(stats.Failed.Load()), "write")
	})
}
