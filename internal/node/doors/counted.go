package doors

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
)

// A countedHouse counts the checks and reports of one door's clients. Looks by the program itself
// are not counted. Its methods may be called concurrently.
type countedHouse struct {
	bulkhead.Counter
	looks    atomic.Int64
	verdicts [bulkhead.NumClasses]atomic.Int64
	votes    [bulkhead.NumVotes]atomic.Int64 // accepted
	traps    atomic.Int64                    // votes for spam that spam traps gave
	refused  atomic.Int64                    // checks and votes that ended in an error
}

// Check implements [bulkhead.Clearinghouse].
func (h *countedHouse) Check(ctx context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v, err := h.Counter.Check(ctx, q)
	if err != nil {
		h.refused.Add(1)
		return v, err
	}
	h.verdicts[v.Class].Add(1)
	return v, nil
}

// CheckBatch checks queries[i] into verdicts[i].
func (h *countedHouse) CheckBatch(ctx context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	if err := bulkhead.CheckBatch(ctx, h.Counter, queries, verdicts); err != nil {
		h.refused.Add(int64(len(queries)))
		return err
	}
	for i := range verdicts {
		h.verdicts[verdicts[i].Class].Add(1)
	}
	return nil
}

// Report implements [bulkhead.Clearinghouse].
func (h *countedHouse) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return h.CountAndReport(ctx, nil, nil, r)
}

// CountAndReport implements [bulkhead.CountReporter].
func (h *countedHouse) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	receipt, err := bulkhead.CountAndReport(ctx, h.Counter, sigs, n, r)
	if err != nil {
		h.refused.Add(1)
		return receipt, err
	}
	h.votes[r.Vote].Add(1)
	if r.Trap && r.Vote == bulkhead.Spam {
		h.traps.Add(1)
	}
	return receipt, nil
}

// Look implements [bulkhead.Counter].
func (h *countedHouse) Look(ctx context.Context, sigs []bulkhead.Signature, out []bulkhead.Look,
	what bulkhead.Aspect) error {
	err := h.Counter.Look(ctx, sigs, out, what)
	switch {
	case err != nil:
		h.refused.Add(1)
	case what&bulkhead.Aside == 0:
		h.looks.Add(1)
	}
	return err
}

// sum returns the checks and reports of the door's clients since the start.
func (h *countedHouse) sum() (s logbook.Sum) {
	for c := range s.Verdicts {
		s.Verdicts[c] = uint64(h.verdicts[c].Load())
	}
	s.Looks = uint64(h.looks.Load())
	for v := range s.Votes {
		s.Votes[v] = uint64(h.votes[v].Load())
	}
	s.Traps = uint64(h.traps.Load())
	return s
}

// A doorCollector collects the metrics that every door has.
type doorCollector struct {
	opened                                      *opened
	house                                       *countedHouse // nil: the door asks no clearinghouse
	seconds, checks, verdicts, reports, refused *prometheus.Desc
	connections, turned, panics                 *prometheus.Desc
}

func newDoorCollector(door string, o *opened, house *countedHouse) *doorCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("bulkhead_door_"+name, help, labels, prometheus.Labels{"door": door})
	}
	return &doorCollector{
		opened: o, house: house,
		seconds: desc("answer_seconds", "Time to answer a request at a door; milter: a message."),
		checks:  desc("checks_total", "Checks of a door's clients, not those that the program makes itself."),
		verdicts: desc("verdicts_total",
			"Verdicts on messages for a door's clients, by class. Doors that look at single signatures have none.", "class"),
		reports:     desc("reports_total", "Sightings and votes taken from a door's clients.", "vote"),
		refused:     desc("refused_total", "Checks, sightings and votes of a door's clients that were refused or failed."),
		connections: desc("connections", "Connections that are open."),
		turned: desc("turned_away_total",
			"Connections closed at once (crowd), or given up for another (evicted), requests above the rate (rate), "+
				"and datagrams that are too long (size) or find no memory (memory).",
			"why"),
		panics: desc("panics_total", "Requests that ended in a fault of the program."),
	}
}

// Describe implements [prometheus.Collector].
func (c *doorCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.seconds, c.checks, c.verdicts, c.reports, c.refused, c.connections, c.turned,
		c.panics} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *doorCollector) Collect(ch chan<- prometheus.Metric) {
	c.collectTimes(ch)
	c.collectClients(ch)
	if c.house != nil {
		c.collectHouse(ch)
	}
}

// collectTimes collects the times of all sockets of the door as one histogram.
func (c *doorCollector) collectTimes(ch chan<- prometheus.Metric) {
	var answers uint64
	var seconds float64
	within := make(map[float64]uint64)
	for _, t := range c.opened.times {
		n, s, w := t.Read()
		answers, seconds = answers+n, seconds+s
		for bound, count := range w {
			within[bound] += count
		}
	}
	ch <- prometheus.MustNewConstHistogram(c.seconds, answers, seconds, within)
}

// collectClients collects accepted and refused clients. HTTP has other means for this.
func (c *doorCollector) collectClients(ch chan<- prometheus.Metric) {
	var limited, panics int64
	if s := c.opened.conns; s != nil {
		ch <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(s.Open.Load()))
		ch <- count(c.turned, s.Refused.Load(), "crowd")
		ch <- count(c.turned, s.Evicted.Load(), "evicted")
		limited, panics = s.Limited.Load(), s.Panics.Load()
	}
	if s := c.opened.packets; s != nil {
		ch <- count(c.turned, s.Oversize.Load(), "size")
		ch <- count(c.turned, s.Crowded.Load(), "memory")
		limited, panics = limited+s.Limited.Load(), panics+s.Panics.Load()
	}
	if c.opened.conns != nil || c.opened.packets != nil {
		ch <- count(c.turned, limited, "rate")
		ch <- count(c.panics, panics)
	}
}

// collectHouse collects the clients' checks and reports.
func (c *doorCollector) collectHouse(ch chan<- prometheus.Metric) {
	checks := c.house.looks.Load()
	for class := range bulkhead.NumClasses {
		n := c.house.verdicts[class].Load()
		checks += n
		ch <- count(c.verdicts, n, class.String())
	}
	ch <- count(c.checks, checks)
	for vote := range bulkhead.NumVotes {
		ch <- count(c.reports, c.house.votes[vote].Load(), vote.String())
	}
	ch <- count(c.refused, c.house.refused.Load())
}

func count(d *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}
