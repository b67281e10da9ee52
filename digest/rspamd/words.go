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

// strings returns the words.
func (l *wordList) strings() []string {
	all := string(l.text)
	words := make([]string, l.len())
	start := 0
	for i, end := range l.ends {
		words[i], start = all[start:end], end
	}
	return words
}

// A vocabulary is the words of a text, each kept once: a text has few words that it does
// not repeat, and stemming and hashing one costs more than to find it here.
type vocabulary struct {
	words []string // in the order in which they come first
	ids   []int32  // for each word of the text its index in words
	times []int32  // how often each is there
	hash  []uint64 // of each word
	slots []int32  // 1 more than the index of a word, by its hash; 0 is free

	// Working space for shingles. Words have other numbers here, see bySize.
	placed []int32             // the words of the text
	last   []int32             // where each word is in placed for the last time
	before []int32             // for each of placed, where its word is for the last time before; -1 if nowhere
	ranks  []int32             // for each word the number that it has here
	ranked []int32             // the ranks of the words of the text
	sizes  [mumBlock + 1]int32 // up to where words of each size are
	tails  []uint64            // what each word of up to a block is, to its hash
	long   []int32             // the other words, in order
	sums   []uint64            // the hash of each
	near   []int32             // words whose hashes may be the least, see leastMix
}

// take makes v the words of l, in whose memory they stay. The seed is random, so that the
// author of a text cannot make its words meet in one slot.
func (v *vocabulary) take(l *wordList, seed maphash.Seed) {
	all := scan.String(l.text)
	size := 16
	for size < 2*l.len() {
		size *= 2
	}
	v.slots = sized(v.slots, size)
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

// bySize numbers words by their size for minMum, those of more than a block last, and returns ids with these numbers.
func (v *vocabulary) bySize(ids []int32, words []string) []int32 {
	var next [mumBlock + 2]int32 // for each size the number of its next word
	for _, w := range words {
		next[min(len(w), mumBlock+1)]++
	}
	at := int32(0)
	for size, n := range next {
		next[size] = at
		if at += n; size <= mumBlock {
			v.sizes[size] = at
		}
	}
	v.ranks, v.tails, v.long = sized(v.ranks, len(words)), sized(v.tails, len(words)), v.long[:0]
	for id, w := range words {
		size := min(len(w), mumBlock+1)
		rank := next[size]
		next[size]++
		v.ranks[id] = rank
		if size <= mumBlock {
			v.tails[rank] = mumTailOf(w)
		} else {
			v.long = append(v.long, int32(id))
		}
	}
	v.ranked = sized(v.ranked, len(ids))
	for i, id := range ids {
		v.ranked[i] = v.ranks[id]
	}
	return v.ranked
}

// sized returns a slice of n numbers, in the memory of s if that is enough.
//
//go:noinline
func sized[T int32 | uint64](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// place records in v where in ids each word is; words is the number of different words.
func (v *vocabulary) place(ids []int32, words int) {
	v.last, v.before = sized(v.last, words), sized(v.before, len(ids))
	for id := range v.last {
		v.last[id] = -1
	}
	for at, id := range ids {
		v.before[at], v.last[id] = v.last[id], int32(at)
	}
	v.placed = ids
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

// strings returns the words of the text, in order.
func (v *vocabulary) strings() []string {
	words := make([]string, len(v.ids))
	for i, id := range v.ids {
		words[i] = v.words[id]
	}
	return words
}
