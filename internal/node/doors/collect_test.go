package doors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// answering takes every report, and answers checks with the class that the threshold stands for.
type answering struct{ bulkhead.Counter }

func (answering) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	return bulkhead.Verdict{Class: bulkhead.Class(q.Threshold)}, nil
}

func (answering) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{}, nil
}

func (answering) Look(context.Context, []bulkhead.Signature, []bulkhead.Look, bulkhead.Aspect) error {
	return nil
}

func (answering) Count(context.Context, []bulkhead.Signature, []uint32) error { return nil }

// measured returns the metrics of a door as Prometheus reads them, without its own name.
func measured(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := strings.TrimPrefix(f.GetName(), "bulkhead_door_")
			for _, l := range m.GetLabel() {
				if l.GetName() != "door" {
					text += " " + l.GetValue()
				}
			}
			if h := m.GetHistogram(); h != nil {
				all = append(all, number(text+" count", float64(h.GetSampleCount())), number(text+" sum", h.GetSampleSum()))
				for _, b := range h.GetBucket() {
					if b.GetUpperBound() == 1 {
						all = append(all, number(text+" within 1", float64(b.GetCumulativeCount())))
					}
				}
				continue
			}
			all = append(all, number(text, m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	return all
}

func number(text string, v float64) string {
	return text + " " + time.Duration(v*float64(time.Second)).String()
}

// TestCollected compares the metrics of doors with what their clients did. The numbers are written as seconds.
func TestCollected(t *testing.T) {
	house, ctx := &countedHouse{Counter: answering{}}, t.Context()
	sigs := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.DCCBody, []byte{7})}
	var errs []error
	for class := range bulkhead.NumClasses {
		for range class + 1 {
			_, err := house.Check(ctx, bulkhead.Query{Threshold: uint32(class)})
			errs = append(errs, err)
		}
	}
	batch := []bulkhead.Query{{Threshold: 1}, {Threshold: 1}}
	errs = append(errs, house.CheckBatch(ctx, batch, make([]bulkhead.Verdict, 2)))
	for vote := range bulkhead.NumVotes {
		for _, trap := range []bool{true, false} {
			_, err := house.Report(ctx, bulkhead.Report{Vote: vote, Trap: trap})
			errs = append(errs, err)
		}
	}
	_, err := house.CountAndReport(ctx, sigs, []uint32{1}, bulkhead.Report{Vote: bulkhead.Ham})
	errs = append(errs, err, house.Look(ctx, sigs, make([]bulkhead.Look, 1), bulkhead.Counts))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	house.refused.Add(9)
	sum := house.sum()
	if sum.Looks != 1 || sum.Traps != 1 || sum.Votes != [bulkhead.NumVotes]uint64{2, 2, 3, 2} ||
		sum.Verdicts != [bulkhead.NumClasses]uint64{1, 4, 3, 4, 5} {
		t.Errorf("the sums are %+v", sum)
	}

	var conns door.ConnStats
	var packets door.PacketStats
	conns.Open.Add(1)
	conns.Refused.Add(2)
	conns.Evicted.Add(3)
	conns.Limited.Add(4)
	conns.Panics.Add(5)
	packets.Oversize.Add(6)
	packets.Crowded.Add(7)
	packets.Limited.Add(10)
	packets.Panics.Add(20)
	conns.Times.Add(2*time.Second, 3)
	packets.Times.Add(time.Second/2, 4)
	ofHouse := []string{"checks_total 18s", "refused_total 9s", "reports_total ham 3s", "reports_total revoke 2s",
		"reports_total sighting 2s", "reports_total spam 2s", "verdicts_total bulk 3s", "verdicts_total good 4s",
		"verdicts_total spam 5s", "verdicts_total suspected 4s", "verdicts_total unknown 1s"}
	ofConns := []string{"connections 1s", "turned_away_total crowd 2s", "turned_away_total evicted 3s"}
	ofPackets := []string{"turned_away_total memory 7s", "turned_away_total size 6s"}
	both := []*door.Times{&conns.Times, &packets.Times}
	for what, tt := range map[string]struct {
		o     opened
		house *countedHouse
		want  []string
	}{
		"everything": {opened{conns: &conns, packets: &packets, times: both}, house,
			slices.Concat(ofHouse, ofConns, ofPackets, []string{"answer_seconds count 7s", "answer_seconds sum 8s",
				"answer_seconds within 1 4s", "panics_total 25s", "turned_away_total rate 14s"})},
		"connections": {opened{conns: &conns, times: both[:1]}, nil, slices.Concat(ofConns, []string{
			"answer_seconds count 3s", "answer_seconds sum 6s", "answer_seconds within 1 0s", "panics_total 5s",
			"turned_away_total rate 4s"})},
		"datagrams": {opened{packets: &packets, times: both[1:]}, nil, slices.Concat(ofPackets, []string{
			"answer_seconds count 4s", "answer_seconds sum 2s", "answer_seconds within 1 4s", "panics_total 20s",
			"turned_away_total rate 10s"})},
		"HTTP": {opened{}, nil, []string{"answer_seconds count 0s", "answer_seconds sum 0s"}},
	} {
		slices.Sort(tt.want)
		got := measured(t, newDoorCollector("d", &tt.o, tt.house))
		if !slices.Equal(slices.Sorted(slices.Values(got)), tt.want) {
			t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}

	s := &Set{counted: map[string]*countedHouse{"all": house}, opened: []*opened{
		{key: "all", conns: &conns, packets: &packets, times: both}, {key: "none"}}}
	counts := s.counts()
	if c := counts["all"]; c.answers != 7 || c.faults != 9+25 || c.within[1] != 4 || counts["none"].faults != 0 ||
		counts["none"].answers != 0 || len(counts) != 2 {
		t.Errorf("the counters are %+v", counts)
	}
	if page := s.Page(time.Now()); len(page) != 2 || page[0].Faults != 34 || page[0].Answers != 7 || page[1].Answers != 0 {
		t.Errorf("the page shows %+v", page)
	}
}

// TestSlowest checks the share of answers within a bound that the pages show.
func TestSlowest(t *testing.T) {
	within := func(one, two, ten uint64) map[float64]uint64 { return map[float64]uint64{1: one, 2: two, 10: ten} }
	before := doorCounts{answers: 100, within: within(100, 100, 100)}
	for _, tt := range []struct {
		now  doorCounts
		want float64
	}{
		{before, 0},
		{doorCounts{answers: 101, within: within(101, 101, 101)}, 1},
		{doorCounts{answers: 200, within: within(199, 199, 200)}, 1},
		{doorCounts{answers: 200, within: within(198, 199, 200)}, 2},
		{doorCounts{answers: 200, within: within(100, 198, 199)}, 10},
	} {
		if got := percentile(before, tt.now, 0.99); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.now, got, tt.want)
		}
	}
	// The rate covers the time since the oldest of the last looks.
	var r doorRates
	now := time.Unix(1e9, 0)
	for i := range doorLooks + 2 {
		r.note(now.Add(time.Duration(i)*time.Minute), map[string]doorCounts{"d": {answers: uint64(100 * i)}})
	}
	d := web.Door{Name: "d"}
	r.set(&d, now.Add(2*time.Minute), doorCounts{answers: 1000})
	if len(r.looks) != doorLooks || d.Rate != 0 || d.Answers != 1000 {
		t.Errorf("%d looks, and at the time of the oldest a rate of %v", len(r.looks), d.Rate)
	}
	if r.set(&d, now.Add(2*time.Minute+100*time.Second), doorCounts{answers: 1000}); d.Rate != 8 {
		t.Errorf("a rate of %v, want 8: 800 answers in 100 seconds", d.Rate)
	}
}
