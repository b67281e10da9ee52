package verdict

import (
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// top keeps the n largest of its values.
type top struct {
	n      int
	values []float64 // ascending, at most n
}

func (t *top) add(v float64) {
	i, _ := slices.BinarySearch(t.values, v)
	t.values = slices.Insert(t.values, i, v)
	if len(t.values) > t.n {
		t.values = slices.Delete(t.values, 0, 1)
	}
}

// nth returns the n-th largest value, or 0 if there are fewer.
func (t *top) nth() float64 {
	if len(t.values) < t.n {
		return 0
	}
	return t.values[0]
}

// tops finds the n-th largest of each number over the bands of one scheme.
type tops struct {
	sightings, spam, ham, sure                       top
	strength, reported, contexts, older, newer, days top
}

// reset starts with new bands, and selects the match-th largest numbers.
func (b *tops) reset(match int) {
	for _, t := range [...]*top{&b.sightings, &b.spam, &b.ham, &b.sure, &b.strength, &b.reported, &b.contexts, &b.older,
		&b.newer, &b.days} {
		t.n, t.values = match, t.values[:0]
	}
}

// counts adds one known band.
func (b *tops) counts(f *bulkhead.Finding) {
	b.sightings.add(float64(f.Sightings))
	b.spam.add(float64(f.Spam))
	b.ham.add(float64(f.Ham))
}

// listed adds one listed band.
func (b *tops) listed(f *bulkhead.Finding, w weight) {
	b.sure.add(float64(f.Confidence))
	b.strength.add(w.strength)
	b.reported.add(w.reported)
	b.contexts.add(w.contexts)
	b.older.add(w.old)
	b.newer.add(w.new)
	b.days.add(w.days)
}

func (b *tops) weight() weight {
	return weight{b.strength.nth(), b.reported.nth(), b.contexts.nth(), b.older.nth(), b.newer.nth(), b.days.nth()}
}

// earliest returns the earlier of two times, of which each may be unknown.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
