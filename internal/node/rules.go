package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/calibration"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
)

// calibrated returns the engine with a record of what becomes of its decisions.
func (n *core) calibrated() bulkhead.Counter {
	n.front.calibration = calibration.New(n.engine, func(who bulkhead.Reporter) bool {
		space, ok := n.showsTo(who)
		return ok && space == ""
	}, clock.Now)
	return n.front.calibration
}

// ruleCollector returns the metrics of the rules, none on an edge.
func ruleCollector(house *calibration.House) prometheus.Collector {
	var s metric.Set
	decided := s.Counter("bulkhead_rule_decisions_total",
		"Checks by the rule of the judgement that decided them and by class.", "rule", "class")
	voted := s.Counter("bulkhead_rule_votes_total",
		"Votes of trusted voters by the rule that decided on the message, by class, and by what they say of it: "+
			"objected, confirmed or missed.", "rule", "class", "vote")
	wrong := s.Gauge("bulkhead_rule_wrong_ratio",
		"Share of a rule's decisions of 28 days that votes contradicted, and the ends of its 95 % confidence interval: "+
			"share, low or high.", "rule", "class", "bound")
	return s.Collector(func(ch chan<- prometheus.Metric) {
		if house == nil {
			return
		}
		for k, r := range house.Total() {
			class := k.Class.String()
			decided(ch, float64(r.Decided), k.Rule, class)
			voted(ch, float64(r.Objected), k.Rule, class, "objected")
			voted(ch, float64(r.Confirmed), k.Rule, class, "confirmed")
			voted(ch, float64(r.Missed), k.Rule, class, "missed")
		}
		for k, r := range house.Records(calibration.Days) {
			share, low, high := r.Wrong()
			class := k.Class.String()
			wrong(ch, share, k.Rule, class, "share")
			wrong(ch, low, k.Rule, class, "low")
			wrong(ch, high, k.Rule, class, "high")
		}
	})
}

// learnCollector returns the metrics of what a node has learnt of words and style, none for nil.
func learnCollector(e *engine.Engine) prometheus.Collector {
	var s metric.Set
	messages := s.Gauge("bulkhead_learned_messages",
		"Messages whose words and style are counted: reported or delivered.", "what")
	share := s.Gauge("bulkhead_learned_share", "Estimated share of the spam that is reported; 0: unknown.")
	bytes := s.Gauge("bulkhead_learned_bytes", "Memory of what was learnt.")
	taught := s.Gauge("bulkhead_learned_taught_words", "Words and idioms whose counts the node shares.")
	words := s.Gauge("bulkhead_learned_peer_words",
		"Words and idioms whose counts a peer shares; 0 if it is left out.", "peer")
	tried := s.Gauge("bulkhead_learned_peer_tried",
		"The latest wanted messages that were scored by the counts of one peer alone: all, and those it would condemn.",
		"peer", "what")
	return s.Collector(func(ch chan<- prometheus.Metric) {
		if e == nil {
			return
		}
		state := e.Learned()
		messages(ch, float64(state.Reported), "reported")
		messages(ch, float64(state.Delivered), "delivered")
		share(ch, state.Share)
		bytes(ch, float64(state.Bytes))
		x := e.Lessons()
		if x == nil {
			return
		}
		taught(ch, float64(x.Taught().Features))
		for _, p := range x.Class.State() {
			counted := p.Features
			if p.Condemns {
				counted = 0
			}
			words(ch, float64(counted), p.ID)
			tried(ch, float64(p.Tried), p.ID, "all")
			tried(ch, float64(p.Hits), p.ID, "condemned")
		}
	})
}
