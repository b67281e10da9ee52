package dcc

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestOwnQuestionsAreNoChecks: the look-ups that follow the deletions of other nodes, or that a
// report or a DELETE needs, are not counted as checks by clients. A client's check is counted once.
func TestOwnQuestionsAreNoChecks(t *testing.T) {
	house := prototest.NewTally(2)
	b := newBook(house, nil)
	sum := Checksum{Type: digests.TypeBody, Sum: [16]byte{1}}
	if err := b.report(t.Context(), []Checksum{sum}, 3, true); err != nil {
		t.Fatal(err)
	}
	house.Add(deletesSignature(), 1)
	b.follow(t.Context())
	if _, checks := house.Looks(); checks != 0 || !b.deletes.Seen() {
		t.Errorf("%d checks by following deletions, which were seen: %v", checks, b.deletes.Seen())
	}
	if err := b.delete(t.Context(), sum, bulkhead.Reporter{}); err != nil {
		t.Fatal(err)
	}
	if err := b.report(t.Context(), []Checksum{sum}, 3, true); err != nil {
		t.Fatal(err)
	}
	_, before := house.Looks()
	ts, err := b.tallies(t.Context(), new(asking), []Checksum{sum})
	if err != nil || ts[0].targets.AddedSince == 0 {
		t.Fatalf("%+v, %v", ts, err)
	}
	if all, checks := house.Looks(); checks != before+1 || all < checks+2 {
		t.Errorf("%d checks of %d looks, want one more than %d", checks, all, before)
	}
}
