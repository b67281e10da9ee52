package rspamd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/signature/internal/mailtest"
)

// naiveWords are the words of a text, of which none is taken for a simple one.
func naiveWords(text []byte, bare bool, limit int) []string {
	var found wordList
	oddWords(&found, text, bare, limit, nil)
	return found.strings()
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to
// break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	h := NewHasher("", "", MumHash)
	for range 4000 {
		text := mailtest.Text(r)
		stripped, limit, bare := stripText([]byte(strings.ToValidUTF8(string(text), "?"))), 1+r.IntN(90), r.IntN(2) == 0
		list, _ := wordsOf(stripped, bare, limit, nil)
		if want := naiveWords(stripped, bare, limit); !slices.Equal(list, want) {
			t.Fatalf("%d words of %q: %q, want %q", limit, stripped, list, want)
		}
		if len(list) > 0 {
			j := r.IntN(Shingles)
			seed, least := binary.LittleEndian.Uint64(h.keys[j][:]), uint64(math.MaxUint64)
			var older, old uint64
			for _, w := range list[:max(len(list)-2, 1)] {
				v := mumHash(w, seed)
				least, older, old = min(least, older>>16^old>>8^v), old, v
			}
			if got := h.Shingles(list); got[j] != least {
				t.Fatalf("shingle %d of %q: %x, want %x", j, list, got[j], least)
			}
		}
	}
}
