package learn

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/text/scan"
)

// MaxTokens is the largest number of tokens of a message.
const MaxTokens = 200

// A Token stands for a feature under the secret of a network. Without the secret, the feature of a
// token cannot be guessed.
type Token uint64

// scheme is the name under which features are hashed.
const scheme = "learn/1"

// Of returns the token of a feature.
func Of(secret filter.Secret, feature string) Token {
	return Token(secret.KeyOf(scheme, scan.Bytes(feature)).Hi)
}

// Tokens returns the tokens of features in ascending order, at most [MaxTokens]: the smallest. The
// secret decides which these are, so a sender cannot foresee which words will count.
func Tokens(secret filter.Secret, features []string) []Token {
	c := newChooser(secret, 0)
	defer choosers.Put(c)
	out := slices.Grow([]Token(nil), len(features))
	for _, f := range features {
		out = append(out, c.token(scan.Bytes(f)))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), MaxTokens)]
}

// Select returns the tokens of [Tokens], which it writes over dst, and the features that they stand for. The features
// of [Counting] are in this order already, unless the secret has changed since.
func Select(dst []Token, secret filter.Secret, features []string) (tokens []Token, chosen []string) {
	c := newChooser(secret, 0)
	defer choosers.Put(c)
	tokens = slices.Grow(dst[:0], len(features))
	ascending, last := len(features) <= MaxTokens, Token(0)
	for i, f := range features {
		t := c.token(scan.Bytes(f))
		ascending = ascending && (i == 0 || t > last)
		tokens, last = append(tokens, t), t
	}
	if ascending {
		return tokens, features
	}
	of := make(map[Token]string, len(features))
	for i, t := range tokens {
		of[t] = features[i]
	}
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	tokens = tokens[:min(len(tokens), MaxTokens)]
	for _, t := range tokens {
		chosen = append(chosen, of[t])
	}
	return tokens, chosen
}

// A chooser keeps the features with the smallest tokens, none twice. Nothing is kept of the others, which
// are most features of a long message.
type chooser struct {
	secret filter.Secret
	known  scan.Words // tokens under that secret
	most   int        // features that are kept
	chosen []place
	room   []place // to sort them
	text   []byte
	seen   [1 << 10]Token // the latest, by their last bits
	last   Token          // no greater token can be among the smallest
}

// A place is where the text of a feature is.
type place struct {
	Token
	from, to uint32
}

// choosers are used again, with their memory and what they know.
var choosers = sync.Pool{New: func() any { return new(chooser) }}

func newChooser(secret filter.Secret, most int) *chooser {
	c := choosers.Get().(*chooser)
	if c.secret != secret {
		c.secret = secret
		clear(c.known[:])
	}
	clear(c.seen[:])
	c.seen[0] = 1 // or token 0 would seem to be there; no token of this place ends with a 1
	c.most, c.chosen, c.text, c.last = most, c.chosen[:0], c.text[:0], math.MaxUint64
	return c
}

func (c *chooser) token(feature []byte) Token {
	return Token(c.known.Of(feature, func(feature []byte) uint64 { return c.secret.KeyOf(scheme, feature).Hi }))
}

// add adds a feature. It does not keep it.
func (c *chooser) add(feature []byte) {
	t := c.token(feature)
	last := &c.seen[t%Token(len(c.seen))]
	if t > c.last || *last == t {
		return
	}
	*last = t
	from := len(c.text)
	c.text = append(c.text, feature...)
	c.chosen = append(c.chosen, place{t, uint32(from), uint32(len(c.text))})
	if len(c.chosen) >= 2*c.most {
		c.drop()
	}
}

// drop drops all but the smallest, and those that came twice.
func (c *chooser) drop() {
	c.sort()
	c.chosen = slices.CompactFunc(c.chosen, func(a, b place) bool { return a.Token == b.Token })
	if len(c.chosen) >= c.most {
		c.chosen = c.chosen[:c.most]
		c.last = c.chosen[c.most-1].Token
	}
}

// sort sorts the features by their tokens. Tokens are hashes: by the first bits that differ, there are one or two in
// each of 256 ranges. To compare all with each other took a fifth of the time of a message.
func (c *chooser) sort() {
	const ranges = 1 << 8
	shift := max(0, bits.Len64(uint64(c.last))-8)
	var ends [ranges]int
	for _, p := range c.chosen {
		ends[p.Token>>shift]++
	}
	at := 0
	for i, n := range ends {
		ends[i] = at
		at += n
	}
	c.room = slices.Grow(c.room[:0], len(c.chosen))[:len(c.chosen)]
	for _, p := range c.chosen {
		i := p.Token >> shift
		c.room[ends[i]] = p
		ends[i]++
	}
	c.chosen, c.room = c.room, c.chosen
	at = 0
	for _, end := range ends {
		if end-at > 1 {
			slices.SortFunc(c.chosen[at:end], func(a, b place) int { return cmp.Compare(a.Token, b.Token) })
		}
		at = end
	}
}

// features returns the features that are kept, in the order of their tokens.
func (c *chooser) features() []string {
	c.drop()
	size := 0
	for _, p := range c.chosen {
		size += int(p.to - p.from)
	}
	kept := make([]byte, 0, size) // of which the features are parts
	out := make([]string, len(c.chosen))
	for i, p := range c.chosen {
		from := len(kept)
		kept = append(kept, c.text[p.from:p.to]...)
		out[i] = scan.String(kept[from:])
	}
	return out
}

// Key returns the key of a token in a counting array.
func (t Token) Key() filter.Key {
	// The mixing function of SplitMix64 spreads a token, which selects the line, over the cells.
	x := uint64(t) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return filter.Key{Hi: uint64(t), Lo: x ^ x>>31}
}
