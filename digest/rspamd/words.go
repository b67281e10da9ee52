package rspamd

import (
	"hash/maphash"
	"slices"

	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// A wordList is a list of words in one piece of memory.
type wordList struct {
	text []byte
	ends []int // of each word in text
}

func (l *wordList) len() int { return len(l.ends) }

// empty makes the list empty, with room for the words of a text of that many bytes.
func (l *wordList) empty(size int) {
	const letters = 6 // of a word, and a blank
	l.text = slices.Grow(l.text[:0], size+8)
	l.ends = slices.Grow(l.ends[:0], size/letters+8)
}

func (l *wordList) add(word string) {
	l.text = append(l.text, word...)
	l.ends = append(l.ends, len(l.text))
}

// A vocabulary is the words of a text, each kept once: a text has few words that it does
// not repeat, and stemming and hashing one costs more than to find it here.
type vocabulary struct {
	words []string // in the order in which they come first
	ids   []int32  // for each word of the text its index in words
	times []int32  // how often each is there
	hash  []uint64 // of each word
	slots []int32  // 1 more than the index of a word, by its hash; 0 is free

	// Working space for shingles.
	tails []uint64 // of each word, the last bytes' contribution to its hash, which depends on no seed
	sums  []uint64 // hash of each word for one shingle
}

// take makes v the words of l, in whose memory they stay. The seed is random, so that the
// author of a text cannot make its words meet in one slot.
func (v *vocabulary) take(l *wordList, seed maphash.Seed) {
	all := scan.String(l.text)
	size := 16
	for size < 2*l.len() {
		size *= 2
	}
	v.slots = slices.Grow(v.slots[:0], size)[:size]
	clear(v.slots)
	v.ids = slices.Grow(v.ids[:0], l.len())
	v.words, v.times, v.hash = v.words[:0], v.times[:0], v.hash[:0]
	start := 0
	for _, end := range l.ends {
		word := all[start:end]
		start = end
		hash := maphash.String(seed, word)
		at := int(hash) & (size - 1)
		for v.slots[at] != 0 && v.words[v.slots[at]-1] != word {
			at = (at + 1) & (size - 1)
		}
		if v.slots[at] == 0 {
			v.words, v.times, v.hash = append(v.words, word), append(v.times, 0), append(v.hash, hash)
			v.slots[at] = int32(len(v.words))
		}
		id := v.slots[at] - 1
		v.ids = append(v.ids, id)
		v.times[id]++
	}
}

// len returns how many words the text has.
func (v *vocabulary) len() int { return len(v.ids) }

// appendText appends the words of the text, in order, with nothing between them.
func (v *vocabulary) appendText(dst []byte) []byte {
	size := 0
	for id, word := range v.words {
		size += int(v.times[id]) * len(word)
	}
	dst = slices.Grow(dst, size)
	for _, id := range v.ids {
		dst = append(dst, v.words[id]...)
	}
	return dst
}
