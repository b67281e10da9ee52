package stream

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A delivery is one copy that comes to one user, and what that one will be moved to
// do. All of it is drawn before anything is judged, so that equal seeds compare
// rules and rates on equal streams.
type delivery struct {
	at         time.Time
	letter     *Letter
	campaign   int
	site, user int
	luck       float64 // in [0, 1): complains if it is below the rate, objects likewise
	delay      time.Duration
}

// account and name are who speaks for the recipient, and who that is; address is
// where the copy went.
func (d *delivery) account() string { return siteName(d.site) }
func (d *delivery) name() string    { return fmt.Sprintf("user%d", d.user+1) }
func (d *delivery) address() string { return d.name() + "@" + d.account() + ".example" }

func siteName(site int) string { return fmt.Sprintf("site-%04d", site+1) }

// A plan is a stream before it is judged.
type plan struct {
	seed       uint64
	deliveries []delivery // in order of time
	sizes      []int      // copies of each campaign
}

// begin is when every stream begins: the turn of a day's generation and a week's.
var begin = time.Date(2024, 1, 4, 0, 0, 0, 0, time.UTC)

// newPlan draws a stream.
func newPlan(letters []*Letter, opts *Options, seed uint64) *plan {
	p := &plan{seed: seed}
	random := rand.New(rand.NewPCG(seed, 0x73747265616d))
	span := time.Duration(opts.Days) * 24 * time.Hour
	for _, c := range campaigns(letters) {
		habit := kinds[c.members[0].Kind]
		spread := habit.spread
		if spread == 0 {
			spread = opts.Spread
		}
		start := begin.Add(time.Duration(c.place * float64(span)))
		copies := c.copies(habit, opts.Tail, random)
		for i := range copies {
			at := start
			if i > 0 {
				at = at.Add(time.Duration(random.ExpFloat64() * float64(spread)))
			}
			p.deliveries = append(p.deliveries, delivery{
				at: at, letter: c.members[random.IntN(len(c.members))], campaign: len(p.sizes),
				site: random.IntN(opts.Sites), user: random.IntN(opts.Users), luck: random.Float64(), delay: delay(random),
			})
		}
		p.sizes = append(p.sizes, copies)
	}
	slices.SortStableFunc(p.deliveries, func(a, b delivery) int { return a.at.Compare(b.at) })
	return p
}

// delay is how long a recipient takes to complain: five minutes to a day, a third of
// them within half an hour.
func delay(random *rand.Rand) time.Duration {
	const least, most = 5 * time.Minute, 24 * time.Hour
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64()))
}

// A campaign is messages that are sent together.
type campaign struct {
	members []*Letter
	place   float64 // in the stream, 0 to 1
}

// copies draws how many copies of a campaign are sent.
func (c *campaign) copies(h habits, tail float64, random *rand.Rand) int {
	u := 1 - random.Float64() // in (0, 1]
	if h.least == h.most {
		return h.least
	}
	return int(min(float64(h.most), float64(h.least)*math.Pow(u, -1/tail)))
}

// campaigns puts letters of one campaign and kind together. Those of one kind and
// collection stand in the order of their first letters, and are spread evenly over
// the stream, whatever years the collection is of.
func campaigns(letters []*Letter) []*campaign {
	ordered := slices.Clone(letters)
	slices.SortStableFunc(ordered, func(a, b *Letter) int {
		return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.Kind, b.Kind), a.time.Compare(b.time))
	})
	type key struct {
		set, campaign string
		kind          Kind
	}
	known := map[key]*campaign{}
	row := map[key][]*campaign{} // of one collection and kind
	var all []*campaign
	for _, l := range ordered {
		k := key{l.set, l.campaign, l.Kind}
		if known[k] == nil {
			known[k] = &campaign{}
			all = append(all, known[k])
			k.campaign = ""
			row[k] = append(row[k], all[len(all)-1])
		}
		c := known[key{l.set, l.campaign, l.Kind}]
		c.members = append(c.members, l)
	}
	for _, row := range row {
		for i, c := range row {
			c.place = float64(i) / float64(len(row))
		}
	}
	return all
}
