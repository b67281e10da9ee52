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
	to         string  // the user's address; "" for one made of the two
	early      bool    // of a message first sent before Options.After
	luck       float64 // in [0, 1): complains if it is below the rate, objects likewise
	delay      time.Duration
}

// account and name are who speaks for the recipient, and who that is; address is
// where the copy went.
func (d *delivery) account() string { return siteName(d.site) }
func (d *delivery) name() string    { return fmt.Sprintf("user%d", d.user+1) }
func (d *delivery) address() string {
	if d.to != "" {
		return d.to
	}
	return d.name() + "@" + d.account() + ".example"
}

func siteName(site int) string { return fmt.Sprintf("site-%04d", site+1) }

// A plan is a stream before it is judged.
type plan struct {
	seed       uint64
	deliveries []delivery // in order of time
	sizes      []int      // copies of each campaign
	early      []bool     // campaigns that begin before Options.After
	capacity   uint64     // signatures of a generation; 0: as the deliveries need
}

// begin is when every stream begins: the turn of a day's generation and a week's.
var begin = time.Date(2024, 1, 4, 0, 0, 0, 0, time.UTC)

// newPlan draws a stream.
func newPlan(letters []*Letter, opts *Options, seed uint64) *plan {
	p := &plan{seed: seed}
	random := rand.New(rand.NewPCG(seed, 0x73747265616d))
	span := time.Duration(opts.Days) * 24 * time.Hour
	for _, m := range mailings(letters, opts.Apart) {
		habit := kinds[m.letter.Kind]
		spread := habit.spread
		if spread == 0 {
			spread = opts.Spread
		}
		start := begin.Add(time.Duration(m.place * float64(span)))
		copies := copies(habit, opts.Tail, random)
		for i := range copies {
			at := start
			if i > 0 {
				at = at.Add(time.Duration(random.ExpFloat64() * float64(spread)))
			}
			p.deliveries = append(p.deliveries, delivery{
				at: at, letter: m.letter, campaign: m.campaign, early: start.Sub(begin) < opts.After,
				site: random.IntN(opts.Sites), user: random.IntN(opts.Users), luck: random.Float64(), delay: delay(random),
			})
		}
		if m.campaign == len(p.sizes) {
			p.sizes = append(p.sizes, 0)
			p.early = append(p.early, start.Sub(begin) < opts.After)
		}
		p.sizes[m.campaign] += copies
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

// copies draws how many copies of a message are sent.
func copies(h habits, tail float64, random *rand.Rand) int {
	u := 1 - random.Float64() // in (0, 1]
	if h.least == h.most {
		return h.least
	}
	return int(min(float64(h.most), float64(h.least)*math.Pow(u, -1/tail)))
}

// A mailing is one message of a collection, which is sent in copies. A campaign has as many
// mailings as the collection, each at its own place, unless each is apart.
type mailing struct {
	letter   *Letter
	campaign int     // numbered from 0 on, in order of the first mailing
	place    float64 // in the stream, 0 to 1
}

// mailings puts letters of one collection and kind in the order in which they came
// there, and spreads them evenly over the stream, whatever years the collection is of.
func mailings(letters []*Letter, apart bool) []mailing {
	ordered := slices.Clone(letters)
	slices.SortStableFunc(ordered, func(a, b *Letter) int {
		return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.Kind, b.Kind), a.time.Compare(b.time))
	})
	type key struct {
		set, campaign string
		kind          Kind
	}
	campaigns := map[key]int{}
	row := map[key]int{} // how many of one collection and kind
	for _, l := range ordered {
		row[key{set: l.set, kind: l.Kind}]++
	}
	done := map[key]int{}
	var all []mailing
	for _, l := range ordered {
		k, r := key{l.set, l.campaign, l.Kind}, key{set: l.set, kind: l.Kind}
		campaign := len(all)
		if !apart {
			if _, known := campaigns[k]; !known {
				campaigns[k] = len(campaigns)
			}
			campaign = campaigns[k]
		}
		all = append(all, mailing{l, campaign, float64(done[r]) / float64(row[r])})
		done[r]++
	}
	return all
}
