package dcc

import (
	"context"
	"fmt"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestDeleteAges: deleted counts age out before their deletion does. Later reports still count from
// 0, and claims of spam are many.
func TestDeleteAges(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	const keep = 4
	house := prototest.NewTally(keep)
	s := goldenServer()
	s.Clearinghouse = house
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
	house.Age() // the deletion, with the reports of its generation
	got, err = c.Query(ctx, sums)
	wantTotals(t, "when the deletion has gone", got, err, Total{Many, Many})
	if err := admin.Delete(ctx, sums[0]); err != nil {
		t.Fatal(err)
	}
	got, err = c.Query(ctx, sums)
	wantTotals(t, "deleted again", got, err, Total{0, 0})
	report("after it", 2, false, Total{2, 0})
}

// deletion returns the counters that a DELETE of a checksum raises.
func deletion(c *Checksum) []bulkhead.Signature {
	return []bulkhead.Signature{
		targets.of(c, ledger.Part{Kind: ledger.Taken}), claims.of(c, ledger.Part{Kind: ledger.Taken}),
		targets.of(c, ledger.Part{Kind: ledger.Deletes}),
	}
}

// report counts checksums for n targets, and as spam if claimed.
func (b *book) report(ctx context.Context, sums []Checksum, n uint32, spam bool) error {
	up, err := b.raising(ctx, sums, n, spam)
	if err != nil {
		return err
	}
	return b.house.Count(ctx, up.Sigs, up.N)
}

// TestDeleteOften: a DELETE that two servers performed at once, unaware of each other, does not
// hide later reports.
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
	for _, sig := range deletion(&sums[0]) {
		house.Add(sig, house.Sightings(sig))
	}
	if got := count(2, false); got != 2 {
		t.Errorf("total %d after a report for 2, want 2", got)
	}
	if got := count(2, true); got != Many {
		t.Errorf("total %d after a claim of spam, want many", got)
	}
}

// TestDeletedByError: a deletion that is a false positive of the filter takes nothing away.
func TestDeletedByError(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	for _, shown := range deletion(&sums[0]) {
		house := prototest.NewTally(2)
		b := newBook(house, nil)
		b.deletes.Set()
		house.Add(shown, 3)
		for _, step := range []struct {
			spam bool
			want uint32
		}{{false, 1}, {true, Many}} {
			if err := b.report(ctx, sums, 1, step.spam); err != nil {
				t.Fatal(err)
			}
			got, err := b.tallies(ctx, new(asking), sums)
			if err != nil || got[0].total() != step.want {
				t.Errorf("counter %v: tally %+v, %v; want %d", shown, got, err, step.want)
			}
		}
	}
}

// TestDeleteAgain: of several DELETEs the last one counts, even after earlier ones have aged out.
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
	for range ledger.MaxEpochs + 1 {
		if err := b.delete(ctx, sums[0], bulkhead.Reporter{}); err != nil {
			if err != errDeletedOften {
				t.Error(err)
			}
			return
		}
	}
	t.Error("DELETEs beyond the number that can be told apart are not refused")
}

// TestDeletedWhileADeletionAges: reports between two DELETEs stay deleted when the first DELETE is
// forgotten, and with it the mark that anything was taken away.
func TestDeletedWhileADeletionAges(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)[1:2]
	house := prototest.NewTally(3)
	b := newBook(house, nil)
	step := func(what string, do func() error, want uint32) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if got, err := b.tallies(ctx, new(asking), sums); err != nil || got[0].total() != want {
			t.Errorf("%s: tally %+v, %v; want a total of %d", what, got, err, want)
		}
	}
	report := func(n uint32, spam bool) func() error {
		return func() error { return b.report(ctx, sums, n, spam) }
	}
	remove := func() error { return b.delete(ctx, sums[0], bulkhead.Reporter{}) }
	age := func() error { house.Age(); return nil }
	step("old spam", report(1000, true), Many)
	step("a generation later", age, Many)
	step("deleted", remove, 0)
	step("the old spam is forgotten", age, 0)
	step("forgotten", age, 0)
	step("reported", report(10, true), Many)
	step("deleted again", remove, 0)
	step("the first DELETE is forgotten", age, 0)
	step("reported anew", report(2, false), 2)
	step("the second one is forgotten, with what it took", age, 2)
}

// TestTotal: a DELETE overrules the listing by another front door, even if only its claims or its
// targets are left. A full counter stays full.
func TestTotal(t *testing.T) {
	taken := ledger.Balance{Added: 5, Taken: 5, Deletes: 1}
	for _, tt := range []struct {
		what string
		t    tally
		want uint32
	}{
		{"listed", tally{targets: ledger.Balance{Added: 5}, judged: bulkhead.JudgedSpam}, Many},
		{"targets deleted", tally{targets: taken, judged: bulkhead.JudgedSpam}, 0},
		{"claims deleted", tally{targets: ledger.Balance{Added: 5}, claims: taken, judged: bulkhead.JudgedSpam}, 5},
		{"revoked", tally{targets: ledger.Balance{Added: 5}, judged: bulkhead.Revoked}, 5},
		{"one claim", tally{claims: ledger.Balance{Added: claimWeight}}, Many},
		{"less than a claim", tally{claims: ledger.Balance{Added: claimWeight - 1}}, 0},
		{"a deletion by error", tally{claims: ledger.Balance{Added: claimWeight, Taken: claimWeight / 2}}, Many},
		{"a claim deleted", tally{claims: ledger.Balance{Added: claimWeight, Taken: claimWeight/2 + 1}}, 0},
		{"full", tally{targets: ledger.Balance{Added: bulkhead.Many}}.before(20, false), Many},
		{"full of claims", tally{claims: ledger.Balance{Added: bulkhead.Many}}.before(20, true), Many},
		{"before the first report", tally{targets: ledger.Balance{Added: 7}, judged: bulkhead.JudgedSpam}.before(7, true), 0},
		{"before a report", tally{targets: ledger.Balance{Added: 7}}.before(3, false), 4},
	} {
		if got := tt.t.total(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.what, got, tt.want)
		}
	}
}

// TestCountersDiffer: no two counters of a checksum are the same.
func TestCountersDiffer(t *testing.T) {
	sum := &goldenChecksums(t)[1]
	seen := map[bulkhead.Signature]string{}
	add := func(what string, sig bulkhead.Signature) {
		if seen[sig] != "" {
			t.Errorf("%s and %s are one counter", what, seen[sig])
		}
		seen[sig] = what
	}
	add("deletes", targets.of(sum, ledger.Part{Kind: ledger.Deletes}))
	for _, k := range []account{targets, claims, claimsAgain} {
		for _, kind := range []ledger.Kind{ledger.Added, ledger.Taken} {
			add(fmt.Sprint(k, kind), k.of(sum, ledger.Part{Kind: kind}))
		}
		for epoch := range uint8(24) {
			for _, kind := range []ledger.Kind{ledger.AddedSince, ledger.TakenSince} {
				add(fmt.Sprint(k, kind, epoch), k.of(sum, ledger.Part{Kind: kind, Epoch: epoch}))
			}
		}
	}
}
