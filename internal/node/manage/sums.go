package manage

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
)

// SumsFile is the file of the numbers of verdicts by door, in the data folder. sumsEvery is how
// often new ones are written.
const (
	SumsFile  = "sums.db"
	sumsEvery = 10 * time.Second
)

// Sums are the numbers of verdicts and votes, by door and time. Their methods may be called
// concurrently.
type Sums struct {
	*logbook.Sums
	doors func() map[string]logbook.Sum
	log   *slog.Logger
}

// OpenSums opens the numbers of a data folder. doors returns the numbers of each door since the
// start.
func OpenSums(dir string, doors func() map[string]logbook.Sum, log *slog.Logger) *Sums {
	return &Sums{logbook.OpenSums(filepath.Join(dir, SumsFile), log), doors, log}
}

// Note records the doors' numbers up to now.
func (s *Sums) Note() { s.Sums.Note(clock.Now(), s.doors()) }

// Keep records and writes the numbers until ctx ends.
func (s *Sums) Keep(ctx context.Context) error {
	failing := false
	for range clock.Ticks(ctx, sumsEvery) {
		s.Note()
		err := s.Write()
		if err != nil && !failing {
			s.log.Error("numbers of verdicts cannot be written", "err", err,
				"consequence", "they are written later, or lost if the node ends before")
		}
		failing = err != nil
	}
	return nil
}

// Close writes the numbers for the last time. An error is not worth a failure of the node.
func (s *Sums) Close() {
	s.Note()
	if err := s.Sums.Close(); err != nil {
		s.log.Error("numbers of verdicts cannot be written", "err", err, "consequence", "the latest numbers are lost")
	}
}

// Verdicts implements [api.Options].Verdicts.
func (s *Sums) Verdicts(since, until time.Time, slot time.Duration) admin.Verdicts {
	s.Note()
	if until.IsZero() {
		until = clock.Now()
	}
	if since.IsZero() {
		since = until.Add(-24 * time.Hour)
	}
	out := admin.Verdicts{Slot: int64(slot / time.Second), Slots: []admin.VerdictSlot{}}
	for _, slot := range s.Slots(since, until, slot) {
		shown := admin.VerdictSlot{Start: slot.Start, Doors: make(map[string]admin.DoorSum, len(slot.Doors))}
		for name, sum := range slot.Doors {
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
		Revocations: s.Votes[bulkhead.Revocation], TrapVotes: s.Traps,
	}
}
