package resolve

import (
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
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
