package real

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A World is what mail is like at some sites. Every field is drawn from a distribution; none is a
// constant of the program that is judged.
type World struct {
	Seed uint64  `json:"seed"`
	Days float64 `json:"days"` // that the plan lasts
	// HamPerDay is the number of deliveries of genuine mail to all sites in a day, 20 to 20,000.
	HamPerDay float64 `json:"ham_per_day"`
	SpamShare float64 `json:"spam_share"` // of all deliveries
	Sites     int     `json:"sites"`
	Users     int     `json:"users"` // of all sites together
	// Tail is the exponent of the number of copies of a campaign, which is 1 to MostCopies.
	Tail       float64 `json:"tail"`
	MostCopies int     `json:"most_copies"`
	// Differences, Senders and Links are the shares of the campaigns by how their copies differ,
	// by who sends them, and by what they link to.
	Differences []float64 `json:"differences"`
	Senders     []float64 `json:"senders"`
	Links       []float64 `json:"links"`
	Genuine     []float64 `json:"genuine"` // shares of the deliveries of genuine mail by its kind
	// LeastRate and MostRate bound the shares of spam that users report.
	LeastRate float64       `json:"least_rate"`
	MostRate  float64       `json:"most_rate"`
	Mistakes  float64       `json:"mistakes"`  // share of genuine mail that its reader reports
	Objecting float64       `json:"objecting"` // share of genuine mail called spam that its reader objects to
	Delay     time.Duration `json:"delay"`     // mean time until a reader speaks
	Spread    time.Duration `json:"spread"`    // mean time from the first copy of a campaign to another
	Rejecting float64       `json:"rejecting"` // share of the sites that refuse spam
	Pages     float64       `json:"pages"`     // share of the senders that write HTML
	Verified  float64       `json:"verified"`  // share of the genuine senders who sign or have an SPF record
}

// differences are the ways in which the copies of a campaign differ.
var differences = []string{"identical", "name", "token", "words", "templates", "picture", "clone"}

// spamSenders are the kinds of senders of a campaign.
var spamSenders = []string{"none", "one", "fresh", "tenant", "hacked"}

// spamLinks are what campaigns link to.
var spamLinks = []string{"own", "fresh", "platform", "shortener", "redirector", "nothing"}

// genuineKinds are the kinds of genuine mail.
var genuineKinds = []string{"personal", "list", "newsletter", "notice", "form", "reset", "forward", "hoster", "office"}

// size limits, in deliveries of one plan.
const (
	minSize     = 200
	DefaultSize = 12_000
)

// NewWorld draws a world. size is how many deliveries its plan has at most, about; it shortens
// the plan and the largest campaigns of worlds with more mail.
func NewWorld(seed uint64, size int) *World {
	size = max(size, minSize)
	r := rand.New(rand.NewPCG(seed, 0x776f726c64))
	w := &World{
		Seed: seed, HamPerDay: spread(r, 20, 20_000), SpamShare: between(r, 0.15, 0.7),
		Sites: 4 + r.IntN(5), Tail: between(r, 0.8, 1.6),
		Differences: shares(r, len(differences)), Senders: shares(r, len(spamSenders)), Links: shares(r, len(spamLinks)),
		Genuine:   shares(r, len(genuineKinds)),
		LeastRate: spread(r, 0.005, 0.03), MostRate: spread(r, 0.05, 0.3),
		Mistakes: spread(r, 0.0005, 0.01), Objecting: between(r, 0, 0.2),
		Delay: time.Duration(spread(r, 0.2, 12) * float64(time.Hour)), Spread: time.Duration(spread(r, 0.5,
			72) * float64(time.Hour)),
		Rejecting: between(r, 0, 0.6), Pages: between(r, 0.3, 0.9), Verified: between(r, 0.5, 0.95),
	}
	perDay := w.HamPerDay / (1 - w.SpamShare)
	w.Days = min(35, max(3, float64(size)/perDay))
	// Three days of a large site have more mail than fits: such a plan has a part of its users.
	w.HamPerDay = min(w.HamPerDay, float64(size)*(1-w.SpamShare)/w.Days)
	w.Users = int(max(8, w.HamPerDay/between(r, 3, 12)))
	w.MostCopies = max(50, min(10_000, size/4))
	return w
}

// A builder draws a plan of a world.
type builder struct {
	*World
	r       *rand.Rand
	plan    *Plan
	span    time.Duration
	senders []*source // of genuine mail
	places  *places
}

