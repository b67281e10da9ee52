package rspamd

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Limits of the stems that are kept from one text to the next: few words make most of all
// texts, and stemming one costs as much as a hundred bytes of text otherwise do.
const (
	maxStems   = 1 << 13
	maxStemmed = 24 // bytes of a word
)

// A stemCache keeps the stems of words that were seen lately. Many goroutines may use it.
type stemCache struct {
	seed  maphash.Seed
	slots [maxStems]stemSlot
}

func newStemCache() *stemCache { return &stemCache{seed: maphash.MakeSeed()} }

// A stemSlot holds the word that was last looked for there.
type stemSlot struct{ atomic.Pointer[stemmed] }

type stemmed struct {
	language   int
	word, stem string
}

// at returns the place of a word.
func (c *stemCache) at(language int, word string) *stemSlot {
	return &c.slots[(maphash.String(c.seed, word)+uint64(language))%maxStems]
}

// stem returns the stem of the word, if that is what is kept here.
func (s *stemSlot) stem(language int, word string) (string, bool) {
	if kept := s.Load(); kept != nil && kept.language == language && kept.word == word {
		return kept.stem, true
	}
	return "", false
}

// keep keeps a stem. What is long is not kept: it does not come again.
func (s *stemSlot) keep(language int, word, stem string) {
	if len(word) > maxStemmed {
		return
	}
	// Neither may hold on to the text of a message.
	word = strings.Clone(word)
	if strings.HasPrefix(word, stem) {
		stem = word[:len(stem)]
	} else {
		stem = strings.Clone(stem)
	}
	s.Store(&stemmed{language, word, stem})
}
