package arrays

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A tableIRow is one line of Table I, printed, computed and measured.
type tableIRow struct {
	Bits     int     `json:"bits"` // m/n
	K        int     `json:"k"`
	Printed  string  `json:"printed"`
	Asked    int     `json:"asked"` // elements that were never added
	Found    int     `json:"found"` // of them
	FromFill float64 `json:"from_fill"`
}

// tableI returns the configurations of Yan & Cho's Table I.
func tableI() []tableIRow {
	return []tableIRow{
		{Bits: 16, K: 4, Printed: "2.394E-3"}, {Bits: 10, K: 8, Printed: "8.455E-3"}, {Bits: 16, K: 8, Printed: "5.745E-4"},
		{Bits: 40, K: 8, Printed: "1.166E-6"}, {Bits: 40, K: 16, Printed: "1.948E-8"},
	}
}

// A familyRow is a classic filter under one hash family.
type familyRow struct {
	Family     string  `json:"family"`
	Bits       int     `json:"bits"`
	Utilisable uint64  `json:"utilisable"` // of Bits x n
	Asked      int     `json:"asked"`
	Found      int     `json:"found"`
	Equation   float64 `json:"equation"`  // Eq. 1 for all m
	Reachable  float64 `json:"reachable"` // Eq. 1 for the reachable bits
}

// A MembershipResult is Table I, with other families of hash functions.
type MembershipResult struct {
	Rounds   int         `json:"rounds"`
	TableI   []tableIRow `json:"table_i"`
	Families []familyRow `json:"families"`
}

// tableIElements is n of the measured filters.
const tableIElements = 10_000

// MembershipUnit returns the work of Table I.
func MembershipUnit(c *experiment.Config) (*experiment.Unit, *MembershipResult) {
	r := &MembershipResult{}
	return &experiment.Unit{
		Name: "membership", Cost: 0.02 * float64(c.Rounds), Result: r,
		Have: func() bool { return r.Rounds >= c.Rounds },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = MembershipResult{Rounds: c.Rounds, TableI: tableI()}
			for i := range r.TableI {
				if err := r.TableI[i].measure(ctx, c); err != nil {
					return err
				}
				tick(float64(i+1) / float64(len(r.TableI)+1))
			}
			return r.families(c)
		},
	}, r
}

func randomKey(r *rand.Rand) filter.Key { return filter.Key{Hi: r.Uint64(), Lo: r.Uint64()} }

// measure builds filters of n elements and asks them for others, in proportion
// to the rounds: up to 4e8 elements in all for the rates that need them.
func (t *tableIRow) measure(ctx context.Context, c *experiment.Config) error {
	const filters = 20
	rate := paper.FalsePositiveRateApprox(float64(t.Bits), t.K)
	ask := int(math.Min(2e7, 1000/rate/filters) * float64(c.Rounds) / 1000)
	r := experiment.Stream(c.Seed, "table-i", t.Bits, t.K)
	for range filters {
		family, err := paper.Keyed(filter.Secret{}, uint64(t.Bits*tableIElements), t.K)
		if err != nil {
			return err
		}
		b, err := paper.NewBloom(family)
		if err != nil {
			return err
		}
		for range tableIElements {
			b.AddKey(randomKey(r))
		}
		t.FromFill += b.ErrorRate() / filters
		for i := range max(ask, 1000) {
			if i&0xFFFFF == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if b.ContainsKey(randomKey(r)) {
				t.Found++
			}
		}
		t.Asked += max(ask, 1000)
	}
	return nil
}

// families measures what unreachable bits cost.
func (m *MembershipResult) families(c *experiment.Config) error {
	const n, k = 10_000, 8
	ask := max(1000, 300*c.Rounds)
	for _, bits := range []int{8, 16, 32} {
		size := uint64(bits * n)
		r := experiment.Stream(c.Seed, "families", bits)
		makers := []struct {
			name string
			make func() (paper.Family, error)
		}{
			{"MD5 in 8 chunks", func() (paper.Family, error) { return paper.ChunkedMD5(size, k) }},
			{"MD5 in 8 chunks, partitioned", func() (paper.Family, error) { return Partitioned(paper.ChunkedMD5(size, k)) }},
			{"SHA-1 in 8 chunks", func() (paper.Family, error) { return paper.ChunkedSHA1(size, k) }},
			{"universal (Eq. 2)", func() (paper.Family, error) { return paper.Universal(size, k, r) }},
			{"keyed", func() (paper.Family, error) { return paper.Keyed(filter.Secret{1}, size, k) }},
		}
		for _, mk := range makers {
			f, err := mk.make()
			if err != nil {
				return err
			}
			row, err := measureFamily(f, n, ask, r)
			if err != nil {
				return err
			}
			row.Family, row.Bits = mk.name, bits
			m.Families = append(m.Families, row)
		}
	}
	return nil
}

// Partitioned returns a family whose functions have a part of the array each. It passes err on.
func Partitioned(f paper.Family, err error) (paper.Family, error) {
	if err != nil {
		return f, err
	}
	return f.Partitioned()
}

func measureFamily(f paper.Family, n uint64, ask int, r *rand.Rand) (row familyRow, err error) {
	b, err := paper.NewStudyBloom(f)
	if err != nil {
		return row, err
	}
	var x [20]byte
	element := func() []byte {
		binary.LittleEndian.PutUint64(x[:], r.Uint64())
		binary.LittleEndian.PutUint64(x[8:], r.Uint64())
		return x[:]
	}
	for range n {
		b.Add(element())
	}
	row.Utilisable, row.Asked = f.Utilisable(), ask
	for range ask {
		if b.Contains(element()) {
			row.Found++
		}
	}
	row.Equation = paper.FalsePositiveRate(f.M(), n, f.K())
	row.Reachable = paper.FalsePositiveRate(row.Utilisable, n, f.K())
	return row, nil
}
