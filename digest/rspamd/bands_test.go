package rspamd

import (
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

func TestBandsDesign(t *testing.T) {
	members := func(b int) uint32 {
		var m uint32
		for _, o := range bandOffsets {
			m |= 1 << ((b + o) % Shingles)
		}
		return m
	}
	for a := range Bands {
		for b := range a {
			common := members(a) & members(b)
			if common&(common-1) != 0 {
				t.Errorf("bands %d and %d share more than one shingle: %032b", a, b, common)
			}
		}
	}
}

// TestEqual: over random sets of equal shingles the estimate is right
// within a few and never below what the bands prove.
func TestEqual(t *testing.T) {
	if all := uint32(1<<Bands - 1); Equal(0) != 0 || Equal(all) != 32 {
		t.Fatalf("none: %d, all: %d", Equal(0), Equal(all))
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
			sum += Equal(agreement(&a, &b))
		}
		mean := float64(sum) / rounds
		if mean < float64(tt.equal)-tt.tolerance || mean > float64(tt.equal)+tt.tolerance {
			t.Errorf("%d equal shingles: mean estimate %.2f, want within %.1f", tt.equal, mean, tt.tolerance)
		}
	}
}

// randomPair returns two sets of shingles of which the given number are equal.
func randomPair(random *rand.Rand, equal int) (a, b [Shingles]uint64) {
	for i := range a {
		a[i], b[i] = random.Uint64(), random.Uint64()
	}
	for _, i := range random.Perm(Shingles)[:equal] {
		b[i] = a[i]
	}
	return a, b
}

func agreement(a, b *[Shingles]uint64) (agree uint32) {
	known := make(map[bulkhead.Signature]bool)
	for _, sig := range AppendBands(nil, a, 1) {
		known[sig] = true
	}
	for i, sig := range AppendBands(nil, b, 1) {
		if known[sig] {
			agree |= 1 << i
		}
	}
	return agree
}

func TestBandsFlag(t *testing.T) {
	var shingles [Shingles]uint64
	one, two := AppendBands(nil, &shingles, 1), AppendBands(nil, &shingles, 2)
	if len(one) != Bands || one[0] == two[0] || one[0] == one[1] {
		t.Error("bands of different flags or numbers are equal")
	}
}
