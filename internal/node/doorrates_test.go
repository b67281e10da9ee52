package node

import (
	"math"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// TestDoorRates checks that rate and slowest answer of a door cover exactly the last minutes.
func TestDoorRates(t *testing.T) {
	var times door.Times
	read := func(faults uint64) doorCounts {
		answers, _, within := times.Read()
		return doorCounts{answers: answers, faults: faults, within: within}
	}
	var r doorRates
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	show := func() web.Door {
		d := web.Door{Name: "milter"}
		r.set(&d, now, read(3))
		return d
	}
	if d := show(); d.Rate != 0 || d.Slowest != 0 || d.Faults != 3 {
		t.Errorf("before any look: %+v", d)
	}
	times.Add(5*time.Second, 1000) // long ago
	r.note(now, map[string]doorCounts{"milter": read(0)})
	now = now.Add(50 * time.Second)
	if d := show(); d.Rate != 0 || d.Slowest != 0 || d.Answers != 1000 {
		t.Errorf("without answers: %+v", d)
	}
	times.Add(2*time.Millisecond, 98)
	times.Add(20*time.Millisecond, 2)
	if d := show(); d.Rate != 2 || d.Slowest != 0.03 || d.Answers != 1100 {
		t.Errorf("100 answers in 50 s: %+v", d)
	}
	times.Add(2*time.Millisecond, 900)
	if d := show(); d.Rate != 20 || d.Slowest != 0.003 {
		t.Errorf("1000 answers in 50 s: %+v", d)
	}
	for range doorLooks {
		r.note(now, map[string]doorCounts{"milter": read(0)})
	}
	now = now.Add(time.Second)
	times.Add(time.Minute, 1)
	if d := show(); d.Rate != 1 || !math.IsInf(d.Slowest, 1) {
		t.Errorf("one slow answer after a while: %+v", d)
	}
}

// TestWeights checks that accounts' weights are recorded when they change, within bounds, and
// survive a restart; removed accounts are dropped.
func TestWeights(t *testing.T) {
	dir := t.TempDir()
	var w weights
	if err := w.open(dir); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	note := func(worth map[string]float64) {
		t.Helper()
		now = now.Add(time.Hour)
		if err := w.note(now, worth); err != nil {
			t.Fatal(err)
		}
	}
	note(map[string]float64{"ann": 0.5, "bob": 0, "eve": 0.1})
	note(map[string]float64{"ann": 0.501, "bob": 0, "eve": 0.1})
	note(map[string]float64{"ann": 0.75, "bob": 0.2})
	var again weights
	if err := again.open(dir); err != nil {
		t.Fatal(err)
	}
	all := again.all()
	if len(all) != 2 || all[0].Account != "ann" || len(all[0].Samples) != 2 || all[0].Samples[1].Worth != 0.75 ||
		all[0].Samples[1].Time != now.Unix() ||
		all[1].Account != "bob" || len(all[1].Samples) != 1 {
		t.Errorf("weights %+v", all)
	}
	for i := range 3 * maxWeights {
		note(map[string]float64{"ann": float64(i%2) / 2})
	}
	if all := w.all(); len(all) != 1 || len(all[0].Samples) != maxWeights ||
		all[0].Samples[maxWeights-1].Time != now.Unix() {
		t.Errorf("weights %+v", all)
	}
	many := make(map[string]float64)
	for i := range 2 * maxWeighed {
		many[string(rune('a'+i%26))+time.Duration(i).String()] = 1
	}
	note(many)
	if n := len(w.all()); n != maxWeighed {
		t.Errorf("%d accounts are remembered, want %d", n, maxWeighed)
	}
}
