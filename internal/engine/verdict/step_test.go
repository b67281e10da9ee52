package verdict

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

// TestStepOf checks which step a number of wanted mails lost means.
func TestStepOf(t *testing.T) {
	for _, tt := range []struct {
		lost float64
		want int
	}{{0, 1}, {0.4, 1}, {0.5, 2}, {0.99, 2}, {1, 3}, {1.9, 3}, {2, 4}, {4.9, 4}, {5, 5}, {1000, 5}} {
		if n, of := StepOf(tt.lost).Number(); n != tt.want || of != 5 {
			t.Errorf("%v: step %d of %d, want %d of 5", tt.lost, n, of, tt.want)
		}
	}
	if StepOf(2) != 0 {
		t.Error("2 is not the default")
	}
}

// TestSteps: a lower number of wanted mails lost makes no further message spam, and a message that
// it spares is suspected.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawAny(t)
		m.policy.Step = LeastStep
		before := m.judge()
		for m.policy.Step++; m.policy.Step <= MostStep; m.policy.Step++ {
			after := m.judge()
			if badness(after.Class) < badness(before.Class) {
				t.Fatalf("step %d: %v by %s, and at the step before %v by %s", m.policy.Step, after.Class, after.Rule,
					before.Class, before.Rule)
			}
			if after.Class == bulkhead.ClassSpam && before.Class < bulkhead.ClassSuspected {
				t.Fatalf("step %d: spam by %s, and at the step before %v", m.policy.Step, after.Rule, before.Class)
			}
			before = after
		}
	})
}

// TestVotesOfSteps checks how many votes on a text each step asks for, of a copy and of a changed
// copy.
func TestVotesOfSteps(t *testing.T) {
	for _, tt := range []struct {
		step           Step
		exact, changed int
	}{{-3, 3, 3}, {-2, 2, 2}, {-1, 1, 2}, {0, 1, 1}, {1, 1, 1}} {
		policy := Policy{Promotion: 1, NearMatch: 2, Mature: true, Step: tt.step}
		for n := 1; n <= 3; n++ {
			for _, x := range []struct {
				parts []part
				least int
			}{
				{[]part{body(bulkhead.Exact, voted(n, 0))}, tt.exact},
				{append(nearly(voted(n, 0)), network(Evidence{})), tt.changed},
			} {
				want := bulkhead.ClassSuspected
				if n >= x.least {
					want = bulkhead.ClassSpam
				}
				if v, _, _ := judgeBy(policy, x.parts, nil, ""); v.Class != want {
					t.Errorf("step %d, %d votes: %v by %s, want %v: %q", tt.step, n, v.Class, v.Rule, want, v.Reasons)
				}
			}
		}
	}
}

// TestUnseenSender checks what keeps the highest step from condemning a changed copy.
func TestUnseenSender(t *testing.T) {
	policy := Policy{Promotion: 1, NearMatch: 2, Mature: true, Step: MostStep}
	one := voted(1, 0)
	sent := one
	sent.Good = 3
	for _, tt := range []struct {
		name     string
		parts    []part
		contents []Match
		want     bulkhead.Class
	}{
		{"nobody knows the sender", append(nearly(one), from("new.example", Evidence{})), nil, bulkhead.ClassSpam},
		{"nobody reported the text", append(nearly(Evidence{}), from("new.example", Evidence{})), nil, bulkhead.ClassUnknown},
		{"the sender was seen", append(nearly(one), from("new.example", Evidence{New: 1})), nil, bulkhead.ClassSuspected},
		{"the text was delivered", append(nearly(one.delivered(20)), from("new.example", Evidence{})), nil,
			bulkhead.ClassUnknown},
		{"it was delivered today", append(nearly(Evidence{Votes: one.Votes, Own: one.Own, New: 12}),
			from("new.example", Evidence{})), nil, bulkhead.ClassSuspected},
		{"two reported it, and many did not", append(nearly(voted(2, 0).delivered(61)), from("new.example", Evidence{})), nil,
			bulkhead.ClassSuspected},
		{"it contains half of the text", []part{body(bulkhead.Exact, Evidence{}), from("new.example", Evidence{})},
			[]Match{within(one, PartWhole, false)}, bulkhead.ClassSpam},
		{"it contains less", []part{body(bulkhead.Exact, Evidence{}), from("new.example", Evidence{})},
			[]Match{within(one, PartWhole-1, false)}, bulkhead.ClassSuspected},
		{"good senders send it", append(nearly(one), from("new.example", Evidence{}), body(bulkhead.PyzorDigest,
			Evidence{Good: 3})), nil, bulkhead.ClassSuspected},
	} {
		m := drawn{policy: policy, parts: tt.parts, contents: tt.contents}
		if v := m.judge(); v.Class != tt.want {
			t.Errorf("%s: %v by %s, want %v", tt.name, v.Class, v.Rule, tt.want)
		}
		m.policy.Mature = false
		if v := m.judge(); v.Class == bulkhead.ClassSpam {
			t.Errorf("%s, at a new node: %v by %s", tt.name, v.Class, v.Rule)
		}
	}
}
