package doors

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
