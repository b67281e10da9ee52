package experiment

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/lab/paper"
)

// maxCells is a power of two above the largest m. Indexes masked with it need
// no bounds check.
const maxCells = 1 << 20

const cellMask = maxCells - 1

// A roundResult is what one round of one configuration gave.
type roundResult struct {
	Inserted int // insertions, l in the paper
	Elements int // different elements inserted
	// Wrong elements, and the sum of their counts, of the two extensions.
	WrongI, WrongR   int
	WeightI, WeightR int
	// Cells above 20 and at 63 at the end, and the largest cell.
	Above20I, Above20R int
	FullI, FullR       int
	LargestR           int
}

// A Simulator runs rounds of the paper's experiments. It is the scratch space
// of one worker. Its cells follow the rules of [paper.Intuitive] and
// [paper.Refined] (a test compares them), laid out for speed: indexes are
// computed once for a round, cells are bytes in the second-level cache.
type Simulator struct {
	family HashFamily
	// reorder replaces the order of a shuffled experiment, if it is not nil.
	reorder   func(s *Simulator, counts []uint8, seed uint64, round int)
	keys      []uint64
	Index     []uint32 // k cells of each key, one key after the other
	Sequence  []uint16 // of keys
	refined   *[maxCells]uint8
	intuitive *[maxCells]uint8
}

// NewSimulator returns a simulator whose keys are drawn from seed.
func NewSimulator(seed uint64) *Simulator {
	return &Simulator{
		keys: drawKeys(seed), Index: make([]uint32, NumKeys*8), Sequence: make([]uint16, 0, NumKeys*40),
		refined: new([maxCells]uint8), intuitive: new([maxCells]uint8),
	}
}

// drawKeys draws different integers from 1 to p-1: once for all rounds, as in
// the paper, which draws hash functions anew and not elements.
func drawKeys(seed uint64) []uint64 {
	r := Stream(seed, "keys")
	keys := make([]uint64, 0, NumKeys)
	seen := make(map[uint64]bool, NumKeys)
	for len(keys) < NumKeys {
		if x := 1 + r.Uint64N(paper.UniversalPrime-1); !seen[x] {
			seen[x] = true
			keys = append(keys, x)
		}
	}
	return keys
}

// as lets s simulate with another seed and hash family, until back is called.
func (s *Simulator) as(seed uint64, family HashFamily) (back func()) {
	keys, was := s.keys, s.family
	s.keys, s.family = drawKeys(seed), family
	return func() { s.keys, s.family = keys, was }
}

// Hash computes the cells of all keys under k new universal functions (Eq. 2), or
// those of another family.
// The last remainder is taken by two multiplications (Lemire, Kaser and Kurz,
// "Faster remainder by direct computation", 2019), exact for 32-bit numbers.
func (s *Simulator) Hash(m uint64, k int, r *rand.Rand) {
	if s.family != FamilyUniversal && s.family != "" {
		s.hashBy(m, k, r)
		return
	}
	inverse := math.MaxUint64/m + 1
	for j := range k {
		c, d := 1+r.Uint64N(paper.UniversalPrime-1), r.Uint64N(paper.UniversalPrime)
		for i, x := range s.keys {
			h := (c*x + d) % paper.UniversalPrime
			h, _ = bits.Mul64(inverse*h, m)
			s.Index[i*k+j] = uint32(h)
		}
	}
}

// growthRounds is the number of rounds whose cells are looked at one by one.
const growthRounds = 50

