package calibration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestClearinghouse checks that a clearinghouse with a record in front still behaves as one.
func TestClearinghouse(t *testing.T) {
	bulkheadtest.Suite{Open: func(testing.TB) bulkhead.Clearinghouse {
		return New(prototest.NewTally(3), func(bulkhead.Reporter) bool { return true }, time.Now)
	}}.Run(t)
}

// A ruling is a Counter with one verdict on every message.
type ruling struct {
	bulkhead.Counter
	verdict bulkhead.Verdict
	err     error
}

func (r *ruling) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) {
	return r.verdict, r.err
}

func (r *ruling) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{Counted: 1}, r.err
}

// open returns a House in front of a Counter whose verdicts the test sets, and its clock.
func open(behind *ruling) (*House, *time.Time) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return New(behind, func(who bulkhead.Reporter) bool { return who.Account != "stranger" },
		func() time.Time { return now }), &now
}

func text(name string) []bulkhead.Signature {
	return []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte(name))}
}

// TestRecords checks what checks and votes are recorded as.
func TestRecords(t *testing.T) {
	behind := &ruling{Counter: bulkhead.CounterOf(&prototest.House{})}
	h, _ := open(behind)
	vote := func(rule string, class bulkhead.Class, r bulkhead.Report) {
		t.Helper()
		behind.verdict = bulkhead.Verdict{Rule: rule, Class: class}
		if _, err := h.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	vote("link", bulkhead.ClassSpam, bulkhead.Report{Vote: bulkhead.Spam})
	vote("link", bulkhead.ClassSpam, bulkhead.Report{Vote: bulkhead.Ham})
	vote("link", bulkhead.ClassSuspected, bulkhead.Report{Vote: bulkhead.Revocation})
	vote("good-sender", bulkhead.ClassGood, bulkhead.Report{Vote: bulkhead.Spam})
	// These are no votes against the rule: agreement, a sighting, a trap and an untrusted reporter.
	vote("good-sender", bulkhead.ClassGood, bulkhead.Report{Vote: bulkhead.Ham})
	vote("link", bulkhead.ClassSpam, bulkhead.Report{})
	vote("link", bulkhead.ClassSpam, bulkhead.Report{Vote: bulkhead.Spam, Trap: true})
	vote("link", bulkhead.ClassSpam,
		bulkhead.Report{Vote: bulkhead.Ham, Reporter: bulkhead.Reporter{Account: "stranger"}})
	behind.verdict = bulkhead.Verdict{Rule: "link", Class: bulkhead.ClassSpam}
	if _, err := h.Check(t.Context(), bulkhead.Query{}); err != nil {
		t.Fatal(err)
	}
	if err := h.CheckBatch(t.Context(), make([]bulkhead.Query, 2), make([]bulkhead.Verdict, 2)); err != nil {
		t.Fatal(err)
	}
	behind.err = errors.New("a fault")
	for _, v := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham} {
		if _, err := h.Report(t.Context(), bulkhead.Report{Vote: v}); err == nil {
			t.Error("no error")
		}
	}
	want := map[Key]Record{{"link", bulkhead.ClassSpam}: {Decided: 3, Objected: 1, Confirmed: 1},
		{"link", bulkhead.ClassSuspected}: {Objected: 1}, {"good-sender", bulkhead.ClassGood}: {Missed: 1}}
	if got := h.Total(); !maps.Equal(got, want) {
		t.Errorf("records %+v, want %+v", got, want)
	}
	if got := h.Records(1); !maps.Equal(got, want) {
		t.Errorf("records of today %+v, want %+v", got, want)
	}
}

