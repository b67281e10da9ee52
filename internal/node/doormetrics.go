package node

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/dcc"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// A doorCollector is the share of the other clearinghouses' doors in /metrics.
// A door that is shut shows nothing.
type doorCollector struct {
	desc  *prometheus.Desc
	doors map[string]events // all are added before any door is served
}

// events are the counters of a door by the name of what they count.
type events map[string]*atomic.Int64

func newDoorCollector() *doorCollector {
	return &doorCollector{
		desc: prometheus.NewDesc("bulkhead_door_events_total",
			"What the doors for clients of other clearinghouses have done, by door and event; see their pages in docs/protocols.",
			[]string{"door", "event"}, nil),
		doors: make(map[string]events),
	}
}

func (c *doorCollector) add(door string, e events) { c.doors[door] = e }

// Describe implements [prometheus.Collector].
func (c *doorCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector].
func (c *doorCollector) Collect(ch chan<- prometheus.Metric) {
	for door, all := range c.doors {
		for event, n := range all {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n.Load()), door, event)
		}
	}
}

func dccEvents(s *dcc.Stats) events {
	return events{
		"nop": &s.NOPs, "query": &s.Queries, "report": &s.Reports, "retransmission": &s.Repeated, "spam": &s.Spam,
		"delete": &s.Deletes, "admin": &s.Admin, "anonymous": &s.Anonymous, "bad_password": &s.BadPassword,
		"malformed": &s.Malformed, "limited": &s.Limited, "fault": &s.Faults,
	}
}

func dccifdEvents(s *dcc.IfdStats) events {
	return events{
		"message": &s.Messages, "reported": &s.Reported, "queried": &s.Queried, "spam": &s.Spam, "white": &s.White,
		"rejected": &s.Rejected, "greylisted": &s.Greylisted, "temporary": &s.Temporary, "bulk": &s.Bulk, "broken": &s.Broken,
	}
}

func fuzzyEvents(s *fuzzy.Stats) events {
	return events{
		"check": &s.Checks, "found": &s.Found, "near": &s.Near, "write": &s.Writes, "delete": &s.Deletes,
		"retransmission": &s.Repeated, "stat": &s.Stat, "ping": &s.Ping, "refused": &s.Refused, "malformed": &s.Malformed,
		"encrypted": &s.Encrypted, "fault": &s.Faults,
	}
}

func razor2Events(s *razor2.Stats) events {
	return events{
		"check": &s.Checks, "listed": &s.Listed, "report": &s.Reports, "revoke": &s.Revokes, "login": &s.Logins,
		"bad_login": &s.BadLogins, "registered": &s.Registered, "malformed": &s.Malformed, "limited": &s.Limited, "fault": &s.Faults,
	}
}

func pyzorEvents(s *pyzor.Stats) events {
	return events{
		"ping": &s.Pings, "check": &s.Checks, "info": &s.Infos, "report": &s.Reports, "whitelist": &s.Whitelists,
		"strange": &s.Strange, "refused": &s.Refused, "unanswered": &s.Unanswered, "busy": &s.Busy, "fault": &s.Faults,
	}
}
