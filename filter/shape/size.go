package shape

import (
	"fmt"
	"math"
	"sort"
)

// The defaults of sizing.
const (
	// DefaultThreshold is the count from which a message is bulk.
	DefaultThreshold = 20
	// DefaultTail is the exponent a of the distribution of counts for which figures are stated: a
	// share c^-a of the keys is counted c times or more.
	DefaultTail = 1.2
	// DefaultCells is the best K of a counting array for count errors near 1e-3; see the package
	// documentation.
	DefaultCells = 6
)

// An ErrorKind identifies one of the errors of an array.
type ErrorKind uint8

// The errors of an array.
const (
	// Ghost: a key that was never added is seen. It is the only error of bit arrays.
	Ghost ErrorKind = iota
	// CountWrong: the count of a key that was added is too high. Counting arrays only.
	CountWrong
	// BulkWrong: a key that was never added has a count at or above the threshold. Counting arrays
	// only. It is many orders of magnitude rarer than the others.
	BulkWrong
)

// String returns "ghost", "count wrong", "bulk decision wrong" or "invalid".
func (e ErrorKind) String() string {
	switch e {
	case Ghost:
		return "ghost"
	case CountWrong:
		return "count wrong"
	case BulkWrong:
		return "bulk decision wrong"
	}
	return "invalid"
}

// A Target is the requirements for which an array is sized.
type Target struct {
	// Kind is the kind of array.
	Kind Kind
	// Signatures is the number of keys that the array must hold: the keys of one generation.
	Signatures uint64
	// Error selects the error that Rate limits.
	Error ErrorKind
	// Rate is the largest probability of that error, above 0 and below 1, once all Signatures have
	// been added.
	Rate float64
	// Threshold is the count from which a message is bulk, for BulkWrong; 0 means DefaultThreshold.
	Threshold uint32
	// Tail is the exponent of the distribution of counts: a share c^-Tail of the keys is counted c
	// times or more. 0 means DefaultTail.
	Tail float64
	// K fixes the number of cells or bits per key; 0 chooses the best.
	K uint8
	// KeyID goes into the geometry, see filter.Secret.ID.
	KeyID uint64

	model *countModel
}

// minCells is the smallest number of cells per key that SizeFor returns: with fewer, small counts
// are meaningless.
const minCells = 2

// SizeFor returns the smallest geometry that meets t. Its error wraps [ErrGeometry] and names the
// value that is out of range.
func SizeFor(t Target) (Geometry, error) {
	if t.Threshold == 0 {
		t.Threshold = DefaultThreshold
	}
	if t.Tail == 0 {
		t.Tail = DefaultTail
	}
	switch {
	case t.Kind != Cells && t.Kind != Bitmap:
		return Geometry{}, fmt.Errorf("%w: kind %d", ErrGeometry, t.Kind)
	case t.Signatures == 0 || t.Signatures > MaxLines*LineBits:
		return Geometry{}, fmt.Errorf("%w: %d signatures, want 1 to %d", ErrGeometry, t.Signatures, uint64(MaxLines*LineBits))
	case !(t.Rate > 0 && t.Rate < 1):
		return Geometry{}, fmt.Errorf("%w: error rate %g, want above 0 and below 1", ErrGeometry, t.Rate)
	case t.Error > BulkWrong || t.Kind == Bitmap && t.Error != Ghost:
		return Geometry{}, fmt.Errorf("%w: sizing %s for error %q", ErrGeometry, t.Kind, t.Error)
	case !(t.Tail > 0.1 && t.Tail <= 10):
		return Geometry{}, fmt.Errorf("%w: tail exponent %g, want above 0.1 to 10", ErrGeometry, t.Tail)
	}
	if t.Error == CountWrong {
		t.model = newCountModel(t.Tail)
	}
	ks := []uint8{t.K}
	switch {
	case t.K != 0:
	case t.Kind == Cells:
		ks = []uint8{3, 4, 5, 6, 7, 8}
	default:
		ks = []uint8{8, 16}
	}
	var best Geometry
	cost := math.Inf(1)
	for _, k := range ks {
		g, err := t.sized(k)
		if err != nil {
			return Geometry{}, err
		}
		if c := t.bytes(g); c < cost {
			best, cost = g, c
		}
	}
	if best.Lines > MaxLines {
		return Geometry{}, fmt.Errorf("%w: %d signatures at error rate %g need more than %d lines",
			ErrGeometry, t.Signatures, t.Rate, MaxLines)
	}
	return best, nil
}

// bytes returns the expected memory of lines and overflow entries together.
func (t Target) bytes(g Geometry) float64 {
	b := float64(g.Lines) * LineBytes
	if t.Kind == Cells {
		// One entry of 8 bytes for every six cells, or part of them, of each key that is counted 15
		// times or more, at a load of 0.8.
		entries := math.Ceil(float64(g.K) / 6)
		b += 10 * entries * float64(t.Signatures) * math.Pow(15, -t.Tail)
	}
	return b
}