// run simulates one round. The hash functions depend on seed, m, k and round
// alone, so that the orders of insertion are compared on equal terms, as in the
// paper.
func (s *Simulator) run(e *Experiment, seed uint64, d Draw, m, k, round int, counts []uint8) roundResult {
	r := Stream(seed, "round", m, k, round)
	s.Hash(uint64(m), k, r)
	if counts == nil {
		counts = e.drawCounts(seed, d, round)
	}
	clear(s.refined[:m])
	clear(s.intuitive[:m])
	s.addIntuitive(k, counts)
	switch e.order {
	case rounds:
		for range 20 {
			s.insertAll(k)
		}
	case blocks:
		s.raiseAll(k, counts)
	case shuffled:
		if s.reorder != nil {
			s.reorder(s, counts, seed, round)
		} else {
			s.Shuffle(counts, Stream(seed, "shuffle", e.Number, m, k, round))
		}
		s.insertSequence(k, s.Sequence)
	}
	result := s.score(k, counts)
	if round < growthRounds {
		s.growth(m, &result)
	}
	return result
}

// addIntuitive inserts every element counts times: the order does not matter.
// A cell that several functions of an element hit counts once (H2).
func (s *Simulator) addIntuitive(k int, counts []uint8) {
	c := s.intuitive
	for i, n := range counts {
		ps := s.Index[i*k : i*k+k]
	next:
		for a, p := range ps {
			for _, q := range ps[:a] {
				if p == q {
					continue next
				}
			}
			c[p&cellMask] = min(c[p&cellMask]+n, CellLimit)
		}
	}
}

// raiseAll inserts every element counts times in a row into the refined array:
// the same as raising its cells once to their minimum and the count.
func (s *Simulator) raiseAll(k int, counts []uint8) {
	c := s.refined
	for i, n := range counts {
		ps := s.Index[i*k : i*k+k]
		least := uint32(255)
		for _, p := range ps {
			least = min(least, uint32(c[p&cellMask]))
		}
		after := min(least+uint32(n), 255)
		for _, p := range ps {
			c[p&cellMask] = uint8(max(uint32(c[p&cellMask]), after))
		}
	}
}

