package learn

import (
	"cmp"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
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
	return Token(secret.KeyOf(scheme, []byte(feature)).Hi)
}

// Tokens returns the tokens of features in ascending order, at most [MaxTokens]: the smallest. The
// secret decides which these are, so a sender cannot foresee which words will count.
func Tokens(secret filter.Secret, features []string) []Token {
	return tokensOf(Select(secret, features))
}

func tokensOf(chosen []Chosen) []Token {
	if len(chosen) == 0 {
		return nil
	}
	out := make([]Token, len(chosen))
	for i := range chosen {
		out[i] = chosen[i].Token
	}
	return out
}

// A Chosen is a feature that counts, with its token.
type Chosen struct {
	Token   Token
	Feature string
}

// Select returns the features whose tokens [Tokens] returns, in the same order.
func Select(secret filter.Secret, features []string) []Chosen {
	all := make([]Chosen, len(features))
	for i, f := range features {
		all[i] = Chosen{Of(secret, f), f}
	}
	slices.SortFunc(all, func(a, b Chosen) int { return cmp.Compare(a.Token, b.Token) })
	all = slices.CompactFunc(all, func(a, b Chosen) bool { return a.Token == b.Token })
	return all[:min(len(all), MaxTokens)]
}

// Key returns the key of a token in a counting array.
func (t Token) Key() filter.Key {
	// The mixing function of SplitMix64 spreads a token, which selects the line, over the cells.
	x := uint64(t) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return filter.Key{Hi: uint64(t), Lo: x ^ x>>31}
}
