package wire

import (
	"encoding/binary"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// TestFirstFault checks that a reader ends at the first fault of a message, and keeps nothing of the thousand items
// that the message claims to hold: a peer sends as many such messages as it likes.
func TestFirstFault(t *testing.T) {
	hostile := append(binary.AppendUvarint(nil, 1000), 0x7f) // of an array that does not exist
	hostile = append(hostile, make([]byte, 10_000)...)
	for name, read := range map[string]func(*reader) int{
		"rounds": func(r *reader) int {
			var m Message
			r.rounds(&m)
			return len(m.Rounds)
		},
		"heads": func(r *reader) int { return len(r.heads()) },
		"wants": func(r *reader) int { return len(r.wants()) },
		"items": func(r *reader) int {
			r.items(maxProofs)
			return len(r.sizes)
		},
	} {
		r := &reader{b: hostile}
		if kept := read(r); kept > 0 || r.err == nil {
			t.Errorf("%s: %d are kept, %v", name, kept, r.err)
		}
	}
}

// TestFormerSecret checks that an array's secret is the network's present one or a former one, and is written in one
// way: the present secret under the mark of a former one is refused.
func TestFormerSecret(t *testing.T) {
	geometry := func(k byte, id ...uint64) []byte {
		b := append(binary.AppendUvarint(nil, filter.PageLines), k)
		for _, x := range id {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	for name, tt := range map[string]struct {
		data []byte
		want uint64 // 0: refused
	}{
		"the present one":             {geometry(8), 7},
		"a former one":                {geometry(8|flagFormer, 8), 8},
		"the present one as a former": {geometry(8|flagFormer, 7), 0},
		"a former one cut off":        {geometry(8|flagFormer, 8)[:9], 0},
	} {
		r := &reader{b: tt.data, keyID: 7}
		if g := r.geometry(engine.ArraySpam); (r.err == nil) != (tt.want != 0) || r.err == nil && g.KeyID != tt.want {
			t.Errorf("%s: secret %d, %v; want %d", name, g.KeyID, r.err, tt.want)
		}
	}
}

// TestNewer checks the order of messages of one incarnation: by process, and then by number.
func TestNewer(t *testing.T) {
	for _, tt := range []struct {
		a, b Stamp
		want bool
	}{
		{Stamp{Boot: 2, Seq: 1}, Stamp{Boot: 1, Seq: 9}, true}, {Stamp{Boot: 1, Seq: 9}, Stamp{Boot: 2, Seq: 1}, false},
		{Stamp{Boot: 1, Seq: 2}, Stamp{Boot: 1, Seq: 1}, true}, {Stamp{Boot: 1, Seq: 1}, Stamp{Boot: 1, Seq: 1}, false},
		{Stamp{Boot: 1, Seq: 1}, Stamp{Boot: 1, Seq: 2}, false},
	} {
		if got := tt.a.Newer(tt.b); got != tt.want {
			t.Errorf("%+v after %+v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
