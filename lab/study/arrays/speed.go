package arrays

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	cuckoo "github.com/seiflotfy/cuckoofilter"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A speedRow is the time of one look-up of a structure that holds n elements.
type speedRow struct {
	Structure string  `json:"structure"`
	Elements  int     `json:"elements"`
	Bytes     float64 `json:"bytes"` // for each element, 0 where not measured
	Hit       float64 `json:"hit"`   // ns, an element that is there
	Miss      float64 `json:"miss"`  // ns, one that is not
	Asked     int     `json:"asked"` // elements that are not there
	Found     int     `json:"found"` // of them
}

// An orderRow is the time of a blocklist look-up in two filters, spam (SBF) and
// revoked (RBF), in either order.
type orderRow struct {
	Spam     float64 `json:"spam"` // share of look-ups that are spam
	SBFFirst float64 `json:"sbf_first"`
	RBFFirst float64 `json:"rbf_first"`
}

// A SpeedResult is the time that queries and insertions take.
type SpeedResult struct {
	Rounds int        `json:"rounds"`
	Rows   []speedRow `json:"rows"`
	Orders []orderRow `json:"orders"`
}

// SpeedUnit returns the work of measuring times.
func SpeedUnit(c *experiment.Config) (*experiment.Unit, *SpeedResult) {
	r := &SpeedResult{}
	return &experiment.Unit{
		Name: "speed", Cost: 0.004 * float64(c.Rounds), Result: r, Alone: true,
		Have: func() bool { return r.Rounds >= c.Rounds },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = SpeedResult{Rounds: c.Rounds}
			sizes := []int{10_000, 1_000_000}
			if c.Rounds < 100 {
				sizes = []int{1000, 1000 * c.Rounds}
			}
			for i, n := range sizes {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := r.structures(c, n); err != nil {
					return err
				}
				tick(float64(i+1) / 3)
			}
			return r.orders(c, sizes[1])
		},
	}, r
}

// A lookup is a structure whose look-ups are timed.
type lookup struct {
	name  string
	bytes float64
	add   func(x []byte)
	find  func(x []byte) bool
}

// stopwatch times look-ups of all elements xs: the least processor time of nine passes,
// in ns for each look-up. The time that other programs take does not count, but what they
// do to the caches does.
func stopwatch(xs []byte, find func(x []byte) bool) float64 {
	const size = 20
	n := len(xs) / size
	var times []time.Duration
	found := 0
	for range 9 {
		began := experiment.ThreadTime()
		for i := 0; i < len(xs); i += size {
			if find(xs[i : i+size]) {
				found++
			}
		}
		times = append(times, experiment.ThreadTime()-began)
	}
	if found < 0 {
		return 0
	}
	return float64(slices.Min(times).Nanoseconds()) / float64(n)
}

// signatures returns n random elements of 20 bytes, one after the other.
func signatures(seed uint64, purpose string, n int) []byte {
	r := experiment.Stream(seed, purpose, n)
	xs := make([]byte, 20*n)
	for i := 0; i+8 <= len(xs); i += 8 {
		binary.LittleEndian.PutUint64(xs[i:], r.Uint64())
	}
	return xs
}

func (r *SpeedResult) structures(c *experiment.Config, n int) error {
	all, err := lookups(c, n)
	if err != nil {
		return err
	}
	ask := min(n, 200_000)
	in, out := signatures(c.Seed, "in", n), signatures(c.Seed, "out", ask)
	for _, l := range all {
		for i := 0; i < len(in); i += 20 {
			l.add(in[i : i+20])
		}
		found := 0
		for i := 0; i < len(out); i += 20 {
			found += experiment.Bit(l.find(out[i : i+20]))
		}
		r.Rows = append(r.Rows, speedRow{
			Asked: ask, Found: found,
			Structure: l.name, Elements: n, Bytes: l.bytes / float64(n),
			Hit: stopwatch(in[:20*ask], l.find), Miss: stopwatch(out, l.find),
		})
	}
	return nil
}

