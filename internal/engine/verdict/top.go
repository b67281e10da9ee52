package verdict

import (
	"slices"
	"time"
)

// top keeps the n largest values that it is given.
type top struct {
	n      int
	values []uint32 // ascending, at most n
}

func (t *top) add(v uint32) {
	if v == 0 || len(t.values) == t.n && v <= t.values[0] {
		return
	}
	i, _ := slices.BinarySearch(t.values, v)
	t.values = slices.Insert(t.values, i, v)
	if len(t.values) > t.n {
		t.values = t.values[1:]
	}
}

// nth returns the n-th largest value, 0 if there were fewer.
func (t *top) nth() uint32 {
	if len(t.values) < t.n {
		return 0
	}
	return t.values[0]
}

// firstSeen is the earliest of the times that it sees.
type firstSeen struct{ t time.Time }

func (f *firstSeen) see(t time.Time) {
	if !t.IsZero() && (f.t.IsZero() || t.Before(f.t)) {
		f.t = t
	}
}

func (f *firstSeen) time() time.Time { return f.t }
