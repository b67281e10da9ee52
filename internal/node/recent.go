package node

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
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
	n.recent = recent.NewTable(m.Bytes-m.Bytes/deliveriesShare, time.Duration(m.Keep), clock.Now)
	n.deliveries = recent.NewDeliveries(m.Bytes/deliveriesShare, time.Duration(m.Keep), clock.Now)
	n.joining = recent.New(house, n.recent, n.showsTo)
	n.joining.Join(n.deliveries, archive{n})
	n.joining.Unjoined = n.unjoined
	return n.joining
}

// unjoined logs a vote whose delivery was not found.
func (n *core) unjoined(r *bulkhead.Report) {
	n.log.Info("a vote was not joined with its delivery, which the node did not see",
		"vote", r.Vote, "account", r.Reporter.Account, "user", r.Reporter.User,
		"follows", "it counts for the message, not for its sender or network")
}

// joins returns the number of votes by how they were joined, nil if the node joins none.
func (n *core) joins() *client.Joined {
	if n.joining == nil {
		return nil
	}
	of := func(j bulkhead.Join) uint64 { return uint64(n.joining.Stats.Joins[j].Load()) }
	return &client.Joined{MessageID: of(bulkhead.JoinedByID), Text: of(bulkhead.JoinedByText),
		Near: of(bulkhead.JoinedByNear), Unknown: of(bulkhead.NotJoined)}
}

// deliveriesShare is the part of the memory of messages that remembers the sources of deliveries.
const deliveriesShare = 4

// An archive is the history as the memory of deliveries reads it.
type archive struct{ *core }

// MessageID implements [recent.Archive].
func (a archive) MessageID(text string) [16]byte { return a.bookKey.MessageID(text) }

// Mailbox implements [recent.Archive].
func (a archive) Mailbox(address string) recent.Mailbox {
	return recent.Mailbox(a.bookKey.Mailbox(address))
}

// maxPast is how many entries of the history are read for a vote.
const maxPast = 256

// Find implements [recent.Archive].
func (a archive) Find(ctx context.Context, text bulkhead.Signature, messageID [16]byte) (all []recent.Delivery) {
	if a.mailbook == nil {
		return nil
	}
	var queries []logbook.Query
	if messageID != ([16]byte{}) {
		queries = append(queries, logbook.Query{Message: messageID, Limit: maxPast})
	}
	if text.Valid() {
		queries = append(queries, logbook.Query{Signature: &text, Limit: maxPast})
	}
	for _, q := range queries {
		page, err := a.mailbook.Search(ctx, q)
		if err != nil {
			a.log.Warn("a vote was not joined with its delivery: the history cannot be read", "err", err)
		}
		for i := range page.Entries {
			if d, ok := deliveryIn(&page.Entries[i], page.Entries[i].Signatures()); ok {
				all = append(all, d)
			}
		}
		if len(all) > 0 {
			break
		}
	}
	slices.Reverse(all) // the page begins with the latest
	return all
}

// deliveryIn returns the delivery that an entry of the history records, with the signatures of the
// entry. ok is false for a vote, for a message that was checked and not delivered, and for the
// message of a stranger.
func deliveryIn(e *logbook.Entry, sigs []bulkhead.Signature) (d recent.Delivery, ok bool) {
	if e.Count == 0 || e.Kind != logbook.Checked && e.Kind != logbook.Sighted || e.Space != "" || !recent.Whole(sigs) {
		return d, false
	}
	d = recent.Delivery{Signatures: sigs, MessageID: e.Message, Seen: e.Time()}
	for _, m := range e.Recipients {
		d.Recipients = append(d.Recipients, recent.Mailbox(m))
	}
	return d, true
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
	votes                  *prometheus.Desc
}

func newMemoryCollector(c *core) *memoryCollector {
	return &memoryCollector{
		core:    c,
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
	if c.core.recent == nil {
		return
	}
	digests, bytes := c.core.recent.Size()
	ch <- prometheus.MustNewConstMetric(c.digests, prometheus.GaugeValue, float64(digests))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(bytes))
	s := &c.core.joining.Stats
	ch <- prometheus.MustNewConstMetric(c.joined, prometheus.CounterValue, float64(s.Reports.Load()), "report")
	ch <- prometheus.MustNewConstMetric(c.joined, prometheus.CounterValue, float64(s.Checks.Load()), "check")
	for j := bulkhead.JoinedByID; j < bulkhead.NumJoins; j++ {
		ch <- prometheus.MustNewConstMetric(c.votes, prometheus.CounterValue, float64(s.Joins[j].Load()), j.String())
	}
}
