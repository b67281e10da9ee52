package study

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/filter/paper"
)

// A twoPartRow is a two-part filter beside a classic one of the same size and
// number of hash functions.
type twoPartRow struct {
	Case    string  `json:"case"`
	Bits    int     `json:"bits"` // m/n, both sections
	Eigen   string  `json:"eigenvalue"`
	Asked   int     `json:"asked"`
	Classic int     `json:"classic"`  // false positives
	TwoPart int     `json:"two_part"` // false positives
	Formula float64 `json:"formula"`  // 5 of the paper, as printed
	Product float64 `json:"product"`  // of the sections at their fill
}

type twoPartResult struct {
	Rounds int          `json:"rounds"`
	Rows   []twoPartRow `json:"rows"`
}

// The shape that the paper's experiments suggest: d/k = 1/3, and a third more space.
const twoPartK, twoPartD = 6, 2

// A population makes addresses: members of the set, and others that are not in it.
type population struct {
	name           string
	member, friend func(*rand.Rand) string
}

func letters(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}

func populations(seed uint64) []population {
	r := stream(seed, "populations")
	stems := make([]string, 100)
	for i := range stems {
		stems[i] = letters(r, 3) + "." + letters(r, 4)
	}
	one := func(name string, f func(*rand.Rand) string) population { return population{name, f, f} }
	providers := []string{"mail.example.com", "post.example.net", "box.example.org", "letters.example", "inbox.example"}
	mixed := func(r *rand.Rand) string {
		name := letters(r, 3+r.IntN(5)) + "." + letters(r, 4+r.IntN(6))
		if r.IntN(2) == 0 {
			name += fmt.Sprint(r.IntN(100))
		}
		if r.IntN(3) > 0 {
			return name + "@" + providers[r.IntN(len(providers))]
		}
		return name + "@" + letters(r, 1) + ".company" + fmt.Sprint(r.IntN(3000)) + ".example"
	}
	farm := func(r *rand.Rand) string {
		return letters(r, 8) + "@spam" + fmt.Sprint(r.IntN(200)) + ".example"
	}
	return []population{
		one("random strings", func(r *rand.Rand) string { return letters(r, 20) + "@" + letters(r, 12) + ".example" }),
		one("mixed addresses", mixed),
		one("three groups of letters", func(r *rand.Rand) string {
			return letters(r, 3) + "." + letters(r, 3) + "." + letters(r, 3) + "@" + providers[r.IntN(len(providers))]
		}),
		one("100 stems and digits", func(r *rand.Rand) string {
			return stems[r.IntN(len(stems))] + fmt.Sprint(r.IntN(1e8)) + "@" + providers[0]
		}),
		one("one stem and digits", func(r *rand.Rand) string { return fmt.Sprintf("offer%09d@%s", r.IntN(1e9), providers[0]) }),
		{"spam on 200 domains of its own", farm, mixed},
		{"half of the spam on large providers", func(r *rand.Rand) string {
			if r.IntN(2) == 0 {
				return farm(r)
			}
			return letters(r, 8) + "@" + providers[r.IntN(len(providers))]
		}, mixed},
	}
}

func twoPartEigenvalues() []filter.Eigenvalue {
	return []filter.Eigenvalue{filter.EigenChars, filter.EigenDomain, filter.EigenLength, filter.EigenMidSquare, filter.EigenDivision, filter.EigenHash}
}

func (c *Config) twoPartUnit() (*unit, *twoPartResult) {
	r := &twoPartResult{}
	return &unit{
		name: "twopart", cost: 0.025 * float64(c.Rounds), result: r,
		have: func() bool { return r.Rounds >= c.Rounds },
		run: func(ctx context.Context, _ *simulator, tick func(float64)) error {
			*r = twoPartResult{Rounds: c.Rounds}
			all := populations(c.Seed)
			for i, p := range all {
				for j, bits := range []int{8, 16} {
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := r.measure(c, p, bits); err != nil {
						return err
					}
					tick(float64(2*i+j+1) / float64(2*len(all)))
				}
			}
			return nil
		},
	}, r
}

// measure builds a classic filter and one two-part filter for each eigenvalue
// from the same members, and asks all for the same others.
func (t *twoPartResult) measure(c *Config, p population, bits int) error {
	n := max(2000, 20*c.Rounds)
	ask := 10 * n
	m := uint64(bits * n)
	r := stream(c.Seed, "two-part "+p.name, bits)
	family, err := paper.Keyed(secretOf(c.Seed, 1), m, twoPartK+twoPartD)
	if err != nil {
		return err
	}
	classic, err := paper.NewBloom(family)
	if err != nil {
		return err
	}
	var filters []*filter.TwoPart
	for _, e := range twoPartEigenvalues() {
		f, err := filter.NewTwoPart(filter.TwoPartShape{M1: m - m/4, M2: m / 4, K: twoPartK, D: twoPartD, Eigen: e}, secretOf(c.Seed, 2))
		if err != nil {
			return err
		}
		filters = append(filters, f)
	}
	members := make(map[string]bool, n)
	for len(members) < n {
		x := p.member(r)
		if members[x] {
			continue
		}
		members[x] = true
		classic.Add([]byte(x))
		for _, f := range filters {
			f.Add([]byte(x))
		}
	}
	rows := make([]twoPartRow, len(filters))
	for asked := 0; asked < ask; {
		x := p.friend(r)
		if members[x] {
			continue
		}
		asked++
		found := classic.Contains([]byte(x))
		for i, f := range filters {
			if found {
				rows[i].Classic++
			}
			if f.Contains([]byte(x)) {
				rows[i].TwoPart++
			}
		}
	}
	for i, f := range filters {
		rows[i].Case, rows[i].Bits, rows[i].Eigen, rows[i].Asked = p.name, bits, f.Shape().Eigen.String(), ask
		rows[i].Formula = paper.TwoPartRate(float64(bits), twoPartK, twoPartD)
		rows[i].Product = f.ProductRate()
	}
	t.Rows = append(t.Rows, rows...)
	return nil
}
