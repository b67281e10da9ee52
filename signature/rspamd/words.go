package rspamd

import (
	"bytes"
	"hash/maphash"
)

// A wordList is a list of words in one piece of memory.
type wordList struct {
	text []byte
	ends []int // of each word in text
}

func (l *wordList) len() int { return len(l.ends) }

// grow makes room for the words of a text of that many bytes.
func (l *wordList) grow(size int) {
	const letters = 6 // of a word, and a blank
	l.text = make([]byte, 0, size)
	l.ends = make([]int, 0, size/letters+8)
}

func (l *wordList) add(word string) {
	l.text = append(l.text, word...)
	l.ends = append(l.ends, len(l.text))
}

// addLower adds a word of ASCII letters in lower case.
func (l *wordList) addLower(word []byte) {
	for _, c := range word {
		l.text = append(l.text, c|0x20)
	}
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
}

// vocabularyOf returns the words of l.
func vocabularyOf(l *wordList) *vocabulary {
	all := string(l.text)
	size := 16
	for size < 2*l.len() {
		size *= 2
	}
	// The seed is random, so the author of a text cannot make its words meet in one slot.
	seed := maphash.MakeSeed()
	slots := make([]int32, size) // 1 more than the index of a word; 0 is free
	v := &vocabulary{ids: make([]int32, l.len()), words: make([]string, 0, l.len()/4+8), times: make([]int32, 0, l.len()/4+8)}
	start := 0
	for i, end := range l.ends {
		word := all[start:end]
		start = end
		at := int(maphash.String(seed, word)) & (size - 1)
		for slots[at] != 0 && v.words[slots[at]-1] != word {
			at = (at + 1) & (size - 1)
		}
		if slots[at] == 0 {
			v.words, v.times = append(v.words, word), append(v.times, 0)
			slots[at] = int32(len(v.words))
		}
		id := slots[at] - 1
		v.ids[i] = id
		v.times[id]++
	}
	return v
}

// len returns how many words the text has.
func (v *vocabulary) len() int { return len(v.ids) }

// text returns the words of the text, in order, with nothing between them.
func (v *vocabulary) text() []byte {
	size := 0
	for id, word := range v.words {
		size += int(v.times[id]) * len(word)
	}
	text := bytes.NewBuffer(make([]byte, 0, size))
	for _, id := range v.ids {
		text.WriteString(v.words[id])
	}
	return text.Bytes()
}

// strings returns the words of the text, in order.
func (v *vocabulary) strings() []string {
	words := make([]string, len(v.ids))
	for i, id := range v.ids {
		words[i] = v.words[id]
	}
	return words
}
