package scan

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestByteSet compares Index with a search of one byte after the other, for sets of all shapes.
func TestByteSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, members := range []string{"", "\x00", "\n", " ", "&", ":@.", "\r\n<>", "\xff", "\x80", "\xc2\xe2&",
		" \t\n&", "abcdef", "\x7f", "<\x00\x80", "!&=>~\n\xf0"} {
		set := NewByteSet(members)
		for c := range 256 {
			if got, want := set.has[c], strings.IndexByte(members, byte(c)) >= 0; got != want {
				t.Errorf("%q has %#x: %t, want %t", members, c, got, want)
			}
		}
		for range 5_000 {
			text := make([]byte, r.IntN(40))
			odd := 1 + r.IntN(20)
			for i := range text {
				switch text[i] = 'a' + byte(r.IntN(26)); {
				case r.IntN(odd) > 0:
				case members != "" && r.IntN(2) == 0:
					// A neighbour of a member, or the member with its highest bit flipped.
					text[i] = members[r.IntN(len(members))] + []byte{0, 1, 0xFF, 0x80}[r.IntN(4)]
				default:
					text[i] = byte(r.IntN(256))
				}
			}
			from := r.IntN(len(text) + 1)
			want := from
			for want < len(text) && strings.IndexByte(members, text[want]) < 0 {
				want++
			}
			if got := set.Index(text, from); got != want {
				t.Fatalf("%q in %q from %d: %d, want %d", members, text, from, got, want)
			}
		}
	}
}