// Shuffle sets the sequence to all insertions in random order (Fisher-Yates), or
// without r unshuffled.
func (s *Simulator) Shuffle(counts []uint8, r *rand.Rand) {
	seq := s.Sequence[:0]
	for i, n := range counts {
		for range n {
			seq = append(seq, uint16(i))
		}
	}
	s.Sequence = seq
	if r == nil {
		return
	}
	// One 64-bit number of a Weyl sequence, mixed, gives two positions.
	state := r.Uint64()
	for i := len(seq) - 1; i > 0; i -= 2 {
		state += 0x9E3779B97F4A7C15
		z := (state ^ state>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		j := int(z & 0xFFFFFFFF * uint64(i+1) >> 32)
		seq[i], seq[j] = seq[j], seq[i]
		if i > 1 {
			j = int(z >> 32 * uint64(i) >> 32)
			seq[i-1], seq[j] = seq[j], seq[i-1]
		}
	}
}

// insertAll inserts every element once, in order.
func (s *Simulator) insertAll(k int) {
	for i := range NumKeys {
		s.insert(i, k)
	}
}

func (s *Simulator) insertSequence(k int, seq []uint16) {
	for _, i := range seq {
		s.insert(int(i), k)
	}
}

// insert is H1 and H2: the cells at the minimum go up by one. Raising every
// cell to the minimum and one does that without a branch, as long as the values
// are wider than a byte.
func (s *Simulator) insert(i, k int) {
	switch k {
	case 4:
		insert4(s.refined, (*[4]uint32)(s.Index[i*4:]))
	case 6:
		insert6(s.refined, (*[6]uint32)(s.Index[i*6:]))
	case 8:
		insert8(s.refined, (*[8]uint32)(s.Index[i*8:]))
	default:
		s.insertAny(s.Index[i*k : i*k+k])
	}
}

// insertAny is insert for the numbers of hash functions that the paper has not.
func (s *Simulator) insertAny(ps []uint32) {
	least := uint32(255)
	for _, p := range ps {
		least = min(least, uint32(s.refined[p&cellMask]))
	}
	after := min(least+1, 255)
	for _, p := range ps {
		s.refined[p&cellMask] = uint8(max(uint32(s.refined[p&cellMask]), after))
	}
}

func insert4(c *[maxCells]uint8, p *[4]uint32) {
	p0, p1, p2, p3 := p[0]&cellMask, p[1]&cellMask, p[2]&cellMask, p[3]&cellMask
	v0, v1, v2, v3 := uint32(c[p0]), uint32(c[p1]), uint32(c[p2]), uint32(c[p3])
	after := min(min(v0, v1, v2, v3)+1, 255)
	c[p0] = uint8(max(v0, after))
	c[p1] = uint8(max(v1, after))
	c[p2] = uint8(max(v2, after))
	c[p3] = uint8(max(v3, after))
}

func insert6(c *[maxCells]uint8, p *[6]uint32) {
	p0, p1, p2, p3, p4, p5 := p[0]&cellMask, p[1]&cellMask, p[2]&cellMask, p[3]&cellMask, p[4]&cellMask, p[5]&cellMask
	v0, v1, v2, v3, v4, v5 := uint32(c[p0]), uint32(c[p1]), uint32(c[p2]), uint32(c[p3]), uint32(c[p4]), uint32(c[p5])
	after := min(min(v0, v1, v2, v3, v4, v5)+1, 255)
	c[p0] = uint8(max(v0, after))
	c[p1] = uint8(max(v1, after))
	c[p2] = uint8(max(v2, after))
	c[p3] = uint8(max(v3, after))
	c[p4] = uint8(max(v4, after))
	c[p5] = uint8(max(v5, after))
}

func insert8(c *[maxCells]uint8, p *[8]uint32) {
	p0, p1, p2, p3, p4, p5, p6, p7 := p[0]&cellMask, p[1]&cellMask, p[2]&cellMask, p[3]&cellMask, p[4]&cellMask,
		p[5]&cellMask, p[6]&cellMask, p[7]&cellMask
	v0, v1, v2, v3, v4, v5, v6, v7 := uint32(c[p0]), uint32(c[p1]), uint32(c[p2]), uint32(c[p3]), uint32(c[p4]),
		uint32(c[p5]), uint32(c[p6]), uint32(c[p7])
	after := min(min(v0, v1, v2, v3, v4, v5, v6, v7)+1, 255)
	c[p0] = uint8(max(v0, after))
	c[p1] = uint8(max(v1, after))
	c[p2] = uint8(max(v2, after))
	c[p3] = uint8(max(v3, after))
	c[p4] = uint8(max(v4, after))
	c[p5] = uint8(max(v5, after))
	c[p6] = uint8(max(v6, after))
	c[p7] = uint8(max(v7, after))
}

// score counts the elements whose count is wrong.
func (s *Simulator) score(k int, counts []uint8) (r roundResult) {
	for i, n := range counts {
		if n == 0 {
			continue
		}
		r.Elements++
		r.Inserted += int(n)
		leastI, leastR := uint32(255), uint32(255)
		for _, p := range s.Index[i*k : i*k+k] {
			leastI = min(leastI, uint32(s.intuitive[p&cellMask]))
			leastR = min(leastR, uint32(s.refined[p&cellMask]))
		}
		if leastI != uint32(n) {
			r.WrongI++
			r.WeightI += int(n)
		}
		if leastR != uint32(n) {
			r.WrongR++
			r.WeightR += int(n)
		}
	}
	return r
}

// growth notes how large the cells have become.
func (s *Simulator) growth(m int, r *roundResult) {
	var growI, growR [256]int
	for i := range m {
		growI[s.intuitive[i]]++
		growR[s.refined[i]]++
	}
	for v := range growI {
		if v > 20 {
			r.Above20I += growI[v]
			r.Above20R += growR[v]
		}
		if v >= CellLimit {
			r.FullI += growI[v]
			r.FullR += growR[v]
		}
		if growR[v] != 0 {
			r.LargestR = v
		}
	}
}
