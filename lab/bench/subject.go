package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// An item is a signature: 16 random bytes, as digests are. Libraries that hash
// get all of it, those that want a hash get its first 8 bytes.
type item [16]byte

func (x *item) hash() uint64 { return binary.LittleEndian.Uint64(x[:]) }

// A structure is one filter or table under test. Its methods get many items at
// once; a library without batches loops over them.
type structure interface {
	// insert adds items[i], counts[i] times where it counts.
	insert(items []item, counts []uint32)
	// look sets out[i] to the count of items[i], or to 0 or 1.
	look(items []item, out []uint32)
}

// A finisher is a structure that can be looked into only after its last insert.
type finisher interface {
	finish() error
}

// batches are the numbers of keys in one call: a door asks for one, a short mail for three, a long one
// for 21, and the writer adds hundreds. A library without batches loops over the keys.
var batches = [...]int{1, 3, 21, maxBatch}

const maxBatch = 256

// mostItems is the largest number of items with which all subjects are measured.
const mostItems = 2e7

// A subject is what one row of a table measures.
type subject struct {
	name string
	note string // what is special, or unfair, about it
	// build makes one for n items of which each has a count below 256 mostly.
	build func(n int) (structure, error)
	// counts reports whether look returns counts.
	counts bool
	// huge: also measured with more than mostItems items. The others take many minutes for them, or much memory.
	huge bool
	// solo: not even look may be called by two goroutines at once.
	solo bool
}

// items returns n different items; another salt gives others.
func items(n int, salt uint64) []item {
	out := make([]item, n)
	for i := range out {
		x := uint64(i) + salt<<40
		binary.LittleEndian.PutUint64(out[i][:], mix(x))
		binary.LittleEndian.PutUint64(out[i][8:], mix(x+1<<60))
	}
	return out
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tail is the exponent of the counts: a share c^-tail of the items is reported c
// times or more.
const tail = 1.2

// skew draws n counts.
func skew(n int) []uint32 {
	rng := rand.New(rand.NewPCG(1, 2))
	counts := make([]uint32, n)
	for i := range counts {
		counts[i] = uint32(min(math.Pow(1-rng.Float64(), -1/tail), 1e5))
	}
	return counts
}

func subjectNamed(name string) (subject, bool) {
	for _, s := range append(memberSubjects(), countSubjects()...) {
		if s.name == name {
			return s, true
		}
	}
	return subject{}, false
}
