package pair

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
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

// JournalCollector returns the metrics of a journal in a stream. It has none for nil.
func JournalCollector(j *stream.Journal) prometheus.Collector {
	var set metric.Set
	up := set.Gauge("bulkhead_journal_stream_up",
		"1 if the stream of the journal takes entries, as far as the node knows, or else 0. Absent without a stream.")
	bytes := set.Gauge("bulkhead_journal_stream_bytes",
		"Size of the stream of the journal, as far as the node knows. Absent without a stream.")
	limit := set.Gauge("bulkhead_journal_stream_limit_bytes",
		"Size at which the stream of the journal takes no more entries. Absent without a stream.")
	return set.Collector(func(ch chan<- prometheus.Metric) {
		if j == nil {
			return
		}
		s := j.State()
		up(ch, metric.One(s.Problem == nil))
		bytes(ch, float64(s.Bytes))
		limit(ch, float64(s.MaxBytes))
	})
}
