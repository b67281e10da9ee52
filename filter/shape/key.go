package shape

import "math/bits"

// A Key is the 128-bit keyed hash of a signature. In each array, all data about the signature lies
// in one cache line, which Hi selects; Lo selects the cells or bits inside that line.
type Key struct{ Hi, Lo uint64 }

// With returns the key of one kind of vote on k's signature: the same line, but different cells.
// All votes on one signature thus share one cache line per array, while their counts are as
// independent as the counts of different signatures.
func (k Key) With(kind uint8) Key {
	return Key{Hi: k.Hi, Lo: Mix(k.Lo + uint64(kind)*Weyl)}
}

// Weyl is 2^64 divided by the golden ratio, made odd: multiples of it differ in many bits.
const Weyl = 0x9e3779b97f4a7c15

// Mix is a bijection of the 64-bit words in which every bit of the result depends on every bit of
// x.
//
// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators" (2014), with the constants of Stafford's variant 13.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Position returns the i-th of several independent positions of k in an array of n.
func (k Key) Position(i int, n uint64) uint64 {
	hi, _ := bits.Mul64(Mix(k.Hi+uint64(i+1)*Weyl)^k.Lo, n)
	return hi
}
