package pair

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/store/stream"
)

// OpenJournal opens the journal of a node in its stream, nil if the configuration names none. The messages are sealed
// with a key, which both nodes of a pair have.
func OpenJournal(cfg *config.Config, key [32]byte, log *slog.Logger) (*stream.Journal, error) {
	if !cfg.Journal.InStream() {
		return nil, nil
	}
	c := cfg.Journal.Complete(&cfg.Standby)
	j, err := stream.Open(stream.Options{Servers: c.Servers, Credentials: c.Credentials, CA: c.CA, Name: c.Stream,
		Replicas: c.Replicas, MaxBytes: c.MaxBytes, Keep: c.MaxBytes / 2, Key: key, Log: log})
	if err != nil {
		return nil, &config.Error{Key: "journal.servers", Detail: err.Error()}
	}
	return j, nil
}

// JournalState describes the journal in a stream; nil if there is none.
func JournalState(j *stream.Journal) *admin.Journal {
	if j == nil {
		return nil
	}
	s := j.State()
	out := &admin.Journal{Server: s.Server, First: s.First, Last: s.Last, Replicas: s.Replicas, Bytes: s.Bytes,
		MaxBytes: s.MaxBytes}
	if s.Problem != nil {
		out.Problem = s.Problem.Error()
	}
	return out
}

// A journalCollector collects the metrics of a journal in a stream.
type journalCollector struct{ j *stream.Journal }

// JournalCollector returns the metrics of a journal in a stream. It has none for nil.
func JournalCollector(j *stream.Journal) prometheus.Collector { return journalCollector{j} }

var (
	streamUpDesc = prometheus.NewDesc("bulkhead_journal_stream_up",
		"1 if the stream of the journal takes entries, as far as the node knows, or else 0. Absent without a stream.",
		nil, nil)
	streamBytesDesc = prometheus.NewDesc("bulkhead_journal_stream_bytes",
		"Size of the stream of the journal, as far as the node knows. Absent without a stream.", nil, nil)
	streamLimitDesc = prometheus.NewDesc("bulkhead_journal_stream_limit_bytes",
		"Size at which the stream of the journal takes no more entries. Absent without a stream.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (c journalCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{streamUpDesc, streamBytesDesc, streamLimitDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c journalCollector) Collect(ch chan<- prometheus.Metric) {
	if c.j == nil {
		return
	}
	s, up := c.j.State(), 0.0
	if s.Problem == nil {
		up = 1
	}
	ch <- prometheus.MustNewConstMetric(streamUpDesc, prometheus.GaugeValue, up)
	ch <- prometheus.MustNewConstMetric(streamBytesDesc, prometheus.GaugeValue, float64(s.Bytes))
	ch <- prometheus.MustNewConstMetric(streamLimitDesc, prometheus.GaugeValue, float64(s.MaxBytes))
}
