package node

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// verdicts are numbers of verdicts by class.
type verdicts = [bulkhead.NumClasses]uint64

// A history is what the node's verdicts were over time, since it started: in memory
// alone, so that no check waits for it.
type history struct {
	mu         sync.Mutex
	last       verdicts // when it was last looked at
	day, month series
}

// A series is the last slots of a stretch of time, in a ring.
type series struct {
	length time.Duration // of a slot
	slots  []web.Slot    // the slot of time t is at t/length, modulo their number
}

func newHistory() *history {
	return &history{
		day:   series{10 * time.Minute, make([]web.Slot, 24*6)},
		month: series{24 * time.Hour, make([]web.Slot, 30)},
	}
}

// add notes the sums that the engine has at a time.
func (h *history) add(now time.Time, sums verdicts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n verdicts
	for c := range sums {
		n[c] = sums[c] - h.last[c]
	}
	h.last = sums
	h.day.add(now, n)
	h.month.add(now, n)
}

func (s *series) add(now time.Time, n verdicts) {
	start := now.Truncate(s.length)
	slot := &s.slots[s.place(start)]
	if !slot.Start.Equal(start) {
		*slot = web.Slot{Start: start}
	}
	for c := range n {
		slot.Verdicts[c] += n[c]
	}
}

// place is where the slot of a time is.
func (s *series) place(t time.Time) int {
	return int(t.Unix()/int64(s.length/time.Second)) % len(s.slots)
}

// until returns the slots up to a time, the oldest first. Of a stretch in which the node
// did not run there is nothing.
func (s *series) until(now time.Time) []web.Slot {
	out := make([]web.Slot, len(s.slots))
	for i := range out {
		start := now.Truncate(s.length).Add(-time.Duration(len(out)-1-i) * s.length)
		out[i].Start = start
		if slot := &s.slots[s.place(start)]; slot.Start.Equal(start) {
			out[i] = *slot
		}
	}
	return out
}

// until returns the slots of the last day and month.
func (h *history) until(now time.Time) (day, month []web.Slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.day.until(now), h.month.until(now)
}

// historyEvery is how often verdicts are noted while nobody looks.
const historyEvery = time.Minute

// noteVerdicts notes the verdicts until ctx ends.
func (n *core) noteVerdicts(ctx context.Context) error {
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			n.history.add(clock.Now(), n.engine.Verdicts())
		}
	}
}
