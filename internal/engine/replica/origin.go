package replica

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// An Array is the name of one of the arrays of a generation that origins share. Weights and unique
// filters are not shared: they concern accounts that other servers do not know.
type Array string

// A Key identifies an array of an origin, or of the node itself.
type Key struct {
	Array Array
	Start uint64 // of the generation, Unix seconds
}

// The arrays that are shared.
const (
	ArrayCounts  Array = "counts"  // of the tally
	ArraySpam    Array = "spam"    // of the blocklist
	ArrayRevoked Array = "revoked" // of the blocklist
)

// ErrGap means that a part does not continue its replica. Images of the whole array close the gap.
var ErrGap = errors.New("replica: a part is missing before this one")

// A Part is a change of one array of an origin: a round of adds, or the image of one page.
type Part struct {
	Array    Array
	Start    uint64          // of the generation, Unix seconds
	Geometry filter.Geometry // of the array
	// Round is the body of a round, as [arrays.Round.AppendBody] writes it. Image is an
	// encoded page; a replica is exact again once it has the images of all pages at one
	// moment. Exactly one of the two is empty.
	Round []byte
	Image []byte
	// From and To belong to a round: the versions of the array before and after.
	From, To uint64
	// At belongs to an image: the version of the whole array at the moment of the images. A replica
	// takes no rounds until all its pages have reached it.
	At uint64
	// Boot is the origin's number of the process that made the part, or 0 if it is not known. The
	// replica remembers it.
	Boot uint64
}

// An Origin is a server whose counts this one takes.
type Origin struct {
	ID string `json:"id"` // its public key: 1 to 64 letters and digits
	// Weight is the weight of the origin, 0 to 1. Its counts are multiplied by the weight, and an
	// entry on its blocklist adds the weight towards the promotion weight. 0 is quarantine: the
	// replica is kept, but not looked up.
	Weight float64 `json:"weight"`
}

// ValidOrigin reports whether id may name an origin: 1 to 64 ASCII letters and digits, since
// it becomes part of file names.
func ValidOrigin(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}

// An ArrayState is the state of one array, of a replica or of the node itself.
type ArrayState struct {
	Array    Array
	Start    uint64
	Geometry filter.Geometry
	Version  uint64
	Keys     uint64
	Bytes    uint64
	// Partial is the version that the array of a replica will have once all its images have
	// arrived; 0 if none is missing.
	Partial uint64
	// Boot is the [Part.Boot] of the last part that the array of a replica took.
	Boot uint64
	// Merged: the array has no memory of its own, and Bytes is 0. See [Set.Room].
	Merged bool
	// Ghost is the probability that the array, or the one it is merged into, shows an unreported
	// signature. It is computed from the number of keys.
	Ghost float64
}

// Arrays returns the state of an origin's replica, array by array.
func (s *Set) Arrays(origin string) []ArrayState {
	view := s.View()
	i := slices.IndexFunc(view.Origins, func(r *Held) bool { return r.ID == origin })
	if i < 0 {
		return nil
	}
	into := make(map[*cold]*Merged)
	for _, m := range view.Merged {
		for _, c := range m.members {
			into[c] = m
		}
	}
	var out []ArrayState
	for _, x := range view.Origins[i].arrays {
		state := StateOf(x.Array, x.Start, x.replicated())
		m := view.Origins[i].marks[x.Key]
		state.Partial, state.Boot = m.partial, m.boot
		if x.memory != nil {
			state.Bytes = charged(x.memory)
		} else {
			state.Merged, state.Bytes = true, 0
			if m := into[x.cold]; m != nil {
				state.Ghost = m.Ghost()
			}
		}
		out = append(out, state)
	}
	return out
}

// Shown returns the probability that an array of an origin's replica shows an unreported signature.
// It is measured from the array's content, while [ArrayState].Ghost is computed from the number of
// keys. It is 0 for an array that is not in memory.
func (s *Set) Shown(origin string, a Array, start uint64) float64 {
	r := s.View().origin(origin)
	if r == nil {
		return 0
	}
	x := r.find(Key{a, start})
	if x == nil || x.memory == nil {
		return 0
	}
	return x.memory.Shown(rand.Uint64()) // samples lines that the origin cannot predict
}

// StateOf returns the state of an array of the node itself, or of a replica.
func StateOf(a Array, start uint64, array Versioned) ArrayState {
	g, keys := array.Geometry(), array.Keys()
	return ArrayState{Array: a, Start: start, Geometry: g, Version: array.Version(), Keys: keys, Bytes: g.Bytes(),
		Ghost: g.GhostError(keys)}
}
