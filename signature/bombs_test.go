package signature

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestBombs checks that hostile messages give no more words than a skeleton holds. All of
// them take time linear in their size: BenchmarkBombs shows it.
func TestBombs(t *testing.T) {
	for name, raw := range mailtest.Bombs() {
		compute(t, raw)
		s := mailtest.Must(skeletonOf(t.Context(), mailtest.Must(mail.Read(t.Context(), raw)), nil, nil))
		if s.words.len() > maxWords || s.quoted.len() > maxWords {
			t.Errorf("%s: %d words, %d quoted", name, s.words.len(), s.quoted.len())
		}
	}
}

func BenchmarkBombs(b *testing.B) {
	for name, raw := range mailtest.Bombs() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				compute(b, raw)
			}
		})
	}
}
