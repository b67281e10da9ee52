package filter

import (
	"math"
	"math/bits"
	"testing"

	"github.com/bulkhead-mail/bulkhead/filter/shape"
)

// places returns the bits that a key sets in a section, as the comment of Position defines them.
func places(k Key, n int, m uint64) map[uint64]bool {
	out := make(map[uint64]bool)
	for i := range uint64(n) {
		hi, _ := bits.Mul64(mix(k.Hi+(i+1)*weyl)^k.Lo, m)
		out[hi] = true
	}
	return out
}

// TestTwoPartSections checks that the sections hold the bits of the elements and of their
// eigenvalues, and no others, so that filters made elsewhere are read in the same way.
func TestTwoPartSections(t *testing.T) {
	secret := Secret{7, 1}
	for _, e := range allEigenvalues() {
		shape := TwoPartShape{M1: 5003, M2: 1009, K: 9, D: 4, Eigen: e}
		f, err := NewTwoPart(shape, secret)
		if err != nil {
			t.Fatal(err)
		}
		one, two := make(map[uint64]bool), make(map[uint64]bool)
		for i := range 60 {
			x := item(i)
			key := secret.Key(x)
			eigen := secret.Key(e.Append(nil, x))
			if e == EigenHash {
				eigen = Key{Hi: mix(key.Lo), Lo: mix(^key.Hi)}
			}
			for at := range places(key, shape.K, shape.M1) {
				one[at] = true
			}
			for at := range places(eigen, shape.D, shape.M2) {
				two[at] = true
			}
			f.Add(x)
		}
		for name, section := range map[string]struct {
			words []uint64
			want  map[uint64]bool
			m     uint64
		}{"one": {f.one, one, shape.M1}, "two": {f.two, two, shape.M2}} {
			for at := range uint64(len(section.words)) * 64 {
				if got := section.words[at/64]>>(at%64)&1 == 1; got != section.want[at] {
					t.Fatalf("%v: bit %d of section %s is %v", e, at, name, got)
				}
			}
		}
		a, b := f.Fill()
		if wantA, wantB := float64(len(one))/5003, float64(len(two))/1009; a != wantA || b != wantB {
			t.Errorf("%v: filled to %v and %v, want %v and %v", e, a, b, wantA, wantB)
		}
		if got, want := f.ProductRate(), math.Pow(a, 9)*math.Pow(b, 4); math.Abs(got-want) > 1e-12*want {
			t.Errorf("%v: product %g, want %g", e, got, want)
		}
	}
}

// mix and weyl are shape.Mix and shape.Weyl, for tests with variables named shape.
func mix(x uint64) uint64 { return shape.Mix(x) }

const weyl = shape.Weyl
