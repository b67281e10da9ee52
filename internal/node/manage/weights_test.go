package manage

import (
	"testing"
	"time"
)

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
