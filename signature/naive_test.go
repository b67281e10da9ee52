package signature

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dchest/siphash"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// The functions of this file do slowly, as the protocols describe it, what the
// package does by tables, in blocks and by runs.

func (f *folder) naiveFold(line []byte) {
	start := f.paragraph.len()
	for at := 0; at < len(line); {
		if line[at] == ' ' || line[at] == '\t' {
			at++
			continue
		}
		chunk := line[at:min(at+maxChunk, len(line))]
		if i := bytes.IndexAny(chunk, " \t"); i >= 0 {
			chunk = chunk[:i]
		}
		at += len(chunk)
		f.chunk(chunk, true)
		n := f.paragraph.len() - start
		if n > 0 && n <= 6 && greetings.words[string(f.paragraph.at(start))] &&
			(at >= len(line) || endsGreeting(chunk[len(chunk)-1])) {
			f.flushSingles()
			f.paragraph.truncate(start)
			start = -maxWords
		}
	}
	f.flushSingles()
}

func naiveMinima(k *nearKey, list *wordList, salt uint64) (minima [NearBands * nearRows]uint64) {
	for i := range minima {
		minima[i] = math.MaxUint64
		for n := 1; n < list.len(); n++ {
			x := mix(mix(salt^siphash.Hash(k.k0, k.k1, list.at(n-1))) ^ siphash.Hash(k.k0, k.k1, list.at(n)))
			minima[i] = min(minima[i], x*k.mul[i]+k.add[i])
		}
	}
	return minima
}

func naiveContacts(text []byte, found func(name string)) {
	before := byte(' ')
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '+' || c == '(' || '0' <= c && c <= '9' || c >= 0x80:
			if number, n := phone(text[at:], before); n > 0 {
				found("tel:" + number)
				at += n
				before = '0'
				continue
			}
			fallthrough
		default:
			n := 0
			for n < len(text)-at && alphanumeric(text[at+n]) {
				n++
			}
			if n >= 15 && n <= maxContactWord && !joined(before) {
				if name := wallet(string(text[at : at+n])); name != "" {
					found(name)
				}
			} else if n == 4 {
				if name := iban(text[at:]); name != "" && !joined(before) {
					found(name)
				}
			}
			n = max(n, 1)
			before = text[at+n-1]
			at += n
		}
	}
}

// rounds returns how many random inputs a test tries: n, or a tenth with -short, because under the race detector the
// others take minutes in one goroutine.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// TestFastAsNaive holds the fast ways to the slow ones on random text made to
// break them.
func TestFastAsNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	key := newNearKey([16]byte{1})
	for range rounds(4000) {
		text := mailtest.Text(r)
		recipient := recipientWords([]string{"Bob Miller <bob@example.com>"})
		fast, slow := folder{recipient: recipient}, folder{recipient: recipient}
		fast.fold(text)
		slow.naiveFold(text)
		if got, want := fast.paragraph.String(), slow.paragraph.String(); got != want {
			t.Fatalf("%q folded: %q, want %q", text, got, want)
		}
		if list := &fast.paragraph; list.len() >= nearMinWords && enough(nearMinDistinct, nearMinLetters, list) {
			minima := naiveMinima(key, list, quotedSalt)
			for b, band := range key.bands(list, key.hashed(list), quotedSalt) {
				block := []byte{byte(b)}
				for _, m := range minima[b*nearRows : (b+1)*nearRows] {
					block = binary.BigEndian.AppendUint64(block, m)
				}
				hi, lo := siphash.Hash128(key.k0, key.k1, block)
				want := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, hi), lo)
				want[0] = byte(b)
				if !bytes.Equal(band[:], want) {
					t.Fatalf("band %d of %q: %x, want %x", b, list, band, want)
				}
			}
		}
	}
}
