package resolve

import (
	"errors"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// TestLearns checks what is learnt from deliveries, votes, votes that are taken back, and mail of collections.
func TestLearns(t *testing.T) {
	tokens := []learn.Token{11, 22, 33}
	letter := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
	vote := func(name string, v bulkhead.Vote) func(*books) error {
		return func(b *books) error {
			m := message(by(name, v, letter...))
			m.Tokens = tokens
			b.batch(m)
			return nil
		}
	}
	delivered := func(seen Seen) func(*books) error {
		return func(b *books) error {
			m := message(bulkhead.Report{Signatures: letter})
			m.Tokens, m.Seen = tokens, seen
			b.batch(m)
			return nil
		}
	}
	trap := func(b *books) error {
		r := by("a", bulkhead.Spam, letter...)
		r.Trap = true
		m := message(r)
		m.Tokens = tokens
		b.batch(m)
		return nil
	}
	from := func(name string, spam bool) func(*books) error {
		return func(b *books) error {
			b.begin()
			err := b.r.Learn(bulkhead.Reporter{Account: name}, TextOf(maker.Base(&letter[0])), tokens, spam)
			b.apply()
			return err
		}
	}
	takeBack := func(b *books) error {
		b.begin()
		b.r.Retract("account:a", []ballots.Item{{Key: maker.Base(&letter[0]), Facet: bulkhead.TextFacet}})
		b.apply()
		return nil
	}
	type steps = []func(*books) error
	came, spam := delivered(Seen{}), vote("a", bulkhead.Spam)
	for name, tt := range map[string]struct {
		before steps
		do     func(*books) error
		want   []learned.What
		err    error
	}{
		"a delivery":                      {do: came, want: []learned.What{learned.Delivered}},
		"a delivery again":                {before: steps{came}, do: came},
		"a delivery that was called spam": {do: delivered(Seen{Caught: true}), want: []learned.What{learned.Seen}},
		"a delivery with a score of spam": {do: delivered(Seen{Learned: Certain}), want: []learned.What{learned.Seen}},
		"such a score of a known sender": {do: delivered(Seen{Learned: Certain, GoodSender: true}),
			want: []learned.What{learned.Delivered}},
		"such a score of its mail that is suspected": {do: delivered(Seen{Learned: Certain, GoodSender: true, Flagged: true}),
			want: []learned.What{learned.Seen}},
		"a delivery with a score below":   {do: delivered(Seen{Learned: 0.98}), want: []learned.What{learned.Delivered}},
		"a report of a delivery":          {before: steps{came}, do: spam, want: []learned.What{learned.Reported}},
		"a report without a delivery":     {do: spam, want: []learned.What{learned.Reported, learned.Delivered}},
		"a report of a member":            {do: vote("x", bulkhead.Spam)},
		"a vote of a trap":                {do: trap},
		"a report against another's vote": {before: steps{vote("b", bulkhead.Ham)}, do: spam},
		"a vote for wanted mail":          {do: vote("a", bulkhead.Ham), want: []learned.What{learned.Delivered}},
		"a change of mind": {before: steps{came, spam}, do: vote("a", bulkhead.Ham),
			want: []learned.What{learned.Withdrawn}},
		"a revocation": {before: steps{came, spam}, do: vote("a", bulkhead.Revocation),
			want: []learned.What{learned.Withdrawn}},
		"an objection of one against two": {before: steps{came, spam, vote("b", bulkhead.Spam)}, do: vote("c", bulkhead.Ham)},
		"a vote that is taken back":       {before: steps{came, spam}, do: takeBack, want: []learned.What{learned.Withdrawn}},
		"one vote of two that is taken":   {before: steps{came, spam, vote("b", bulkhead.Spam)}, do: takeBack},
		"spam of a collection":            {before: steps{came}, do: from("a", true), want: []learned.What{learned.Reported}},
		"mail of a collection":            {do: from("a", false), want: []learned.What{learned.Delivered}},
		"a collection of a member":        {do: from("x", true), err: bulkhead.ErrForbidden},
		"a collection of a stranger":      {do: from("nobody", true), err: bulkhead.ErrUnauthorised},
	} {
		b := newBooks(t)
		b.r.opts.Learned = learned.New(learned.Options{Bytes: 1 << 20})
		voters(b)
		for _, step := range tt.before {
			if err := step(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := tt.do(b); !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		}
		var got []learned.What
		for _, c := range b.r.Decisions().Learned.Of {
			got = append(got, c.What)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v is learnt, want %v", name, got, tt.want)
		}
	}
}
