package signature

import "golang.org/x/sys/cpu"

// hasWide reports whether the processor multiplies eight numbers of 64 bits at a time.
var hasWide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ

// lowerWide is written for this shape.
var _ [80]uint64 = [NearBands * nearRows]uint64{}

// lower takes shingles into the minima.
func (k *nearKey) lower(minima *[NearBands * nearRows]uint64, shingles []uint64) {
	if hasWide && len(shingles) > 0 {
		lowerWide(minima, &k.mul, &k.add, &shingles[0], len(shingles))
		return
	}
	k.lowerPlain(minima, shingles)
}

// lowerWide is lowerPlain for n shingles, n at least 1, in a quarter of the time. The processor must
// have AVX-512 F and DQ.
//
//go:noescape
func lowerWide(minima, mul, add *[NearBands * nearRows]uint64, shingles *uint64, n int)
