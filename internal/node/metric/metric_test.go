package metric_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
)

// TestSet collects metrics of both kinds, of which one has labels and one is left out.
func TestSet(t *testing.T) {
	var s metric.Set
	up := s.Gauge("up", "Whether it is up.")
	sent := s.Counter("sent_total", "Messages by result.", "peer", "result")
	s.Gauge("absent", "Never sent.")
	registry := prometheus.NewPedanticRegistry() // checks every value against Describe
	registry.MustRegister(s.Collector(func(ch chan<- prometheus.Metric) {
		up(ch, metric.One(true))
		sent(ch, 3, "north", "taken")
		sent(ch, 0, "north", "lost")
	}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 2 {
		t.Fatalf("%d families, want 2: %v", len(families), families)
	}
	counts, gauge := families[0].GetMetric(), families[1].GetMetric()
	if len(gauge) != 1 || gauge[0].GetGauge().GetValue() != 1 {
		t.Errorf("gauge %v", gauge)
	}
	if len(counts) != 2 || counts[1].GetCounter().GetValue() != 3 ||
		counts[1].GetLabel()[0].GetValue() != "north" || counts[1].GetLabel()[1].GetValue() != "taken" {
		t.Errorf("counter %v", counts)
	}
	if metric.One(false) != 0 {
		t.Error("off is not 0")
	}
}