// sized returns the smallest geometry with the given k that meets t; its Lines are above MaxLines
// if there is none.
func (t Target) sized(k uint8) (Geometry, error) {
	g := Geometry{Kind: t.Kind, Lines: 1, K: k, KeyID: t.KeyID}
	if err := g.Validate(); err != nil {
		return g, err
	}
	most := float64(LineBits) // keys per line
	if t.Kind == Cells {
		most = LineCells / minCells
	}
	// The error depends only on the number of keys per line, and grows with it.
	enough := func(lines int) bool {
		perLine := float64(t.Signatures) / float64(lines)
		return perLine <= most && t.rate(g, perLine) <= t.Rate
	}
	// Most arrays need far fewer pages than the maximum, and computing the error is slow.
	upper := 1
	for upper < MaxLines/PageLines && !enough(upper*PageLines) {
		upper *= 2
	}
	lower := upper / 2
	pages := lower + 1 + sort.Search(upper-lower, func(i int) bool { return enough((lower + i + 1) * PageLines) })
	if pages == 1 {
		g.Lines = 1 + uint64(sort.Search(PageLines-1, func(i int) bool { return enough(i + 1) }))
	} else {
		g.Lines = uint64(pages) * PageLines
	}
	return g, nil
}

// rate returns the error of g with a mean of perLine keys per line.
func (t Target) rate(g Geometry, perLine float64) float64 {
	switch t.Error {
	case CountWrong:
		return t.model.rate(g, perLine)
	case BulkWrong:
		return g.Ghost(perLine * math.Pow(float64(t.Threshold), -t.Tail))
	}
	return g.Ghost(perLine)
}

// GhostError returns the probability that a key that was never added is seen (Has, or Count of 1 or
// more) once n keys have been added.
//
// The keys of a line are Poisson distributed with mean n/Lines: some lines are fuller than others,
// so a blocked filter is worse than the classic formula. For cells, the probability that j random
// sets of k of the 128 cells cover k given ones is summed over that distribution in closed form.
// For bits, each of the k parts of a line is filled independently.
func (g Geometry) GhostError(n uint64) float64 {
	return g.Ghost(float64(n) / float64(g.Lines))
}

// BulkError returns the probability that a key that was never added has a count of at least
// threshold once n keys have been added, a share c^-tail of which is counted c times or more. Only
// keys that reach the threshold can raise a cell to it, so the result is [Geometry.GhostError] of
// those keys alone. It is 0 for bit arrays.
func (g Geometry) BulkError(n uint64, threshold uint32, tail float64) float64 {
	if g.Kind != Cells {
		return 0
	}
	return g.Ghost(float64(n) / float64(g.Lines) * math.Pow(float64(max(threshold, 1)), -tail))
}

// CountError returns the expected share of keys whose count is too high once n keys of the default
// tail have been added, in random order. It is 0 for bit arrays. The result is an upper bound, up
// to a third above the simulated value. It takes some milliseconds; keep the result.
func (g Geometry) CountError(n uint64) float64 { return g.CountErrorTail(n, DefaultTail) }

// CountErrorTail is CountError for counts of which a share c^-tail is c or more.
func (g Geometry) CountErrorTail(n uint64, tail float64) float64 {
	if g.Kind != Cells {
		return 0
	}
	return newCountModel(tail).rate(g, float64(n)/float64(g.Lines))
}

// Ghost is GhostError for a mean of perLine keys per line.
func (g Geometry) Ghost(perLine float64) float64 {
	if perLine <= 0 {
		return 0
	}
	if g.Kind == Cells {
		return coverCells(int(g.K), perLine)
	}
	return coverBits(int(g.K), perLine)
}

// coverCells returns the probability that all of k given cells of a line are hit by sets of k
// distinct cells, the number of which is Poisson distributed. It uses inclusion and exclusion over
// the missed cells.
func coverCells(k int, mean float64) float64 {
	p, sign, choose := 0.0, 1.0, 1.0
	miss := 1.0 // probability that one set misses i given cells
	for i := 0; i <= k; i++ {
		p += sign * choose * math.Exp(-mean*(1-miss))
		sign = -sign
		choose = choose * float64(k-i) / float64(i+1)
		miss *= float64(LineCells-k-i) / float64(LineCells-i)
	}
	return min(max(p, coverFloor(k, mean)), 1)
}

// coverFloor is the limit of coverCells for small means, where its terms cancel below the precision
// of a float: every one of the k cells is hit by a set.
func coverFloor(k int, mean float64) float64 {
	if mean > 0.05 {
		return 0
	}
	// One set that hits all of them, or k sets that hit one each.
	one := 1.0
	for i := range k {
		one *= float64(k-i) / float64(LineCells-i)
	}
	return mean*one + math.Pow(mean*float64(k)/LineCells, float64(k))
}

// coverBits returns the probability that all k bits of a key are set, one in each of k parts of a
// line, summed over the Poisson distribution of keys.
func coverBits(k int, mean float64) float64 {
	stay := 1 - float64(k)/LineBits // a bit of a part stays unset after one key
	weight := math.Exp(-mean)
	if weight == 0 {
		return 1
	}
	p := 0.0
	for j := 1; j < 4096; j++ {
		weight *= mean / float64(j)
		p += weight * math.Pow(1-math.Pow(stay, float64(j)), float64(k))
		if float64(j) > mean && weight < 1e-18 {
			break
		}
	}
	return min(p, 1)
}

// KeysAt returns the number of keys that produce the given fill, a share of the cells or bits of g.
func (g Geometry) KeysAt(fill float64) float64 {
	per := float64(LineCells)
	if g.Kind == Bitmap {
		per = LineBits
	}
	fill = min(fill, 1-1/(per*float64(g.Lines)+1))
	// The fill of the mean line is 1 - exp(-keys * k/per).
	return -math.Log1p(-fill) * per / float64(g.K) * float64(g.Lines)
}
