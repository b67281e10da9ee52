package dcc

import (
	"testing"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// TestOtherRules checks that the total of Fuz1 is the larger one of both versions of its rules, by which clients of
// different releases count the same message. Other totals stay as they are.
func TestOtherRules(t *testing.T) {
	for _, tt := range []struct{ body, fuz1, other, want uint32 }{{5, 3, 40, 40}, {5, 60, 40, 60}, {90, 3, 0, 3}} {
		m := &mailing{sums: []digests.Sum{{Type: digests.TypeBody, Sum: [16]byte{1}}, {Type: digests.TypeFuz1,
			Sum: [16]byte{2}}}, other: []digests.Sum{{Type: digests.TypeFuz1, Sum: [16]byte{3}, Other: true}}}
		var tallies []tally
		for _, n := range []uint32{tt.body, tt.fuz1, tt.other} {
			tallies = append(tallies, tally{targets: ledger.Balance{Added: n}})
		}
		s := &Ifd{book: newBook(nil, []digests.Type{digests.TypeBody, digests.TypeFuz1})}
		if kept := s.kept(m); len(kept) != len(tallies) {
			t.Fatalf("%d checksums are counted, want %d", len(kept), len(tallies))
		}
		s.showTotals(m, tallies, false)
		got := m.metrics.sums
		if len(got) != 2 || got[0].total != (Total{tt.body, tt.body}) || got[1].total != (Total{tt.want, tt.want}) {
			t.Errorf("%d copies by these rules and %d by others: %+v, want %d", tt.fuz1, tt.other, got, tt.want)
		}
	}
}
