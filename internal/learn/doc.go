// Package learn judges a message by its words and its style: by how often mail with them was
// reported as spam, against how often it was delivered. It is pure: it reads messages and computes
// scores, and stores nothing.
//
//	features, err := learn.Features(ctx, message)
//	tokens := learn.Tokens(secret, features) // at most 200
//	score := learn.Score(totals, counts)     // counts[i] of tokens[i]
//
// Readers seldom mark mail as wanted, so nothing is learnt from such marks alone. Delivered mail is
// wanted mail, and spam that was not reported. The share of spam that is reported determines how much
// of it is spam.
//
// Source: Robinson, "A Statistical Approach to the Spam Problem" (2003), for the combination of
// words by Fisher's method. docs/learning.md has the measurements.
package learn
