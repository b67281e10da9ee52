package fuzzy

import (
	"crypto/sha512"
	"math"
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// maxLists is how many lists (flags) may be in use at once: each costs every check one
// look-up for its digest and 10 for its shingles.
const maxLists = 24

// The counters of an account, except those since a delete.
var (
	added   = ledger.Part{Kind: ledger.Added}
	taken   = ledger.Part{Kind: ledger.Taken}
	deletes = ledger.Part{Kind: ledger.Deletes}
)

// kind is the byte of a counter in its signature.
func kind(p ledger.Part) byte {
	const since = 3 // and 4, for each delete
	switch p.Kind {
	case ledger.Added:
		return 0
	case ledger.Taken:
		return 1
	case ledger.Deletes:
		return 2
	case ledger.AddedSince:
		return since + 2*p.Epoch
	}
	return since + 2*p.Epoch + 1
}

// counterSignature returns a counter of account i of a message on a list: of its digest,
// and then of its bands or of the third copy of its digest.
func counterSignature(r *Request, flag uint8, p ledger.Part, i int) bulkhead.Signature {
	if i >= 2 && r.Shingled {
		return rspamd.Band(&r.Shingles, listOf(flag, p), i-2)
	}
	return digestSignature(&r.Digest, flag, p, byte(i))
}

// listOf returns the number of a counter's list of bands.
func listOf(flag uint8, p ledger.Part) uint32 { return uint32(flag) | uint32(kind(p))<<8 }

// numAccounts is how many accounts a message has on each list.
func numAccounts(r *Request) int {
	if r.Shingled {
		return 2 + rspamd.Bands
	}
	return 3
}

// digestSignature returns a counter of a digest on a list. The digest gives 60 of its 64
// bytes, which is practically unique; the rest identifies the counter.
//
// About one in a hundred filter look-ups shows a counter that was never raised. So each
// digest has a second one, and a third if it has no shingles to confirm it: copies 1 and
// 2.
func digestSignature(digest *[DigestSize]byte, flag uint8, p ledger.Part, copy byte) bulkhead.Signature {
	sum := *digest
	sum[60], sum[61], sum[62], sum[63] = flag, kind(p), 'f', copy
	return bulkhead.MustSignature(bulkhead.RspamdText, sum[:])
}

// plainSignature is the digest itself, on which all front doors vote.
func plainSignature(digest *[DigestSize]byte) bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.RspamdText, digest[:])
}

// listSignature is the counter of a list in use.
func listSignature(flag uint8) bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.RspamdText, append([]byte("bulkhead fuzzy list "), flag))
}

// takenSignature is the counter that shows whether anything was ever taken away.
func takenSignature() bulkhead.Signature {
	return bulkhead.MustSignature(bulkhead.RspamdText, []byte("bulkhead fuzzy taken"))
}

func appendBands(dst []bulkhead.Signature, r *Request, flag uint8, p ledger.Part) []bulkhead.Signature {
	return rspamd.AppendBands(dst, &r.Shingles, listOf(flag, p))
}

// A hit is the result for a message on one list.
type hit struct {
	flag  uint8
	value uint32
	first uint32 // seconds since 1970
	agree uint32 // bands that agree; 0 for a hit of the digest itself
	// chance is the probability that filter errors show the counters of the digest.
	chance float64
	// account is the balance of the amounts taken away, until value excludes them.
	account ledger.Balance
}

func seconds(l *bulkhead.Look) uint32 { return uint32(max(0, min(l.First, math.MaxUint32))) }

// Limits of a near match.
const (
	minBands = rspamd.Match
	// maxChance bounds the probability that the bands of an unknown text agree by filter
	// errors alone.
	maxChance = 1e-5
)

