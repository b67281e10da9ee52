package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/web"
)

// sumsFile is the file of the numbers of verdicts by door, in the data folder. sumsEvery is how
// often new ones are written.
const (
	sumsFile  = "sums.db"
	sumsEvery = 10 * time.Second
)

// openSums opens the numbers of verdicts, whether or not the node keeps a history of mail.
func (n *Node) openSums(st *stage) {
	n.sums = logbook.OpenSums(filepath.Join(n.dir, sumsFile), n.log)
	st.tasks = append(st.tasks, task{name: "numbers of verdicts", run: n.keepSums})
}

// noteSums records the doors' numbers up to now.
func (n *core) noteSums() {
	counted := make(map[string]logbook.Sum, len(n.counted))
	for name, house := range n.counted {
		counted[name] = house.sum()
	}
	n.sums.Note(clock.Now(), counted)
}

// sum returns the checks and reports of the door's clients since the start.
func (h *countedHouse) sum() (s logbook.Sum) {
	for c := range s.Verdicts {
		s.Verdicts[c] = uint64(h.verdicts[c].Load())
	}
	s.Looks = uint64(h.looks.Load())
	for v := range s.Votes {
		s.Votes[v] = uint64(h.votes[v].Load())
	}
	return s
}

// keepSums records and writes the numbers until ctx ends.
func (n *core) keepSums(ctx context.Context) error {
	tick := time.NewTicker(sumsEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			n.noteSums()
			err := n.sums.Write()
			if err != nil && !failing {
				n.log.Error("the numbers of verdicts cannot be written down", "err", err)
			}
			failing = err != nil
		}
	}
}

// closeSums writes the numbers for the last time. An error is not worth a failure of the node.
func (n *core) closeSums() {
	n.noteSums()
	if err := n.sums.Close(); err != nil {
		n.log.Error("the latest numbers of verdicts are lost: they cannot be written down", "err", err)
	}
}

// verdicts implements [api.Options].Verdicts.
func (n *core) verdicts(since, until time.Time, slot time.Duration) admin.Verdicts {
	n.noteSums()
	if until.IsZero() {
		until = clock.Now()
	}
	if since.IsZero() {
		since = until.Add(-24 * time.Hour)
	}
	out := admin.Verdicts{Slot: int64(slot / time.Second), Slots: []admin.VerdictSlot{}}
	for _, s := range n.sums.Slots(since, until, slot) {
		shown := admin.VerdictSlot{Start: s.Start, Doors: make(map[string]admin.DoorSum, len(s.Doors))}
		for name, sum := range s.Doors {
			shown.Doors[name] = doorSum(&sum)
		}
		out.Slots = append(out.Slots, shown)
	}
	return out
}

func doorSum(s *logbook.Sum) admin.DoorSum {
	return admin.DoorSum{
		Spam: s.Verdicts[bulkhead.ClassSpam], Suspected: s.Verdicts[bulkhead.ClassSuspected],
		Bulk: s.Verdicts[bulkhead.ClassBulk],
		Good: s.Verdicts[bulkhead.ClassGood], Unknown: s.Verdicts[bulkhead.ClassUnknown], Looks: s.Looks,
		Sightings: s.Votes[bulkhead.Sighting], SpamVotes: s.Votes[bulkhead.Spam], HamVotes: s.Votes[bulkhead.Ham],
		Revocations: s.Votes[bulkhead.Revocation],
	}
}

// shownSlots returns the slots of a chart. The last one contains now.
func (n *core) shownSlots(now time.Time, slots int, length time.Duration) []web.Slot {
	first := now.UTC().Truncate(length).Add(-time.Duration(slots-1) * length)
	out := make([]web.Slot, slots)
	for i := range out {
		out[i].Start = first.Add(time.Duration(i) * length)
	}
	for _, s := range n.sums.Slots(first, out[slots-1].Start.Add(length), length) {
		slot := &out[s.Start.Sub(first)/length]
		slot.Doors = make(map[string][bulkhead.NumClasses]uint64, len(s.Doors))
		for name, sum := range s.Doors {
			slot.Doors[name] = sum.Verdicts
			for c, k := range sum.Verdicts {
				slot.Verdicts[c] += k
			}
		}
	}
	return out
}
