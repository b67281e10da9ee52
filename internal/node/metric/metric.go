// Package metric makes collectors of metrics whose values are read together.
package metric

import "github.com/prometheus/client_golang/prometheus"

// A Set is a group of metrics whose values are read together. The zero value has none.
type Set struct{ descs []*prometheus.Desc }

// A Metric sends a value of one metric, with the values of its labels in their order.
type Metric func(ch chan<- prometheus.Metric, value float64, labels ...string)

// Gauge adds a gauge to s.
func (s *Set) Gauge(name, help string, labels ...string) Metric {
	return s.add(prometheus.GaugeValue, name, help, labels)
}

// Counter adds a counter to s.
func (s *Set) Counter(name, help string, labels ...string) Metric {
	return s.add(prometheus.CounterValue, name, help, labels)
}

func (s *Set) add(kind prometheus.ValueType, name, help string, labels []string) Metric {
	desc := prometheus.NewDesc(name, help, labels, nil)
	s.descs = append(s.descs, desc)
	return func(ch chan<- prometheus.Metric, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
}

// Collector returns a collector of s. read sends the present values, and may leave metrics out. It may be
// called concurrently.
func (s *Set) Collector(read func(ch chan<- prometheus.Metric)) prometheus.Collector {
	return collector{s.descs, read}
}

// One returns the value of a metric that is 1 or 0.
func One(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

type collector struct {
	descs []*prometheus.Desc
	read  func(ch chan<- prometheus.Metric)
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) { c.read(ch) }