// bandsWanted is how many bands must agree when each of them is shown by error
// with probability p: the smallest m of at least minBands for which
// C(bands,m) p^m, a bound of the binomial tail, is at most maxChance.
func bandsWanted(p float64) int {
	choose := 1.0
	for m := 1; m <= rspamd.Bands; m++ {
		choose *= float64(rspamd.Bands-m+1) / float64(m)
		if m >= minBands && choose*math.Pow(p, float64(m)) <= maxChance {
			return m
		}
	}
	return rspamd.Bands + 1
}

// nearHit returns the hit of the remaining bands of one list.
func nearHit(flag uint8, bands []bulkhead.Look) (hit, bool) {
	h := hit{flag: flag, first: math.MaxUint32}
	var values [rspamd.Bands]uint32
	n, chance := 0, 0.0
	for b := range bands {
		l := &bands[b]
		if l.Sightings == 0 {
			continue
		}
		values[n] = l.Sightings
		n++
		h.agree |= 1 << b
		h.first = min(h.first, seconds(l))
		chance = max(chance, l.Error)
	}
	if n == 0 || n < bandsWanted(chance) {
		return hit{}, false
	}
	// A band shared with other messages shows too much, one shown by error too little:
	// the median shows neither.
	slices.Sort(values[:n])
	h.value = values[(n-1)/2]
	return h, true
}

// votedHit returns the hit of bands on which other front doors voted.
func votedHit(flag uint8, looks []bulkhead.Look) (hit, bool) {
	h := hit{flag: flag, first: math.MaxUint32}
	var values [rspamd.Bands]float64
	n := 0
	for b := range looks {
		l := &looks[b]
		if l.Judged != bulkhead.JudgedSpam {
			continue
		}
		values[n] = float64(l.Confidence)
		if l.Spam < 2 {
			values[n] = min(values[n], suspectedConfidence)
		}
		n++
		h.agree |= 1 << b
		h.first = min(h.first, seconds(l))
	}
	if n < minBands {
		return hit{}, false
	}
	slices.Sort(values[:n])
	h.value = listingValue(values[(n-1)/2], float64(h.prob()))
	return h, true
}

// fullConfidence is the confidence of a listing whose value is fullValue: the confidence of one
// trusted vote.
const fullConfidence, fullValue = 80, 20

// suspectedConfidence is the largest confidence of a changed copy of a message that only
// one voice calls spam: it is suspected, and should be tagged rather than refused.
const suspectedConfidence = 20

// listingValue returns the value of a listing: fullValue/fullConfidence for each point
// of confidence, times how much of the text agrees. It is at least 1, since 0 would be
// no hit.
//
// Clients turn a value into a share of a symbol's score by tanh(e value/limit),
// docs/specs/rspamd-fuzzy.md#client-behaviour. With the limit of our documentation, 20,
// a listing of confidence 80 has 0.99 of the score, one of 50 has 0.94.
func listingValue(confidence, prob float64) uint32 {
	return uint32(max(1, math.Round(confidence*prob*fullValue/fullConfidence)))
}

// prob returns the share of a text that agreed, for the reply.
func (h *hit) prob() float32 {
	if h.agree == 0 {
		return 1
	}
	return float32(rspamd.Equal(h.agree)) / rspamd.Shingles
}

// nearDigest returns the digest in the reply to a near match. The node does not know
// which message was stored, and clients would take the digest that they sent for an
// exact match. So it is made of the first band that agrees: copies found by one band
// share one name.
func nearDigest(r *Request, h *hit) [DigestSize]byte {
	band := rspamd.Band(&r.Shingles, uint32(h.flag), bits.TrailingZeros32(h.agree))
	return sha512.Sum512(band.Sum())
}

// better reports whether a precedes b in a reply.
func (a hit) better(b hit) int {
	if d := bits.OnesCount32(b.agree) - bits.OnesCount32(a.agree); d != 0 {
		return d
	}
	switch {
	case a.value > b.value:
		return -1
	case a.value < b.value:
		return 1
	}
	return int(a.flag) - int(b.flag)
}
