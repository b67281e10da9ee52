package fuzzy

import (
	"math"
	"math/bits"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// maxLists is how many lists (flags) may be in use at once: each costs every
// check a look-up for its digest and 10 for its shingles.
const maxLists = 24

// What the counters of a digest or band count. epochs are its deletes, see
// epochOf; the kinds from since on are of what came after one of them.
const (
	added = iota
	taken
	epochs
	since
)

// counterSignature is counter i of a message on a list: of its digest, and then
// of its bands or of the third copy of its digest.
func counterSignature(r *Request, flag, kind byte, i int) bulkhead.Signature {
	if i >= 2 && r.Shingled {
		return signature.RspamdBand(&r.Shingles, uint32(flag)|uint32(kind)<<8, i-2)
	}
	return digestSignature(&r.Digest, flag, kind, byte(i))
}

// numCounters is how many counters a message has on each list.
func numCounters(r *Request) int {
	if r.Shingled {
		return 2 + signature.RspamdBands
	}
	return 3
}

// digestSignature is a counter of a digest on a list. The digest gives 60 of
// its 64 bytes: as good as all, and the rest says what is counted.
//
// One counter of a filter shows a digest that was never written once in some
// hundred times. So each digest has a second one, and a third if it has no
// shingles that could speak for it: copies 1 and 2.
func digestSignature(digest *[DigestSize]byte, flag uint8, kind byte, copy byte) bulkhead.Signature {
	sum := *digest
	sum[60], sum[61], sum[62], sum[63] = flag, kind, 'f', copy
	return mustSignature(bulkhead.RspamdText, sum[:])
}

// plainSignature is the digest itself, on which all front doors vote.
func plainSignature(digest *[DigestSize]byte) bulkhead.Signature {
	return mustSignature(bulkhead.RspamdText, digest[:])
}

// listSignature is the counter that says that a list is in use.
func listSignature(flag uint8) bulkhead.Signature {
	return mustSignature(bulkhead.RspamdText, append([]byte("bulkhead fuzzy list "), flag))
}

// takenSignature is the counter that says that anything was ever taken away.
func takenSignature() bulkhead.Signature {
	return mustSignature(bulkhead.RspamdText, []byte("bulkhead fuzzy taken"))
}

func appendBands(dst []bulkhead.Signature, r *Request, flag uint8, kind int) []bulkhead.Signature {
	return signature.AppendRspamdBands(dst, &r.Shingles, uint32(flag)|uint32(kind)<<8)
}

// mustSignature is for sums that are never refused: of 1 to 64 bytes.
func mustSignature(scheme bulkhead.Scheme, sum []byte) bulkhead.Signature {
	sig, err := bulkhead.NewSignature(scheme, sum)
	if err != nil {
		panic(err)
	}
	return sig
}

// A hit is what is known of a message on one list.
type hit struct {
	flag  uint8
	value uint32
	first uint32 // seconds since 1970
	agree uint32 // bands that agree; 0 for a hit of the digest itself
	// chance is the probability that the counters of the digest are shown by
	// error.
	chance float64
	// minus and epochs are what is known of deletes, until it has been accounted for.
	minus, epochs uint32
}

// total is what a counter of additions and one of subtractions leave.
func total(plus, minus uint32) uint32 { return plus - min(plus, minus) }

func seconds(l *bulkhead.Look) uint32 { return uint32(max(0, min(l.First, math.MaxUint32))) }

// Limits of a near match.
const (
	minBands = signature.RspamdMatch
	// maxChance bounds the probability that the bands of an unknown text agree
	// by errors of the filters alone.
	maxChance = 1e-5
)

// bandsWanted is how many bands must agree when each of them is shown by error
// with probability p: the smallest m of at least minBands for which
// C(bands,m) p^m, a bound of the binomial tail, is at most maxChance.
func bandsWanted(p float64) int {
	choose := 1.0
	for m := 1; m <= signature.RspamdBands; m++ {
		choose *= float64(signature.RspamdBands-m+1) / float64(m)
		if m >= minBands && choose*math.Pow(p, float64(m)) <= maxChance {
			return m
		}
	}
	return signature.RspamdBands + 1
}

// nearHit judges what is known of the bands of one list, additions and
// subtractions.
func nearHit(flag uint8, plus, minus []bulkhead.Look) (hit, bool) {
	h := hit{flag: flag, first: math.MaxUint32}
	var values [signature.RspamdBands]uint32
	n, chance := 0, 0.0
	for b := range plus {
		v := plus[b].Sightings
		if minus != nil {
			v = total(plus[b].Sightings, minus[b].Sightings)
		}
		if v == 0 {
			continue
		}
		values[n] = v
		n++
		h.agree |= 1 << b
		h.first = min(h.first, seconds(&plus[b]))
		chance = max(chance, plus[b].Error)
	}
	if n == 0 || n < bandsWanted(chance) {
		return hit{}, false
	}
	// A band that other messages share shows too much, one shown by error too
	// little: the median shows neither.
	slices.Sort(values[:n])
	h.value = values[(n-1)/2]
	return h, true
}

// votedHit judges bands on which other front doors voted.
func votedHit(flag uint8, looks []bulkhead.Look) (hit, bool) {
	h := hit{flag: flag, first: math.MaxUint32}
	var votes [signature.RspamdBands]uint32
	n := 0
	for b := range looks {
		l := &looks[b]
		if l.Judged != bulkhead.JudgedSpam {
			continue
		}
		votes[n] = max(l.Spam, 1)
		n++
		h.agree |= 1 << b
		h.first = min(h.first, seconds(l))
	}
	if n < minBands {
		return hit{}, false
	}
	slices.Sort(votes[:n])
	h.value = votes[(n-1)/2]
	return h, true
}

// prob is what a reply says of how much of a text agreed.
func (h *hit) prob() float32 {
	if h.agree == 0 {
		return 1
	}
	return float32(signature.RspamdEqual(h.agree)) / signature.RspamdShingles
}

// better reports whether a is to be told before b.
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
