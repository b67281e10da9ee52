package arrays

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/lab/paper"
	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// A twoPartRow is a two-part filter beside a classic one of the same size and
// number of hash functions.
type twoPartRow struct {
	Case    string  `json:"case"`
	Members int     `json:"members"`
	Bits    int     `json:"bits"`  // m/n
	Third   bool    `json:"third"` // m is the first section, and the second a third of it on top
	Eigen   string  `json:"eigenvalue"`
	Asked   int     `json:"asked"`
	Classic int     `json:"classic"`  // false positives of one with all the bits and k+d functions
	Plain   int     `json:"plain"`    // of one without the third on top, k functions
	TwoPart int     `json:"two_part"` // false positives
	Formula float64 `json:"formula"`  // 5 of the paper, as printed
	Product float64 `json:"product"`  // of the sections at their fill
}

// A TwoPartResult repeats Figures 1 to 3 of Jiang & Zhao.
type TwoPartResult struct {
	Rounds int          `json:"rounds"`
	Real   bool         `json:"real"` // real lists are among them
	Rows   []twoPartRow `json:"rows"`
}

// The shape that the paper suggests: d/k = 1/3.
const TwoPartK, TwoPartD = 6, 2

// TwoPartMembers is the number of made-up elements that are inserted.
const TwoPartMembers = 20_000

// A population makes elements: members of the set and, of the same kind, mail
// that is not in it.
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
	r := experiment.Stream(seed, "populations")
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
		one("one stem and digits", func(r *rand.Rand) string {
			return fmt.Sprintf("offer%09d@%s", r.IntN(1e9), providers[0])
		}),
		{"spam on 200 domains of its own", farm, mixed},
		{"half of the spam on large providers", func(r *rand.Rand) string {
			if r.IntN(2) == 0 {
				return farm(r)
			}
			return letters(r, 8) + "@" + providers[r.IntN(len(providers))]
		}, mixed},
	}
}

// TwoPartEigenvalues returns the eigenvalues that are compared.
func TwoPartEigenvalues() []filter.Eigenvalue {
	return []filter.Eigenvalue{filter.EigenChars, filter.EigenDomain, filter.EigenLength, filter.EigenMidSquare,
		filter.EigenDivision, filter.EigenHash}
}

// TwoPartUnit returns the work of Figures 1 to 3.
func TwoPartUnit(c *experiment.Config) (*experiment.Unit, *TwoPartResult) {
	r := &TwoPartResult{}
	return &experiment.Unit{
		Name: "twopart", Cost: 0.05 * float64(c.Rounds), Result: r,
		Have: func() bool { return r.Rounds >= c.Rounds && r.Real == (c.Corpus != "") },
		Run: func(ctx context.Context, _ *experiment.Simulator, tick func(float64)) error {
			*r = TwoPartResult{}
			var lists []elementList
			for _, p := range populations(c.Seed) {
				lists = append(lists, p.list(c))
			}
			if c.Corpus != "" {
				real, err := realLists(ctx, c)
				if err != nil {
					return err
				}
				lists = append(lists, real...)
			}
			for i, l := range lists {
				for _, bits := range []int{8, 16} {
					for _, third := range []bool{false, true} {
						if err := ctx.Err(); err != nil {
							return err
						}
						if err := r.measure(c, l, bits, third); err != nil {
							return err
						}
					}
				}
				tick(float64(i+1) / float64(len(lists)))
			}
			r.Rounds, r.Real = c.Rounds, c.Corpus != ""
			return nil
		},
	}, r
}

// An elementList is elements that are inserted, and others to ask for; none is in both.
type elementList struct {
	name            string
	members, others []string
}

// list draws the elements of a population.
func (p *population) list(c *experiment.Config) elementList {
	l := elementList{name: p.name}
	r := experiment.Stream(c.Seed, "two-part "+p.name)
	have := make(map[string]bool, TwoPartMembers)
	for len(l.members) < TwoPartMembers {
		if x := p.member(r); !have[x] {
			have[x] = true
			l.members = append(l.members, x)
		}
	}
	for len(l.others) < max(2000, 200*c.Rounds) {
		if x := p.friend(r); !have[x] {
			l.others = append(l.others, x)
		}
	}
	return l
}

// measure builds classic filters and one two-part filter for each eigenvalue from the
// same members, and asks all for the same others.
func (t *TwoPartResult) measure(c *experiment.Config, l elementList, bits int, third bool) error {
	m1 := uint64(bits * len(l.members))
	m2 := m1 / 4
	m1, all := m1-m2, m1
	if third {
		m1, m2, all = all, all/3, all+all/3
	}
	classic, err := classicOf(c, all, TwoPartK+TwoPartD)
	if err != nil {
		return err
	}
	plain, err := classicOf(c, uint64(bits*len(l.members)), TwoPartK)
	if err != nil {
		return err
	}
	var filters []*filter.TwoPart
	for _, e := range TwoPartEigenvalues() {
		f, err := filter.NewTwoPart(filter.TwoPartShape{M1: m1, M2: m2, K: TwoPartK, D: TwoPartD, Eigen: e},
			experiment.SecretOf(c.Seed, 2))
		if err != nil {
			return err
		}
		filters = append(filters, f)
	}
	for _, x := range l.members {
		classic.Add([]byte(x))
		plain.Add([]byte(x))
		for _, f := range filters {
			f.Add([]byte(x))
		}
	}
	rows := make([]twoPartRow, len(filters))
	for _, x := range l.others {
		inClassic, inPlain := classic.Contains([]byte(x)), plain.Contains([]byte(x))
		for i, f := range filters {
			rows[i].Classic += experiment.Bit(inClassic)
			rows[i].Plain += experiment.Bit(inPlain)
			rows[i].TwoPart += experiment.Bit(f.Contains([]byte(x)))
		}
	}
	for i, f := range filters {
		rows[i].Case, rows[i].Members, rows[i].Bits, rows[i].Third = l.name, len(l.members), bits, third
		rows[i].Eigen, rows[i].Asked = f.Shape().Eigen.String(), len(l.others)
		rows[i].Formula = paper.TwoPartRate(float64(bits), TwoPartK, TwoPartD)
		rows[i].Product = f.ProductRate()
	}
	t.Rows = append(t.Rows, rows...)
	return nil
}

// classicOf returns an empty classic filter of m bits.
func classicOf(c *experiment.Config, m uint64, k int) (*paper.Bloom, error) {
	family, err := paper.Keyed(experiment.SecretOf(c.Seed, 1), m, k)
	if err != nil {
		return nil, err
	}
	return paper.NewBloom(family)
}
