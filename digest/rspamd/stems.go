package rspamd

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// Limits of the stems that are kept from one text to the next: few words make most of all
// texts, and stemming one costs as much as a hundred bytes of text otherwise do.
const (
	maxStems   = 1 << 13
	maxStemmed = 24 // bytes of a word
	stemWays   = 4  // words that may be kept in the same place
)

// stemLong returns the English stem of a word of more than maxStemmed bytes. The stemmer writes "Y"
// for each "y" that is a consonant, first of all, and "y" again at the end, and copies the word for
// each. It finds nothing to do here.
func stemLong(env *snowballstem.Env, word string) string {
	marked := []byte(word)
	for i, c := range marked {
		if c == 'y' && (i == 0 || strings.IndexByte("aeiouy", marked[i-1]) >= 0) {
			marked[i] = 'Y'
		}
	}
	env.SetCurrent(string(marked))
	english.Stem(env)
	return strings.ReplaceAll(env.Current(), "Y", "y")
}

// A stemCache keeps the stems of words that were seen lately. Many goroutines may use it.
type stemCache struct {
	seed  maphash.Seed
	slots [maxStems / stemWays]stemSlot
}

func newStemCache() *stemCache { return &stemCache{seed: maphash.MakeSeed()} }

// A stemSlot holds the words that were last looked for there, the latest first.
type stemSlot [stemWays]atomic.Pointer[stemmed]

type stemmed struct {
	word           [maxStemmed]byte
	size, language uint8
	cut            uint8  // bytes of the stem, if the word begins with it
	stem           string // otherwise
}

// at returns the place of a word with that hash.
func (c *stemCache) at(language int, hash uint64) *stemSlot {
	return &c.slots[(hash>>32+uint64(language))%uint64(len(c.slots))]
}

// stem returns the stem of the word, if that is what is kept here.
func (s *stemSlot) stem(language int, word string) (string, bool) {
	for i := range s {
		kept := s[i].Load()
		if kept == nil {
			break
		}
		if int(kept.size) != len(word) || int(kept.language) != language || string(kept.word[:kept.size]) != word {
			continue
		}
		if kept.stem != "" {
			return kept.stem, true
		}
		return word[:kept.cut], true
	}
	return "", false
}

// keep stores a stem in place of the oldest one. Long words are not stored, because they do not
// recur.
func (s *stemSlot) keep(language int, word, stem string) {
	if len(word) > maxStemmed {
		return
	}
	kept := &stemmed{size: uint8(len(word)), language: uint8(language)}
	copy(kept.word[:], word)
	if strings.HasPrefix(word, stem) {
		kept.cut = uint8(len(stem))
	} else {
		kept.stem = strings.Clone(stem) // which may be in the memory of a message
	}
	for i := range s {
		if kept = s[i].Swap(kept); kept == nil {
			return
		}
	}
}
