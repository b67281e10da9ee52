package wire

import (
	"encoding/binary"
	"testing"
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
