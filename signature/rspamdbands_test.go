package signature

import (
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

func TestRspamdBandsDesign(t *testing.T) {
	members := func(b int) uint32 {
		var m uint32
		for _, o := range bandOffsets {
			m |= 1 << ((b + o) % RspamdShingles)
		}
		return m
	}
	for a := range RspamdBands {
		for b := range a {
			common := members(a) & members(b)
			if common&(common-1) != 0 {
				t.Errorf("bands %d and %d share more than one shingle: %032b", a, b, common)
			}
		}
	}
}

// TestRspamdEqual: over random sets of equal shingles the estimate is right
// within a few and never below what the bands prove.
func TestRspamdEqual(t *testing.T) {
	if all := uint32(1<<RspamdBands - 1); RspamdEqual(0) != 0 || RspamdEqual(all) != 32 {
		t.Fatalf("none: %d, all: %d", RspamdEqual(0), RspamdEqual(all))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		equal     int
		tolerance float64 // of the mean
	}{{18, 3}, {20, 2}, {24, 1.5}, {28, 1}, {31, 0.6}} {
		const rounds = 2000
		sum := 0
		for range rounds {
			a, b := randomPair(random, tt.equal)
			sum += RspamdEqual(agreement(&a, &b))
		}
		mean := float64(sum) / rounds
		if mean < float64(tt.equal)-tt.tolerance || mean > float64(tt.equal)+tt.tolerance {
			t.Errorf("%d equal shingles: mean estimate %.2f, want within %.1f", tt.equal, mean, tt.tolerance)
		}
	}
}

// randomPair returns two sets of shingles of which the given number are equal.
func randomPair(random *rand.Rand, equal int) (a, b [RspamdShingles]uint64) {
	for i := range a {
		a[i], b[i] = random.Uint64(), random.Uint64()
	}
	for _, i := range random.Perm(RspamdShingles)[:equal] {
		b[i] = a[i]
	}
	return a, b
}

func agreement(a, b *[RspamdShingles]uint64) (agree uint32) {
	known := make(map[bulkhead.Signature]bool)
	for _, sig := range AppendRspamdBands(nil, a, 1) {
		known[sig] = true
	}
	for i, sig := range AppendRspamdBands(nil, b, 1) {
		if known[sig] {
			agree |= 1 << i
		}
	}
	return agree
}

func TestRspamdBandsFlag(t *testing.T) {
	var shingles [RspamdShingles]uint64
	one, two := AppendRspamdBands(nil, &shingles, 1), AppendRspamdBands(nil, &shingles, 2)
	if len(one) != RspamdBands || one[0] == two[0] || one[0] == one[1] {
		t.Error("bands of different flags or numbers are equal")
	}
}
