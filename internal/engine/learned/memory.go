package learned

import (
	"slices"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A memory remembers the tokens of recent messages. A vote may carry only a digest, and votes are taken
// back without their messages. It forgets the oldest first. Only n and bytes may be read concurrently.
type memory struct {
	limit    int64
	of       map[learn.Token]*message
	oldest   []*message // in the order in which they came
	n, bytes atomic.Int64
}

type message struct {
	text   learn.Token
	keyID  uint64
	tokens []learn.Token
}

const messageBytes = 112 // without tokens

func newMemory(limit uint64) memory {
	return memory{limit: int64(limit), of: make(map[learn.Token]*message)}
}

func (m *message) bytes() int64 { return messageBytes + 8*int64(len(m.tokens)) }

// add remembers a message. It copies the tokens.
func (m *memory) add(text learn.Token, keyID uint64, tokens []learn.Token) {
	if had := m.of[text]; had != nil && had.keyID == keyID || keyID == 0 {
		return
	}
	x := &message{text, keyID, slices.Clone(tokens)}
	m.of[text] = x
	m.oldest = append(m.oldest, x)
	m.bytes.Add(x.bytes())
	drop := 0
	for m.bytes.Load() > m.limit && drop < len(m.oldest) {
		old := m.oldest[drop]
		drop++
		m.bytes.Add(-old.bytes())
		if m.of[old.text] == old {
			delete(m.of, old.text)
		}
	}
	clear(m.oldest[:drop]) // or the array would keep them alive
	m.oldest = m.oldest[drop:]
	m.n.Store(int64(len(m.oldest)))
}

// find returns the tokens of a message under a secret, or nil.
func (m *memory) find(text learn.Token, keyID uint64) []learn.Token {
	if x := m.of[text]; x != nil && x.keyID == keyID {
		return x.tokens
	}
	return nil
}
