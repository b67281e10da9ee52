//go:build !amd64

package signature

// lower takes shingles into the minima.
func (k *nearKey) lower(minima *[NearBands * nearRows]uint64, shingles []uint64) {
	k.lowerPlain(minima, shingles)
}
