package edge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// TestBatcher checks how waiting requests are divided into batches, and that a malformed request alone is refused.
func TestBatcher(t *testing.T) {
	const malformed, lost = 13, 99
	errs := map[int]error{malformed: fmt.Errorf("%w: 13", bulkhead.ErrMalformed), lost: errors.New("connection reset")}
	var batches [][]int
	var last context.Context
	b := &batcher[int, string]{timeout: time.Minute, size: 2, limit: 7, busy: true,
		send: func(ctx context.Context, asks []int) ([]result[string], error) {
			batches, last = append(batches, asks), ctx
			var out []result[string]
			for _, ask := range asks {
				if errs[ask] != nil {
					return nil, errs[ask]
				}
				out = append(out, result[string]{answer: fmt.Sprint(ask)})
			}
			return out, nil
		}}
	var waiting []*question[int, string]
	for _, ask := range []int{1, 2, malformed, 4, lost, 6, 7} {
		waiting = append(waiting, &question[int, string]{ask, make(chan result[string], 1)})
	}
	b.waiting = slices.Clone(waiting)
	b.run()
	want := [][]int{{1, 2}, {malformed, 4}, {malformed}, {4}, {lost, 6}, {7}}
	if !slices.EqualFunc(batches, want, slices.Equal[[]int]) {
		t.Errorf("batches %v, want %v", batches, want)
	}
	for _, q := range waiting {
		got, want := <-q.answer, result[string]{answer: fmt.Sprint(q.ask), err: errs[q.ask]}
		if q.ask == 6 {
			want.err = errs[lost] // of its batch
		}
		if want.err != nil {
			want.answer = ""
		}
		if got != want {
			t.Errorf("%d is answered %+v, want %+v", q.ask, got, want)
		}
	}
	if last.Err() == nil {
		t.Error("the context of a request outlives it")
	}
	if got, err := b.do(t.Context(), 8); got != "8" || err != nil {
		t.Errorf("after all batches: %q, %v", got, err)
	}
}
