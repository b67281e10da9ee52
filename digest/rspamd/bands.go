package rspamd

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
)

// Bands is the number of bands that stand for the shingles of a text.
const Bands = 20

// Votes is the list, for [AppendBands], of the bands on which all
// front doors vote. No fuzzy storage has a list of that number.
const Votes = 1 << 16

// bandOffsets determines the shingles of band b: they are at b plus each offset,
// modulo 32. All differences of two offsets are distinct, so two bands share
// at most one shingle; every shingle lies in two to four bands.
var bandOffsets = [...]int{0, 1, 5, 14}

// Match is how many bands must agree for a near copy. Three are expected to agree
// when 20 of 32 shingles do, and two when 18 do. Rspamd asks for 17 shingles, and
// gives a match near that limit hardly any weight.
const Match = 3

// AppendBands appends the bands of the shingles of a text, under one of
// the lists (flags) of a fuzzy storage, each as a signature of scheme
// rspamd/shingle.
//
// A filter does not know which message a shingle came from, and single shingles are shared by
// much unrelated mail (measured over 15,000 mails: of a ham's shingles, 5 % with mumhash and 79 %
// with siphash are known from 3,800 spams), so "17 of 32" over single shingles would mean
// nothing. A band is four shingles at once: it is equal in two texts only where these four are.
// The number of agreeing bands gives an estimate of the number of equal shingles, see [Equal]. At
// equal memory, fewer bands with a lower error rate of the filter are better evidence than more
// bands with a higher one.
func AppendBands(dst []bulkhead.Signature, shingles *[Shingles]uint64, flag uint32) []bulkhead.Signature {
	dst = slices.Grow(dst, Bands)
	for b := range Bands {
		dst = append(dst, Band(shingles, flag, b))
	}
	return dst
}

// Band returns band b, 0 to Bands-1, of [AppendBands]. Its sum is 16 bytes: two mixes of list,
// band and the four shingles, which only need to resist chance, since a sender who wants equal
// bands can send equal shingles.
func Band(shingles *[Shingles]uint64, flag uint32, b int) bulkhead.Signature {
	h1 := foldMultiply(uint64(flag)<<8|uint64(b)|1<<63, 0x9e3779b97f4a7c15)
	h2 := h1 ^ 0xd1b54a32d192ed03
	for _, offset := range bandOffsets {
		v := shingles[(b+offset)%Shingles]
		h1 = foldMultiply(h1^v, 0xbf58476d1ce4e5b9)
		h2 = foldMultiply(h2+v, 0x94d049bb133111eb)
	}
	var sum [16]byte
	binary.LittleEndian.PutUint64(sum[:], h1)
	binary.LittleEndian.PutUint64(sum[8:], h2)
	return bulkhead.MustSignature(bulkhead.RspamdShingle, sum[:])
}

// foldMultiply multiplies by an odd constant and folds the high half down: for a fixed
// constant it is a bijection.
func foldMultiply(v, odd uint64) uint64 {
	v ^= v >> 32
	v *= odd
	return v ^ v>>29
}

// Equal estimates how many of the 32 shingles of two texts are equal from the bands that agree
// (bit b for band b): the larger of two numbers. One is the number of shingles that the agreeing
// bands cover, a lower bound. The other is the number of equal shingles for which that many bands
// agree on average. All bands give 32, none 0.
func Equal(agree uint32) int {
	covered, bands := uint32(0), 0
	for b := range Bands {
		if agree>>b&1 == 0 {
			continue
		}
		bands++
		for _, offset := range bandOffsets {
			covered |= 1 << ((b + offset) % Shingles)
		}
	}
	n := 0
	for ; covered != 0; covered &= covered - 1 {
		n++
	}
	return max(n, expectedEqual(bands))
}

// expectedEqual is the number e of equal shingles for which as many bands as
// given are expected to agree: Bands C(e,4) / C(32,4).
func expectedEqual(bands int) int {
	best, least := 0, math.Inf(1)
	for e := range Shingles + 1 {
		x := float64(e)
		expected := max(0, x*(x-1)*(x-2)*(x-3)/24) * Bands / 35960
		if d := math.Abs(expected - float64(bands)); d < least {
			best, least = e, d
		}
	}
	if bands == 0 {
		return 0
	}
	return best
}
