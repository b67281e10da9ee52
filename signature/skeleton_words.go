package signature

import (
	"bytes"
	"slices"
)

// A wordList is a list of words in one piece of memory.
type wordList struct {
	text []byte
	ends []int32 // end of each word in text
}

func (l *wordList) len() int { return len(l.ends) }

// size returns how many bytes of memory the list takes.
func (l *wordList) size() int { return cap(l.text) + 4*cap(l.ends) }

// at returns word i; it is l's own.
func (l *wordList) at(i int) []byte {
	start := int32(0)
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.text[start:l.ends[i]]
}

// grow makes room for the words of a text of that many bytes.
func (l *wordList) grow(size int) {
	const letters = 5 // of a word, and a blank
	l.ends = slices.Grow(l.ends, 8+min(size/letters, maxWords))
	l.text = slices.Grow(l.text, 64+min(size, letters*maxWords))
}

func (l *wordList) add(word []byte) {
	if l.ends == nil {
		l.ends = make([]int32, 0, 64)
		l.text = make([]byte, 0, 512)
	}
	l.text = append(l.text, word...)
	l.ends = append(l.ends, int32(len(l.text)))
}

// truncate keeps the first n words.
func (l *wordList) truncate(n int) {
	l.ends = l.ends[:n]
	if n == 0 {
		l.text = l.text[:0]
		return
	}
	l.text = l.text[:l.ends[n-1]]
}

// take is join for a list that is not needed any more.
func (l *wordList) take(m *wordList) {
	if l.len() == 0 && m.len() <= maxWords {
		*l, *m = *m, wordList{}
		return
	}
	l.join(m)
}

// join adds the words of m as long as there are no more than maxWords.
func (l *wordList) join(m *wordList) {
	n := min(m.len(), maxWords-l.len())
	if n <= 0 {
		return
	}
	before := int32(len(l.text))
	l.text = append(l.text, m.text[:m.ends[n-1]]...)
	for _, end := range m.ends[:n] {
		l.ends = append(l.ends, before+end)
	}
}

// startsWith reports whether the list begins with the given words.
func (l *wordList) startsWith(words ...string) bool {
	if l.len() < len(words) {
		return false
	}
	for i, w := range words {
		if string(l.at(i)) != w {
			return false
		}
	}
	return true
}

func (l *wordList) String() string {
	words := make([][]byte, l.len())
	for i := range words {
		words[i] = l.at(i)
	}
	return string(bytes.Join(words, []byte(" ")))
}

// A wordSet is a set of words that are not empty. Nearly all words that are not in it are
// recognised by their length and three of their letters. A nil *wordSet is an empty set.
type wordSet struct {
	words map[string]bool
	marks [32]uint64 // by length
}

func (s *wordSet) add(word []byte) {
	if s.words == nil {
		s.words = make(map[string]bool)
	}
	s.words[string(word)] = true
	s.marks[min(len(word), len(s.marks)-1)] |= wordMark(word)
}

func wordMark(word []byte) uint64 {
	return 1 << ((uint(word[0]) + 5*uint(word[len(word)-1]) + 11*uint(word[len(word)/2])) & 63)
}

func (s *wordSet) has(word []byte) bool {
	if s == nil || len(word) == 0 || s.marks[min(len(word), len(s.marks)-1)]&wordMark(word) == 0 {
		return false
	}
	return s.words[string(word)]
}

// enough reports whether the lists together hold a number of different words
// that are long enough together, in bytes. It stops looking when it knows.
func enough(minWords, minLetters int, lists ...*wordList) bool {
	// A text may repeat a few words without end: they are found without a map.
	seen := make([][]byte, 0, 2*minWords)
	var marks [4]uint64
	letters := 0
	for _, l := range lists {
	words:
		for i := range l.len() {
			word := l.at(i)
			if len(word) == 0 {
				continue
			}
			mark := &marks[len(word)%len(marks)]
			if bit := wordMark(word); *mark&bit == 0 {
				*mark |= bit
			} else {
				for _, s := range seen {
					if bytes.Equal(s, word) {
						continue words
					}
				}
			}
			seen = append(seen, word)
			letters += len(word)
			if len(seen) >= minWords && letters >= minLetters {
				return true
			}
		}
	}
	return false
}

// perWord returns how many of the words of l stand for one of a language that divides words by blanks: Chinese
// and Japanese are cut into pieces of a character or two.
func (l *wordList) perWord() int {
	const cut = 3
	pieces := 0
	for i := range l.len() {
		// U+3000 to U+9FFF in UTF-8.
		if word := l.at(i); len(word) > 0 && word[0] >= 0xE3 && word[0] <= 0xE9 {
			pieces++
		}
	}
	if 2*pieces > l.len() {
		return cut
	}
	return 1
}
