package resolve

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
)

// TestTogether: a vote that lists a part of a message records once that the message's other samples
// occurred with it.
func TestTogether(t *testing.T) {
	b := newBooks(t)
	voters(b)
	parts := []bulkhead.Signature{sig(bulkhead.Part, 1), sig(bulkhead.Part, 2), sig(bulkhead.Part, 3)}
	var samples []filter.Key
	for i := range parts {
		samples = append(samples, maker.Base(&parts[i]))
	}
	vote := func(name string, v bulkhead.Vote) []filter.Key {
		m := message(by(name, v, sig(bulkhead.Exact, 1), parts[0]))
		m.Samples = samples
		b.batch(m)
		return slices.Clone(b.r.Decisions().Spam)
	}
	recorded := func(spam []filter.Key) (n int) {
		for _, k := range samples[1:] {
			if slices.Contains(spam, maker.Together(samples[0], k)) {
				n++
			}
		}
		if slices.Contains(spam, maker.Together(samples[0], samples[0])) {
			t.Error("a sample is recorded together with itself")
		}
		return n
	}
	for i, tt := range []struct {
		name string
		vote bulkhead.Vote
		want int
	}{{"x", bulkhead.Spam, 0}, {"a", bulkhead.Ham, 0}, {"a", bulkhead.Spam, 2}, {"b", bulkhead.Spam, 0}} {
		if got := recorded(vote(tt.name, tt.vote)); got != tt.want {
			t.Errorf("vote %d: %d samples are recorded with the listed one, want %d", i, got, tt.want)
		}
	}
}

// TestTogetherShared checks that peers see which samples occurred with a listed part once as many roots have
// voted for it as the floor of the blocklist requires, and see it once.
func TestTogetherShared(t *testing.T) {
	b := newBooks(t)
	voters(b)
	o := blockOf
	o.Floor = 2
	b.block = book.NewBlocklist(o, o.Capacity, 50_000, maker.Secret.ID(), true, slog.New(slog.DiscardHandler))
	b.view.Block.Live = nil
	b.pass(0)
	parts := []bulkhead.Signature{sig(bulkhead.Part, 1), sig(bulkhead.Part, 2), sig(bulkhead.Part, 3)}
	var samples []filter.Key
	for i := range parts {
		samples = append(samples, maker.Base(&parts[i]))
	}
	for _, tt := range []struct {
		name        string
		here, peers int
	}{{"a", 2, 0}, {"b", 0, 2}, {"c", 0, 0}} {
		m := message(by(tt.name, bulkhead.Spam, sig(bulkhead.Exact, 1), parts[0]))
		m.Samples = samples
		b.batch(m)
		here, peers := 0, 0
		for _, k := range samples[1:] {
			if slices.Contains(b.r.Decisions().Spam, maker.Together(samples[0], k)) {
				here++
			}
			if slices.Contains(b.r.Decisions().PublishedSpam, maker.Together(samples[0], k)) {
				peers++
			}
		}
		if here != tt.here || peers != tt.peers {
			t.Errorf("vote of %s: %d samples are recorded here and %d for peers, want %d and %d", tt.name, here, peers, tt.here,
				tt.peers)
		}
	}
}

// TestFurtherTexts: a root's vote on a text with a listed part counts a further text, unless the text has five of the
// samples that occurred together with the part, and one more for each further text from the second on.
func TestFurtherTexts(t *testing.T) {
	b := newBooks(t)
	voters(b)
	part := sig(bulkhead.Part, 1)
	key := maker.Base(&part)
	sample := func(n int) filter.Key {
		s := sig(bulkhead.Part, n)
		return maker.Base(&s)
	}
	for i, tt := range []struct {
		name        string
		shared, own int // samples of the first text, the part aside, and of none before
		want        uint32
	}{
		{"a", 9, 0, 0}, // the first text
		{"b", 9, 0, 0}, // the same
		{"a", 4, 5, 0}, // five samples with the part
		{"x", 0, 9, 0}, // a stranger
		{"a", 3, 6, 1}, // four
		{"b", 4, 5, 0}, // five: the first further text takes none away
		{"b", 0, 9, 1},
		{"a", 4, 5, 1}, // five, of which the second takes one
		{"a", 6, 3, 0}, // seven, less two
	} {
		m := message(by(tt.name, bulkhead.Spam, sig(bulkhead.Exact, 100+i), part))
		m.Samples = []filter.Key{key}
		for n := range tt.shared {
			m.Samples = append(m.Samples, sample(2+n))
		}
		for n := range tt.own {
			m.Samples = append(m.Samples, sample(100*(i+1)+n))
		}
		b.batch(m)
		got := uint32(0)
		for j, k := range b.r.Decisions().Weights.Keys {
			if k == key.With(evidence.Contexts) {
				got += b.r.Decisions().Weights.N[j]
			}
		}
		if got != tt.want {
			t.Errorf("vote %d, %d samples of the first text: %d further texts, want %d", i, tt.shared, got, tt.want)
		}
	}
}
