package doors

import (
	"context"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// failing refuses everything.
type failing struct{ bulkhead.Counter }

func (failing) Check(context.Context, bulkhead.Query) (bulkhead.Verdict, error) {
	return bulkhead.Verdict{}, bulkhead.ErrMalformed
}

func (failing) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{}, bulkhead.ErrForbidden
}

func (failing) Look(context.Context, []bulkhead.Signature, []bulkhead.Look, bulkhead.Aspect) error {
	return bulkhead.ErrMalformed
}

// silent answers every look without an error.
type silent struct{ bulkhead.Counter }

func (silent) Look(context.Context, []bulkhead.Signature, []bulkhead.Look, bulkhead.Aspect) error {
	return nil
}

// TestCountedHouse checks that only failures are counted as refused, and that looks by the program
// itself are no checks.
func TestCountedHouse(t *testing.T) {
	h := &countedHouse{Counter: failing{}}
	_, err1 := h.Check(t.Context(), bulkhead.Query{})
	_, err2 := h.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Spam})
	err3 := h.Look(t.Context(), nil, nil, bulkhead.Counts)
	err4 := h.CheckBatch(t.Context(), make([]bulkhead.Query, 2), make([]bulkhead.Verdict, 2))
	if err1 == nil || err2 == nil || err3 == nil || err4 == nil || h.refused.Load() != 5 || h.looks.Load() != 0 ||
		h.votes[bulkhead.Spam].Load() != 0 {
		t.Errorf("%v, %v, %v, %v: %d refused, %d looks", err1, err2, err3, err4, h.refused.Load(), h.looks.Load())
	}
	house := &countedHouse{Counter: silent{}}
	sigs, out := []bulkhead.Signature{}, []bulkhead.Look{}
	for _, what := range []bulkhead.Aspect{bulkhead.Counts, bulkhead.Counts | bulkhead.Aside} {
		if err := house.Look(t.Context(), sigs, out, what); err != nil {
			t.Fatal(err)
		}
	}
	if err := house.CheckBatch(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if house.looks.Load() != 1 || house.refused.Load() != 0 {
		t.Errorf("%d looks, %d refused", house.looks.Load(), house.refused.Load())
	}
}
