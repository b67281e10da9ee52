package rspamd

// A wordList is a list of words in one piece of memory.
type wordList struct {
	text []byte
	ends []int // of each word in text
}

func (l *wordList) len() int { return len(l.ends) }

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