// Plan draws the deliveries.
func (w *World) Plan() *Plan {
	b := &builder{
		World: w, r: rand.New(rand.NewPCG(w.Seed, 0x706c616e)), span: time.Duration(w.Days * 24 * float64(time.Hour)),
		plan: &Plan{Name: fmt.Sprintf("world %d", w.Seed), Signed: true},
	}
	b.sites()
	b.places = newPlaces(b.r)
	b.genuineSenders()
	ham := int(w.HamPerDay * w.Days)
	b.genuine(ham)
	b.spam(int(float64(ham) * w.SpamShare / (1 - w.SpamShare)))
	return b.finish()
}

// finish returns the plan in order of time.
func (b *builder) finish() *Plan {
	slices.SortStableFunc(b.plan.Deliveries, func(a, c Delivery) int { return cmp.Compare(a.At, c.At) })
	for i := range b.plan.Deliveries {
		b.plan.Deliveries[i].seed = b.Seed*0x9e3779b97f4a7c15 + uint64(i)
	}
	return b.plan
}

// sites draws the sites. The first ones have a door each, so that every door is used.
func (b *builder) sites() {
	for i := range b.Sites {
		site := Site{Domain: domainName(b.r, true), Door: Milter, Rejects: chance(b.r, b.Rejecting)}
		switch {
		case i < len(Doors):
			site.Door = Doors[i]
		case chance(b.r, 0.5):
			site.Door = pick(b.r, Doors)
		}
		ways := Ways[site.Door]
		for u := range max(2, b.Users/b.Sites) {
			site.Users = append(site.Users, User{
				Name: fmt.Sprintf("%s%d", coin(b.r, 2), u), Way: ways[u%len(ways)], Rate: spread(b.r, b.LeastRate, b.MostRate),
			})
		}
		b.plan.Sites = append(b.plan.Sites, site)
	}
}

// A reader is a user of a site.
type reader struct{ site, user int }

func (b *builder) reader() reader {
	site := b.r.IntN(len(b.plan.Sites))
	return reader{site, b.r.IntN(len(b.plan.Sites[site].Users))}
}

// readers returns n different readers, or all.
func (b *builder) readers(n int) []reader {
	var all []reader
	for s := range b.plan.Sites {
		for u := range b.plan.Sites[s].Users {
			all = append(all, reader{s, u})
		}
	}
	b.r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all[:min(n, len(all))]
}

// deliver adds a delivery of a campaign.
func (b *builder) deliver(at time.Duration, to reader, spam bool, kind string, groups []Group, make func(*rand.Rand,
	*Delivery) Mail) {
	rate := b.Mistakes
	if spam {
		rate = b.plan.Sites[to.site].Users[to.user].Rate
	}
	b.plan.Deliveries = append(b.plan.Deliveries, Delivery{
		At: at, Spam: spam, Kind: kind, Groups: groups, Campaign: b.plan.Campaigns, Site: to.site, User: to.user,
		To:      b.plan.Sites[to.site].Address(to.user),
		Reports: chance(b.r, rate), Objects: !spam && chance(b.r, b.Objecting), Delay: 2*time.Minute + later(b.r, b.Delay),
		make: make,
	})
}

// spam adds campaigns until they have n copies in all.
func (b *builder) spam(n int) {
	for n > 0 {
		copies := min(n, b.MostCopies, int(math.Pow(1-b.r.Float64(), -1/b.Tail)))
		c := b.newCampaign(copies)
		start := time.Duration(b.r.Float64() * float64(b.span))
		for i := range copies {
			at := start
			if i > 0 {
				at += later(b.r, b.Spread)
			}
			if at < b.span {
				b.deliver(at, b.reader(), true, c.kind, c.groups, c.copy)
			}
		}
		b.plan.Campaigns++
		n -= copies
	}
}

// genuine adds mailings until they have n deliveries in all.
func (b *builder) genuine(n int) {
	byKind := map[string][]*source{}
	for _, s := range b.senders {
		byKind[s.kind] = append(byKind[s.kind], s)
	}
	for n > 0 {
		all := byKind[genuineKinds[weighted(b.r, b.Genuine)]]
		s := all[min(len(all)-1, int(b.r.ExpFloat64()*float64(len(all))/3))] // some write much more than others
		start := time.Duration(b.r.Float64() * float64(b.span))
		m := s.mailing(b.r, start)
		to := s.readers
		if !s.toAll {
			to = []reader{pick(b.r, s.readers)}
		}
		for _, who := range to {
			at := start + later(b.r, 5*time.Minute)
			if n--; n < 0 {
				break
			}
			b.deliver(at, who, false, s.kind, s.groups, m)
		}
		b.plan.Campaigns++
	}
}
