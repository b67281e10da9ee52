package node

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

// TestHistory compares the slots with the sums of a plain list of what was counted when,
// with gaps of any length.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		type event struct {
			at time.Time
			n  uint64
		}
		var all []event
		var sums verdicts
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, 9 * time.Minute, time.Hour, 23 * time.Hour, 20 * 24 * time.Hour}).Draw(t, "gap"))
			n := rapid.Uint64Range(0, 9).Draw(t, "n")
			sums[bulkhead.ClassSpam] += n
			h.add(now, sums)
			all = append(all, event{now, n})
		}
		day, month := h.until(now)
		for _, s := range []struct {
			slots  int
			length time.Duration
			got    int
		}{{24 * 6, 10 * time.Minute, len(day)}, {30, 24 * time.Hour, len(month)}} {
			if s.got != s.slots {
				t.Fatalf("%d slots, want %d", s.got, s.slots)
			}
		}
		for _, slots := range []struct {
			of     string
			length time.Duration
		}{{"day", 10 * time.Minute}, {"month", 24 * time.Hour}} {
			got := day
			if slots.of == "month" {
				got = month
			}
			for i, slot := range got {
				if want := now.Truncate(slots.length).Add(-time.Duration(len(got)-1-i) * slots.length); !slot.Start.Equal(want) {
					t.Fatalf("%s: slot %d starts %v, want %v", slots.of, i, slot.Start, want)
				}
				var want uint64
				for _, e := range all {
					if e.at.Truncate(slots.length).Equal(slot.Start) {
						want += e.n
					}
				}
				if slot.Verdicts[bulkhead.ClassSpam] != want {
					t.Fatalf("%s: %d in the slot of %v, want %d", slots.of, slot.Verdicts[bulkhead.ClassSpam], slot.Start, want)
				}
			}
		}
	})
}
