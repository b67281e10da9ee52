package calibration

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/bulkheadtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestClearinghouse checks that a clearinghouse with a record in front still behaves as one.
func TestClearinghouse(t *testing.T) {
	bulkheadtest.Suite{Open: func(testing.TB) bulkhead.Clearinghouse {
		return New(prototest.NewTally(3), func(bulkhead.Reporter) bool { return true })
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

// TestRecords checks what checks and votes are recorded as.
func TestRecords(t *testing.T) {
	behind := &ruling{Counter: bulkhead.CounterOf(&prototest.House{})}
	h := New(behind, func(who bulkhead.Reporter) bool { return who.Account != "stranger" })
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
	behind.verdict = bulkhead.Verdict{Rule: "link"}
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
	want := map[string]Record{"link": {Decided: 3, Objected: 2, Confirmed: 1}, "good-sender": {Missed: 1}}
	if got := h.Records(); !maps.Equal(got, want) {
		t.Errorf("records %+v, want %+v", got, want)
	}
}

// BenchmarkCheck is the cost of the record, which every check pays.
func BenchmarkCheck(b *testing.B) {
	h := New(
		&ruling{
			Counter: bulkhead.CounterOf(&prototest.House{}),
			verdict: bulkhead.Verdict{Rule: "none", First: time.Now()},
		},
		func(bulkhead.Reporter) bool { return true })
	for b.Loop() {
		if _, err := h.Check(b.Context(), bulkhead.Query{}); err != nil {
			b.Fatal(err)
		}
	}
}
