package recent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// A listener keeps the last report to a clearinghouse.
type listener struct {
	bulkhead.Counter
	last bulkhead.Report
}

func (l *listener) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	l.last = r
	return l.Counter.Report(ctx, r)
}

// TestReadings checks which deliveries by signatures alone have the words and the Message-ID that the check of
// the whole message read.
func TestReadings(t *testing.T) {
	text := []bulkhead.Signature{sig(bulkhead.Exact, "text")}
	read := bulkhead.Source{Features: []string{"w:prize", "w:now"}, MessageID: "1@x"}
	for _, tt := range []struct {
		name     string
		checks   bulkhead.Reporter
		delivers bulkhead.Reporter
		vote     bulkhead.Vote
		source   bulkhead.Source
		others   int // messages that are checked in between
		features []string
		id       string
	}{
		{"delivered", own, own, bulkhead.Sighting, bulkhead.Source{}, 0, read.Features, "1@x"},
		{"delivered among others", own, own, bulkhead.Sighting, bulkhead.Source{}, maxReadings - 1, read.Features, "1@x"},
		{"forgotten", own, own, bulkhead.Sighting, bulkhead.Source{}, maxReadings, nil, ""},
		{"with words", own, own, bulkhead.Sighting, bulkhead.Source{Features: []string{"w:a"}, MessageID: "2@x"}, 0,
			[]string{"w:a"}, "2@x"},
		{"checked by a stranger", stranger, own, bulkhead.Sighting, bulkhead.Source{}, 0, nil, ""},
		{"delivered by a stranger", own, stranger, bulkhead.Sighting, bulkhead.Source{}, 0, nil, ""},
		{"a vote", own, own, bulkhead.Spam, bulkhead.Source{}, 0, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &listener{Counter: bulkhead.CounterOf(&prototest.House{})}
			h := New(l, NewTable(1<<20, time.Hour, nil), shows)
			check := func(sigs []bulkhead.Signature, s bulkhead.Source) {
				if _, err := h.Check(t.Context(), bulkhead.Query{Signatures: sigs, Source: s, Reporter: tt.checks}); err != nil {
					t.Fatal(err)
				}
			}
			check(text, read)
			for i := range tt.others {
				check([]bulkhead.Signature{sig(bulkhead.Exact, fmt.Sprint(i))}, read)
			}
			r := bulkhead.Report{Signatures: text, Vote: tt.vote, Source: tt.source, Reporter: tt.delivers}
			if _, err := h.Report(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got := l.last.Source; !slices.Equal(got.Features, tt.features) || got.MessageID != tt.id {
				t.Errorf("the delivery has %q and %q, want %q and %q", got.Features, got.MessageID, tt.features, tt.id)
			}
		})
	}
}
