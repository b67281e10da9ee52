package normal

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var forms = map[norm.Form]*Form{norm.NFKC: NewForm(norm.NFKC), norm.NFKD: NewForm(norm.NFKD)}

func check(t *testing.T, text []byte) {
	for form, ours := range forms {
		if got, want := ours.Append([]byte("e"), text), "e"+string(form.Bytes(text)); string(got) != want {
			t.Fatalf("form %d of %q: %q, want %q", form, text, got, want)
		}
		var got []byte
		for rest := text; len(rest) > 0; {
			var n int
			got, n = ours.AppendSome(got, rest, 1+len(text)%5)
			rest = rest[n:]
		}
		if want := form.Bytes(text); !bytes.Equal(got, want) {
			t.Fatalf("form %d of %q by pieces: %q, want %q", form, text, got, want)
		}
	}
}

// TestEvery compares the forms of every character, alone and next to characters that join,
// with the forms that the library gives.
func TestEvery(t *testing.T) {
	step := rune(1)
	if testing.Short() {
		step = 257
	}
	for r := rune(0); r <= utf8.MaxRune; r += step {
		s := string(r)
		check(t, []byte(s))
		check(t, []byte(s+s+"e"+s))
		check(t, []byte(norm.NFD.String(s)+"\u0323"+s+"\u0301"))
		check(t, []byte("\u1100"+s+"\u1161"+s+"\u11a8\u0301"+s+"\u0323\u09be"))
	}
}

// TestMixed does so for random text.
func TestMixed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []string{"\u0301", "\u0323", "\ufdfa", "\u1100", "\u1161", "\u11a8", "\uac00", "\uff76\uff9e", "e", " ",
		"\xff", "\xe4\xb8", "\u0344", "\u0f73", "\u09c7", "\u09be", "\U0001d160", "\u0340", "\u212a", "\ufeff",
		"\u034f", "\uff9e"}
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	for range n {
		var text []byte
		for range 1 + r.IntN(12) {
			switch r.IntN(4) {
			case 0:
				text = utf8.AppendRune(text, rune(r.IntN(0x3400)))
			case 1:
				for range 1 + r.IntN(40)/39*40 {
					text = append(text, "\u0301"...)
				}
			default:
				text = append(text, odd[r.IntN(len(odd))]...)
			}
		}
		check(t, text)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte("\xf2ō"))
	f.Add([]byte("aé\xf2ō"))
	f.Add([]byte("e\u0301\u0323\ufdfa\uff76\uff9e\u1100\u1161\xff\u0344"))
	f.Fuzz(func(t *testing.T, text []byte) { check(t, text) })
}