// lookups returns every structure, sized for n elements at an error of about
// 1e-3. All take the signature's bytes and hash them.
func lookups(c *experiment.Config, n int) ([]lookup, error) {
	secret := experiment.SecretOf(c.Seed, 3)
	family, err := paper.Keyed(secret, uint64(16*n), 8)
	if err != nil {
		return nil, err
	}
	bloom, err := paper.NewBloom(family)
	if err != nil {
		return nil, err
	}
	cells, err := paper.Keyed(secret, uint64(11*n), 6)
	if err != nil {
		return nil, err
	}
	shape, err := filter.SizeTwoPart(uint64(n), 1e-3, filter.EigenHash)
	if err != nil {
		return nil, err
	}
	two, err := filter.NewTwoPart(shape, secret)
	if err != nil {
		return nil, err
	}
	out := []lookup{
		{"classic Bloom, k = 8", 2 * float64(n), func(x []byte) { bloom.Add(x) }, bloom.Contains},
		{"two-part, 1e-3", float64(shape.Bytes()), func(x []byte) { two.Add(x) }, two.Contains},
	}
	for _, l := range []paper.CellLayout{paper.FixedCells(8), paper.FixedCells(5), paper.SplitCells(4, 1+11*n>>16)} {
		f, err := paper.NewRefined(cells, l)
		if err != nil {
			return nil, err
		}
		out = append(out, lookup{"refined, " + l.String(), float64(f.Bytes()), func(x []byte) { f.Insert(x, 1) },
			func(x []byte) bool { return f.Count(x) > 0 }})
	}
	production, err := productionLookups(secret, n)
	if err != nil {
		return nil, err
	}
	// Its fingerprints have 8 bits, so it errs more often than the others.
	fingerprints := cuckoo.NewFilter(uint(n))
	out = append(append(out, production...), lookup{"cuckoo (seiflotfy), 8 bits", float64(len(fingerprints.Encode())),
		func(x []byte) { fingerprints.InsertUnique(x) }, fingerprints.Lookup})
	exact := make(map[[20]byte]uint32)
	return append(out, lookup{"Go map, exact", 0,
		func(x []byte) { exact[[20]byte(x)]++ }, func(x []byte) bool { return exact[[20]byte(x)] > 0 }}), nil
}

func productionLookups(secret filter.Secret, n int) ([]lookup, error) {
	geometry, err := filter.SizeFor(filter.Target{Kind: filter.Bitmap, Signatures: uint64(n), Error: filter.Ghost,
		Rate: 1e-3, KeyID: secret.ID()})
	if err != nil {
		return nil, err
	}
	bits, err := arrays.NewBits(geometry)
	if err != nil {
		return nil, err
	}
	g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: uint64(n), Error: filter.CountWrong, Rate: 1e-3,
		KeyID: secret.ID()})
	if err != nil {
		return nil, err
	}
	counting, err := arrays.NewCounting(g)
	if err != nil {
		return nil, err
	}
	return []lookup{
		{"production bits, one line", float64(geometry.Bytes()), func(x []byte) { bits.Set(secret.Key(x)) },
			func(x []byte) bool { return bits.Has(secret.Key(x)) }},
		{"production counting, one line", float64(g.Bytes()), func(x []byte) { counting.Add(secret.Key(x), 1) },
			func(x []byte) bool { return counting.Count(secret.Key(x)) > 0 }},
	}, nil
}

// orders measures in which order to ask the two filters of a blocklist: n
// signatures are in the first, 1 % of them revoked in the second.
func (r *SpeedResult) orders(c *experiment.Config, n int) error {
	secret := experiment.SecretOf(c.Seed, 3)
	var fs [2]*arrays.Bits
	for i, size := range []int{n, n / 100} {
		g, err := filter.SizeFor(filter.Target{Kind: filter.Bitmap, Signatures: uint64(size), Error: filter.Ghost, Rate: 1e-4,
			KeyID: secret.ID()})
		if err != nil {
			return err
		}
		if fs[i], err = arrays.NewBits(g); err != nil {
			return err
		}
	}
	in, out := signatures(c.Seed, "in", n), signatures(c.Seed, "out", n)
	for i := 0; i < len(in); i += 20 {
		fs[0].Set(secret.Key(in[i : i+20]))
		if i < len(in)/100 {
			fs[1].Set(secret.Key(in[i : i+20]))
		}
	}
	rnd := experiment.Stream(c.Seed, "order")
	for _, share := range []float64{0.05, 0.5, 0.95} {
		ask := min(2*n, 200_000)
		mix := make([]byte, 0, 20*ask)
		for range ask {
			from := out
			if rnd.Float64() < share {
				from = in
			}
			i := 20 * rnd.IntN(n)
			mix = append(mix, from[i:i+20]...)
		}
		r.Orders = append(r.Orders, orderRow{
			Spam: share,
			SBFFirst: stopwatch(mix, func(x []byte) bool {
				k := secret.Key(x)
				return fs[0].Has(k) && !fs[1].Has(k)
			}),
			RBFFirst: stopwatch(mix, func(x []byte) bool {
				k := secret.Key(x)
				return !fs[1].Has(k) && fs[0].Has(k)
			}),
		})
	}
	return nil
}
