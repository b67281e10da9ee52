package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/calibration"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// calibrated returns the engine with a record of what becomes of its decisions.
func (n *core) calibrated() bulkhead.Counter {
	n.front.calibration = calibration.New(n.engine, func(who bulkhead.Reporter) bool {
		space, ok := n.showsTo(who)
		return ok && space == ""
	}, clock.Now)
	return n.front.calibration
}

// A ruleCollector collects the metrics of the rules.
type ruleCollector struct {
	house                 *calibration.House
	decided, voted, wrong *prometheus.Desc
}

func newRuleCollector(house *calibration.House) *ruleCollector {
	return &ruleCollector{
		house: house,
		decided: prometheus.NewDesc("bulkhead_rule_decisions_total",
			"Checks by the rule of the judgement that decided them and by class.", []string{"rule", "class"}, nil),
		voted: prometheus.NewDesc("bulkhead_rule_votes_total",
			"Votes of trusted voters by the rule that decided on the message, by class, and by what they say of it: "+
				"objected, confirmed or missed.",
			[]string{"rule", "class", "vote"}, nil),
		wrong: prometheus.NewDesc("bulkhead_rule_wrong_ratio",
			"Share of a rule's decisions of 28 days that votes contradicted, and the ends of its 95 % confidence interval: "+
				"share, low or high.",
			[]string{"rule", "class", "bound"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *ruleCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.decided
	ch <- c.voted
	ch <- c.wrong
}

// Collect implements [prometheus.Collector].
func (c *ruleCollector) Collect(ch chan<- prometheus.Metric) {
	if c.house == nil {
		return
	}
	for k, r := range c.house.Total() {
		class := k.Class.String()
		ch <- prometheus.MustNewConstMetric(c.decided, prometheus.CounterValue, float64(r.Decided), k.Rule, class)
		for vote, n := range map[string]uint64{"objected": r.Objected, "confirmed": r.Confirmed, "missed": r.Missed} {
			ch <- prometheus.MustNewConstMetric(c.voted, prometheus.CounterValue, float64(n), k.Rule, class, vote)
		}
	}
	for k, r := range c.house.Records(calibration.Days) {
		share, low, high := r.Wrong()
		for bound, x := range map[string]float64{"share": share, "low": low, "high": high} {
			ch <- prometheus.MustNewConstMetric(c.wrong, prometheus.GaugeValue, x, k.Rule, k.Class.String(), bound)
		}
	}
}

// A learnCollector collects the metrics of what a node has learnt of words and style.
type learnCollector struct {
	engine                 *engine.Engine
	messages, share, bytes *prometheus.Desc

	taught, words, tried *prometheus.Desc
}

func newLearnCollector(e *engine.Engine) *learnCollector {
	return &learnCollector{
		engine: e,
		messages: prometheus.NewDesc("bulkhead_learned_messages",
			"Messages whose words and style are counted: reported or delivered.", []string{"what"}, nil),
		share: prometheus.NewDesc("bulkhead_learned_share", "Estimated share of the spam that is reported; 0: unknown.", nil,
			nil),
		bytes: prometheus.NewDesc("bulkhead_learned_bytes", "Memory of what was learnt.", nil, nil),
		taught: prometheus.NewDesc("bulkhead_learned_taught_words",
			"Words and idioms whose counts the node shares.", nil, nil),
		words: prometheus.NewDesc("bulkhead_learned_peer_words",
			"Words and idioms whose counts a peer shares; 0 if it is left out.", []string{"peer"}, nil),
		tried: prometheus.NewDesc("bulkhead_learned_peer_tried",
			"The latest wanted messages that were scored by the counts of one peer alone: all, and those it would condemn.",
			[]string{"peer", "what"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *learnCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.messages
	ch <- c.share
	ch <- c.bytes
	ch <- c.taught
	ch <- c.words
	ch <- c.tried
}

// Collect implements [prometheus.Collector].
func (c *learnCollector) Collect(ch chan<- prometheus.Metric) {
	if c.engine == nil {
		return
	}
	s := c.engine.Learned()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.messages, float64(s.Reported), "reported")
	gauge(c.messages, float64(s.Delivered), "delivered")
	gauge(c.share, s.Share)
	gauge(c.bytes, float64(s.Bytes))
	x := c.engine.Lessons()
	if x == nil {
		return
	}
	gauge(c.taught, float64(x.Taught().Features))
	for _, p := range x.Class.State() {
		words := p.Features
		if p.Condemns {
			words = 0
		}
		gauge(c.words, float64(words), p.ID)
		gauge(c.tried, float64(p.Tried), p.ID, "all")
		gauge(c.tried, float64(p.Hits), p.ID, "condemned")
	}
}
