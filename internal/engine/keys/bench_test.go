package keys

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// BenchmarkSeries makes keys of votes of one voice, one by one and as a series.
func BenchmarkSeries(b *testing.B) {
	m, base := Maker{Secret: filter.Secret{1}}, filter.Key{}
	b.Run("single", func(b *testing.B) {
		for b.Loop() {
			base = m.Vote("account:someone", bulkhead.Spam, base)
		}
	})
	votes := m.Votes("account:someone", bulkhead.Spam)
	b.Run("series", func(b *testing.B) {
		for b.Loop() {
			base = votes.Of(base)
		}
	})
}
