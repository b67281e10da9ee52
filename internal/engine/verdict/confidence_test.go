package verdict

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

// TestConfidenceOfDeliveries: where no sender is known, deliveries without complaint speak
// against a text: a vote outweighs some 15 of them. No confidence leaves the range of its class.
func TestConfidenceOfDeliveries(t *testing.T) {
	for _, tt := range []struct {
		votes, deliveries int
		mature, others    int // confidence on a mature node, and on others
	}{
		{1, 0, 80, 80}, {1, 10, 80, 80}, {1, 11, 80, 79}, {1, 13, 80, 68}, {1, 15, 80, 54}, {1, 16, 80, 50}, {1, 160, 80, 50},
		{2, 0, 89, 89}, {2, 24, 89, 89}, {2, 25, 89, 86}, {2, 28, 89, 71}, {2, 31, 89, 50}, {2, 600, 89, 50},
		{5, 60, 95, 95}, {5, 75, 95, 68}, {20, 290, 99, 99}, {20, 300, 99, 95},
	} {
		for _, mature := range []bool{true, false} {
			want := tt.others
			if mature {
				want = tt.mature
			}
			p := Policy{Promotion: 1, NearMatch: 2, Mature: mature}
			v, _, _ := judgeBy(p, []part{body(bulkhead.Exact, voted(tt.votes, 0).delivered(tt.deliveries))}, nil, "")
			if v.Class != bulkhead.ClassSpam || v.Confidence != want {
				t.Errorf("%d votes among %d deliveries, mature %v: %v %d, want spam %d", tt.votes, tt.deliveries, mature, v.Class,
					v.Confidence, want)
			}
		}
	}
	few, _, _ := judgeBy(Policy{Promotion: 1, NearMatch: 2}, nearly(voted(1, 0).delivered(3)), nil, "")
	many, _, _ := judgeBy(Policy{Promotion: 1, NearMatch: 2}, nearly(voted(1, 0).delivered(100)), nil, "")
	if few.Class != bulkhead.ClassSuspected || many.Class != bulkhead.ClassSuspected || few.Confidence != 45 ||
		many.Confidence != leastSuspected {
		t.Errorf("a changed copy: %v %d with few deliveries, %v %d with many", few.Class, few.Confidence, many.Class,
			many.Confidence)
	}
}

// TestConfidenceIsOrdered: no confidence is larger than what the votes alone would say, and
// more votes never make it smaller, nor more deliveries larger, while the class is the same.
func TestConfidenceIsOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spam, ham := rapid.IntRange(1, 40).Draw(t, "spam"), rapid.IntRange(0, 3).Draw(t, "ham")
		n, further := rapid.IntRange(0, 400).Draw(t, "deliveries"), rapid.IntRange(0, 400).Draw(t, "more")
		say := func(spam, deliveries int) bulkhead.Verdict {
			v, _, _ := judgeBy(Policy{Promotion: 1, NearMatch: 2},
				[]part{body(bulkhead.Exact, voted(spam, ham).delivered(deliveries))}, nil, "")
			return v
		}
		v := say(spam, n)
		if v.Class != bulkhead.ClassSpam {
			return
		}
		if most := int(math.Round(100 * float64(spam) / (float64(spam+ham) + 0.25))); v.Confidence > max(most, leastSpam) ||
			v.Confidence < leastSpam {
			t.Errorf("%d votes, %d against, %d deliveries: confidence %d, want %d to %d", spam, ham, n, v.Confidence,
				leastSpam, most)
		}
		if w := say(spam+1, n); w.Confidence < v.Confidence {
			t.Errorf("%d votes, %d against, %d deliveries: confidence %d; with one vote more %d", spam, ham, n, v.Confidence,
				w.Confidence)
		}
		if w := say(spam, n+further); w.Class == v.Class && w.Confidence > v.Confidence {
			t.Errorf("%d votes, %d against, %d deliveries: confidence %d; with %d more %d", spam, ham, n, v.Confidence, further,
				w.Confidence)
		}
	})
}
