package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// remembering returns house with a memory of recent messages, unless the configuration disables it.
// The test message is recognised between the memory and house, so that a digest which the memory
// completes is judged as the whole mail.
func (n *core) remembering(house bulkhead.Counter) bulkhead.Counter {
	m := n.cfg.Load().Memory
	n.judge = house
	sigs, err := signature.Compute(context.Background(), []byte(trial.Message), n.hashing)
	if err != nil { // excluded by the tests of trial
		n.log.Error("the test message has no signatures", "err", err)
	} else {
		house = trial.New(house, sigs)
	}
	if m.Bytes == 0 {
		return house
	}
	n.recent = recent.NewTable(m.Bytes, time.Duration(m.Keep), clock.Now)
	n.joining = recent.New(house, n.recent, n.showsTo)
	return n.joining
}

// showsTo implements [recent.Door].
func (n *core) showsTo(who bulkhead.Reporter) (recent.Space, bool) {
	s, err := n.engine.Accounts().Door(who)
	switch {
	case err != nil:
		return "", false
	case s.Root:
		return "", true
	case s.Voucher != "":
		return recent.Space(s.Voucher), true
	}
	return recent.Space(s.Voice), true
}

// A memoryCollector collects the metrics of the memory of messages.
type memoryCollector struct {
	core                   *core
	digests, bytes, joined *prometheus.Desc
}

func newMemoryCollector(c *core) *memoryCollector {
	return &memoryCollector{
		core:    c,
		digests: prometheus.NewDesc("bulkhead_memory_digests", "Digests of messages that were seen lately.", nil, nil),
		bytes:   prometheus.NewDesc("bulkhead_memory_bytes", "Bytes in which these messages are remembered.", nil, nil),
		joined: prometheus.NewDesc("bulkhead_memory_joined_total",
			"Votes (report) and questions (check) by a digest alone that were taken for the whole message.", []string{"what"},
			nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.digests
	ch <- c.bytes
	ch <- c.joined
}

// Collect implements [prometheus.Collector].
func (c *memoryCollector) Collect(ch chan<- prometheus.Metric) {
	if c.core.recent == nil {
		return
	}
	digests, bytes := c.core.recent.Size()
	ch <- prometheus.MustNewConstMetric(c.digests, prometheus.GaugeValue, float64(digests))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(bytes))
	s := &c.core.joining.Stats
	ch <- prometheus.MustNewConstMetric(c.joined, prometheus.CounterValue, float64(s.Reports.Load()), "report")
	ch <- prometheus.MustNewConstMetric(c.joined, prometheus.CounterValue, float64(s.Checks.Load()), "check")
}
