package dcc

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/prototest"
)

// TestDeleteAges: what was deleted ages before its deletion does. Reports that
// come later count from 0 all the same, and claims of spam are many.
func TestDeleteAges(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	const keep = 4
	house := prototest.NewTally(keep)
	s := goldenServer()
	s.House = house
	address := serve(t, s)
	c, admin := dial(t, address, goldenClient, goldenPasword), dial(t, address, 101, "serverpass")
	report := func(what string, targets uint32, spam bool, want Total) {
		t.Helper()
		got, err := c.Report(ctx, targets, spam, sums)
		wantTotals(t, what, got, err, want)
	}
	report("spam", 1000, true, Total{Many, 0})
	house.Age()
	report("another generation", 500, false, Total{Many, Many})
	house.Age()
	if err := admin.Delete(ctx, sums[0]); err != nil {
		t.Fatal(err)
	}
	report("after the DELETE", 3, false, Total{3, 0})
	house.Age()
	report("while all is there", 1, false, Total{4, 3})
	house.Age()
	report("when the first generation has gone", 2, false, Total{6, 4})
	got, err := c.Query(ctx, sums)
	wantTotals(t, "query", got, err, Total{6, 6})
	house.Age()
	report("when both have", 1, false, Total{7, 6})
	report("spam again", 1, true, Total{Many, 7})
	got, err = c.Query(ctx, sums)
	wantTotals(t, "query of spam", got, err, Total{Many, Many})
	house.Age() // the deletion, with what came in its generation
	got, err = c.Query(ctx, sums)
	wantTotals(t, "when the deletion has gone", got, err, Total{Many, Many})
	if err := admin.Delete(ctx, sums[0]); err != nil {
		t.Fatal(err)
	}
	got, err = c.Query(ctx, sums)
	wantTotals(t, "deleted again", got, err, Total{0, 0})
	report("after it", 2, false, Total{2, 0})
}

// TestDeleteOften: a DELETE that two servers did at once, each not knowing of
// the other, does not hide what comes later.
func TestDeleteOften(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	house := prototest.NewTally(2)
	b := newBook(house, nil)
	count := func(n uint32, spam bool) (total uint32) {
		t.Helper()
		if err := b.report(ctx, sums, n, spam); err != nil {
			t.Fatal(err)
		}
		got, err := b.tallies(ctx, new(asking), sums)
		if err != nil {
			t.Fatal(err)
		}
		return got[0].total()
	}
	count(100, true)
	if err := b.delete(ctx, sums[0], bulkhead.Reporter{}); err != nil {
		t.Fatal(err)
	}
	for _, twice := range []byte{deletedCounter, deletedClaimsCounter, epochsCounter} {
		sig := counterOf(&sums[0], twice)
		house.Add(sig, house.Sightings(sig))
	}
	if got := count(2, false); got != 2 {
		t.Errorf("total %d after a report for 2, want 2", got)
	}
	if got := count(2, true); got != Many {
		t.Errorf("total %d after a claim of spam, want many", got)
	}
}

// TestDeletedByError: what the filter shows by error of a deletion takes nothing
// away.
func TestDeletedByError(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	for _, shown := range []byte{deletedCounter, deletedClaimsCounter, epochsCounter} {
		house := prototest.NewTally(2)
		b := newBook(house, nil)
		b.deletes.Store(true)
		house.Add(counterOf(&sums[0], shown), 3)
		for _, step := range []struct {
			spam bool
			want uint32
		}{{false, 1}, {true, Many}} {
			if err := b.report(ctx, sums, 1, step.spam); err != nil {
				t.Fatal(err)
			}
			got, err := b.tallies(ctx, new(asking), sums)
			if err != nil || got[0].total() != step.want {
				t.Errorf("counter %c: tally %+v, %v; want %d", shown, got, err, step.want)
			}
		}
	}
}

// TestDeleteAgain: of several DELETEs the last one counts, also when earlier ones
// have aged out.
func TestDeleteAgain(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	const keep = 6
	house := prototest.NewTally(keep)
	b := newBook(house, nil)
	want := uint32(0) // reported since the last DELETE
	for generation := range 3 * keep {
		if err := b.report(ctx, sums, 10, false); err != nil {
			t.Fatal(err)
		}
		want += 10
		if generation%3 == 2 {
			if err := b.delete(ctx, sums[0], bulkhead.Reporter{}); err != nil {
				t.Fatal(err)
			}
			want = 0
		}
		got, err := b.tallies(ctx, new(asking), sums)
		if err != nil || got[0].total() != want {
			t.Errorf("generation %d: tally %+v, %v; want a total of %d", generation, got, err, want)
		}
		house.Age()
	}
	for range maxEpochs + 1 {
		if err := b.delete(ctx, sums[0], bulkhead.Reporter{}); err != nil {
			if err != errDeletedOften {
				t.Error(err)
			}
			return
		}
	}
	t.Error("DELETEs beyond the number that can be told apart are not refused")
}
