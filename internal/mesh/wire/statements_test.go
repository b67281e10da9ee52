package wire

import (
	"reflect"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestKept checks that statements are kept up to a size, and that those about the given arrays are
// returned, each once, as many as a question holds.
func TestKept(t *testing.T) {
	var e Evidence
	x := func(n uint64) Ref { return Ref{engine.ArrayCounts, n} }
	e.Keep(x(1), nil)
	e.Keep(x(1), make([]byte, MaxStatement+1))
	if len(e.Led) != 0 {
		t.Errorf("%d statements are kept, none of which may be", len(e.Led))
	}
	whole := make([]byte, MaxStatement)
	e.Keep(x(1), whole)
	e.Keep(x(2), []byte{2})
	e.Keep(x(3), []byte{2}) // the same message
	e.Keep(x(4), []byte{4})
	wants := func(n ...uint64) (out []ArrayHead) {
		for _, n := range n {
			out = append(out, ArrayHead{Ref: x(n)})
		}
		return out
	}
	for _, tt := range []struct {
		head  []byte
		wants []ArrayHead
		want  [][]byte
	}{
		{nil, wants(9), nil}, {[]byte{7}, wants(9), [][]byte{{7}}}, {nil, wants(2), [][]byte{{2}}},
		{[]byte{7}, wants(4, 2, 3), [][]byte{{7}, {4}, {2}}},
		{[]byte{4}, wants(4, 1), [][]byte{{4}, whole}},
		{make([]byte, MaxAsk/2-MaxStatement), wants(1), [][]byte{make([]byte, MaxAsk/2-MaxStatement), whole}},
		{make([]byte, MaxAsk/2-MaxStatement+1), wants(1, 2), [][]byte{make([]byte, MaxAsk/2-MaxStatement+1), {2}}},
	} {
		e.Head = tt.head
		if got := e.About(tt.wants); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("about %d arrays, with a head of %d bytes: %d statements, want %d", len(tt.wants), len(tt.head),
				len(got), len(tt.want))
		}
	}
	e.Head = []byte{7}
	if got := e.About(nil); len(got) != 4 {
		t.Errorf("about nothing: %d statements, want all", len(got))
	}
	for n := range uint64(20) {
		e.Keep(x(n), []byte{9, byte(n)})
	}
	if got := e.About(nil); len(got) != maxProofs || !reflect.DeepEqual(got[0], e.Head) {
		t.Errorf("%d statements, want %d", len(got), maxProofs)
	}
}
