package arrays

import (
	"context"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A revocationRow is Razor's pair of filters with a share of the spam revoked: how much other spam
// the revocation filter (RBF) hides by chance, and how much mail that was never called spam is
// taken for it.
type revocationRow struct {
	Filters   string  `json:"filters"`
	Share     float64 `json:"share"` // of the spam that is revoked
	Sized     float64 `json:"sized"` // the share that the RBF was sized for
	Spam      int     `json:"spam"`  // signatures asked for that are spam and not revoked
	Hidden    int     `json:"hidden"`
	Theory    float64 `json:"theory"` // of Hidden
	Ham       int     `json:"ham"`    // signatures asked for that were never reported
	Taken     int     `json:"taken"`  // for spam
	HamTheory float64 `json:"ham_theory"`
	Bytes     float64 `json:"bytes"` // of both filters, for a signature of spam
}

// A RevocationResult is how much spam the revocations of other messages hide by chance.
type RevocationResult struct {
	Rounds int             `json:"rounds"`
	Rows   []revocationRow `json:"rows"`
}

// RevocationSpam returns the number of signatures in the spam filter.
func RevocationSpam(c *experiment.Config) int { return c.Less(200_000, 20_000) }

// RevocationRate is the error that both filters are sized for.
const RevocationRate = 1e-3

// RevocationUnit returns the work of measuring hidden spam.
func RevocationUnit(c *experiment.Config) (*experiment.Unit, *RevocationResult) {
	r := &RevocationResult{}
	return &experiment.Unit{
		Name: "revocation", Cost: 0.02 * float64(c.Rounds), Result: r,
		Have: func() bool { return r.Rounds >= c.Rounds },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = RevocationResult{}
			cases := []struct{ share, sized float64 }{{0.001, 0.01}, {0.01, 0.01}, {0.02, 0.01}, {0.05, 0.01}, {0.1, 0.01},
				{0.1, 0.1}}
			for i, x := range cases {
				for _, of := range []string{"a node's, one line", "the paper's, k = 10"} {
					row := revocationRow{Filters: of, Share: x.share, Sized: x.sized}
					if err := row.measure(ctx, c, i); err != nil {
						return err
					}
					r.Rows = append(r.Rows, row)
				}
				tick(float64(i+1) / float64(len(cases)))
			}
			r.Rounds = c.Rounds
			return nil
		},
	}, r
}

// A keySet is a filter of keys.
type keySet struct {
	add   func(filter.Key)
	has   func(filter.Key) bool
	error func() float64 // at its present fill, by theory
	bytes uint64
}

// nodeSet is a node's bits, sized for n keys.
func nodeSet(n int) (keySet, error) {
	g, err := filter.SizeFor(filter.Target{Kind: filter.Bitmap, Signatures: uint64(n), Error: filter.Ghost,
		Rate: RevocationRate})
	if err != nil {
		return keySet{}, err
	}
	b, err := arrays.NewBits(g)
	if err != nil {
		return keySet{}, err
	}
	added := uint64(0)
	return keySet{func(k filter.Key) { b.Set(k); added++ }, b.Has, func() float64 { return g.GhostError(added) },
		g.Bytes()}, nil
}

// paperSet is a classic filter of the least size for n keys and ten functions.
func paperSet(n int) (keySet, error) {
	const k = 10
	m := uint64(filter.BitsPerElement(k, RevocationRate)*float64(n)) + 1
	family, err := paper.Keyed(filter.Secret{}, m, k)
	if err != nil {
		return keySet{}, err
	}
	b, err := paper.NewBloom(family)
	if err != nil {
		return keySet{}, err
	}
	added := uint64(0)
	return keySet{func(x filter.Key) { b.AddKey(x); added++ }, b.ContainsKey,
		func() float64 { return paper.FalsePositiveRate(m, added, k) }, m / 8}, nil
}

func (row *revocationRow) measure(ctx context.Context, c *experiment.Config, number int) error {
	n := RevocationSpam(c)
	sized := nodeSet
	if row.Filters != "a node's, one line" {
		sized = paperSet
	}
	for trial := range max(1, c.Rounds/200) {
		if err := ctx.Err(); err != nil {
			return err
		}
		spam, err := sized(n)
		if err != nil {
			return err
		}
		revoked, err := sized(int(row.Sized * float64(n)))
		if err != nil {
			return err
		}
		r := experiment.Stream(c.Seed, "revocation", number, trial)
		keys := randomKeys(r, n)
		for _, k := range keys {
			spam.add(k)
		}
		gone := int(row.Share * float64(n))
		for _, k := range keys[:gone] {
			revoked.add(k)
		}
		for _, k := range keys[gone:] {
			row.Spam++
			row.Hidden += experiment.Bit(spam.has(k) && revoked.has(k))
		}
		for range 2 * n {
			k := randomKey(r)
			row.Ham++
			row.Taken += experiment.Bit(spam.has(k) && !revoked.has(k))
		}
		row.Theory = revoked.error()
		row.HamTheory = spam.error() * (1 - revoked.error())
		row.Bytes = float64(spam.bytes+revoked.bytes) / float64(n)
	}
	return nil
}

func randomKeys(r *rand.Rand, n int) []filter.Key {
	keys := make([]filter.Key, n)
	for i := range keys {
		keys[i] = randomKey(r)
	}
	return keys
}