// TestDecisionAtDelivery checks that a vote counts for the decision on the copy that was delivered,
// and not for what the votes before it have made of the message.
func TestDecisionAtDelivery(t *testing.T) {
	behind := &ruling{Counter: bulkhead.CounterOf(&prototest.House{})}
	h, _ := open(behind)
	check := func(rule string, class bulkhead.Class, id string, who string) {
		t.Helper()
		behind.verdict = bulkhead.Verdict{Rule: rule, Class: class}
		_, err := h.Check(t.Context(), bulkhead.Query{Signatures: text("a"), Source: bulkhead.Source{MessageID: id},
			Reporter: bulkhead.Reporter{Account: who}})
		if err != nil {
			t.Fatal(err)
		}
	}
	check("none", bulkhead.ClassUnknown, "1@x", "")
	check("exact-text", bulkhead.ClassSpam, "2@x", "")
	check("one-vote", bulkhead.ClassSuspected, "3@x", "stranger")
	for _, tt := range []struct {
		id   string
		vote bulkhead.Vote
		key  Key
		want Record
	}{
		{"1@x", bulkhead.Spam, Key{"none", bulkhead.ClassUnknown}, Record{Decided: 1, Missed: 1}},
		{"2@x", bulkhead.Spam, Key{"exact-text", bulkhead.ClassSpam}, Record{Decided: 1, Confirmed: 1}},
		{"", bulkhead.Spam, Key{"none", bulkhead.ClassUnknown}, Record{Decided: 1, Missed: 2}},
		{"4@x", bulkhead.Spam, Key{"none", bulkhead.ClassUnknown}, Record{Decided: 1, Missed: 3}},
		{"", bulkhead.Ham, Key{"exact-text", bulkhead.ClassSpam}, Record{Decided: 1, Confirmed: 1, Objected: 1}},
	} {
		behind.verdict = bulkhead.Verdict{Rule: "link", Class: bulkhead.ClassSpam}
		r := bulkhead.Report{Signatures: text("a"), Vote: tt.vote, Source: bulkhead.Source{MessageID: tt.id}}
		if _, err := h.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := h.Total()[tt.key]; got != tt.want {
			t.Errorf("%v on %q: %v has %+v, want %+v", tt.vote, tt.id, tt.key, got, tt.want)
		}
	}
}

// TestDays compares the records of the last days with a plain list of all decisions.
func TestDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		behind := &ruling{Counter: bulkhead.CounterOf(&prototest.House{})}
		h, now := open(behind)
		type decision struct {
			day int
			Key
		}
		var all []decision
		day := 0
		for range rapid.IntRange(0, 40).Draw(t, "decisions") {
			days := rapid.SampledFrom([]int{0, 0, 1, 1, 7, 27, 28, 100}).Draw(t, "days")
			day, *now = day+days, now.AddDate(0, 0, days)
			k := Key{rapid.SampledFrom([]string{"link", "none"}).Draw(t, "rule"), bulkhead.Class(rapid.IntRange(0, 4).Draw(t,
				"class"))}
			behind.verdict = bulkhead.Verdict{Rule: k.Rule, Class: k.Class}
			if _, err := h.Check(context.Background(), bulkhead.Query{}); err != nil {
				t.Fatal(err)
			}
			all = append(all, decision{day, k})
		}
		n := rapid.IntRange(1, Days).Draw(t, "of days")
		want := make(map[Key]Record)
		for _, d := range all {
			if d.day > day-n {
				want[d.Key] = Record{Decided: want[d.Key].Decided + 1}
			}
		}
		if got := h.Records(n); !maps.Equal(got, want) {
			t.Fatalf("records of %d days: %+v, want %+v", n, got, want)
		}
	})
}

// TestMemory checks that the memory is bounded, and keeps what is new.
func TestMemory(t *testing.T) {
	var m memory
	const decided = 7
	for i := range 3 * maxRemembered {
		m.note(text(fmt.Sprint(i)), "", decided)
		if n := len(m.young) + len(m.old); n > maxRemembered {
			t.Fatalf("%d decisions, limit %d", n, maxRemembered)
		}
	}
	for i := 3*maxRemembered - maxRemembered/2; i < 3*maxRemembered; i++ {
		if got := m.find(text(fmt.Sprint(i)), "", bulkhead.Spam); got != decided {
			t.Fatalf("decision %d is %v", i, got)
		}
	}
	if m.find(text("0"), "", bulkhead.Spam) != 0 {
		t.Error("the first decision is not forgotten")
	}
	if m.find(nil, "", bulkhead.Spam) != 0 {
		t.Error("a message without text has a decision")
	}
}

// TestWrong checks the share of decisions that were wrong.
func TestWrong(t *testing.T) {
	for _, tt := range []struct {
		r                Record
		share, low, high float64
	}{
		{Record{}, 0, 0, 1},
		{Record{Decided: 148, Objected: 10, Missed: 5, Confirmed: 9}, 15. / 148, 0.0624, 0.1605},
		{Record{Decided: 20, Objected: 25}, 1, 0.8389, 1},
	} {
		share, low, high := tt.r.Wrong()
		if math.Abs(share-tt.share)+math.Abs(low-tt.low)+math.Abs(high-tt.high) > 2e-4 {
			t.Errorf("%+v: %v, %v to %v", tt.r, share, low, high)
		}
	}
}

// BenchmarkCheck is the cost of the record, which every check pays.
func BenchmarkCheck(b *testing.B) {
	h, _ := open(&ruling{
		Counter: bulkhead.CounterOf(&prototest.House{}),
		verdict: bulkhead.Verdict{Rule: "none", First: time.Now()},
	})
	q := bulkhead.Query{Signatures: text("a"), Source: bulkhead.Source{MessageID: "1@x"}}
	for b.Loop() {
		if _, err := h.Check(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
