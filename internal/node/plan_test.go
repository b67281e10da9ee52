package node

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestSizes checks that the sizes equal the sizes of a configuration's books, with the changes of
// the question.
func TestSizes(t *testing.T) {
	base := config.Default()
	first, err := engine.TallyBytes(tallyOf(base))
	if err != nil {
		t.Fatal(err)
	}
	asked, err := Sizes(base, admin.SizeQuestion{Signatures: 1})
	if err != nil || asked.Tally.Array >= first || asked.Tally.Array < first/8 || asked.Tally.Keep != base.Tally.Keep ||
		asked.Blocklist.Keep != base.Blocklist.Keep {
		t.Errorf("a node without use takes %+v (%v), the first generation of the tally %d", asked, err, first)
	}
	// The values of a question equal the values of a configuration.
	with := config.Default()
	with.Tally.Error, with.Blocklist.Error, with.Tally.Keep, with.Blocklist.Keep = 1e-2, 1e-4, 3, 5
	listed := uint64(20_000)
	want, err := Sizes(with, admin.SizeQuestion{Signatures: 2_000_000})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Sizes(base, admin.SizeQuestion{Signatures: 2_000_000, Listed: &listed, CountError: 1e-2,
		ListError: 1e-4, TallyKeep: 3, BlocklistKeep: 5})
	if err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	plain, err := Sizes(base, admin.SizeQuestion{Signatures: 2_000_000})
	if err != nil || plain.Memory <= want.Memory || plain.Tally.CountsWrong >= want.Tally.CountsWrong ||
		plain.Blocklist.Hidden >= want.Blocklist.Hidden {
		t.Errorf("larger errors: %+v, smaller ones: %+v (%v)", want, plain, err)
	}
	for _, of := range []admin.SizeQuestion{{}, {Signatures: 1 << 41}, {Signatures: 1, Listed: &listed},
		{Signatures: 1, CountError: 2}, {Signatures: 1, ListError: -1}, {Signatures: 1, TallyKeep: -1},
		{Signatures: 1, BlocklistKeep: -1}} {
		if p, err := Sizes(base, of); err == nil {
			t.Errorf("%+v: %+v", of, p)
		}
	}
}
