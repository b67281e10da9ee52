package evidence

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// A plainCounts is counts of one generation in a map, by key and kind.
type plainCounts struct {
	start  uint64
	weight float64
	own    bool
	n      map[cellOf]uint32
	voice  string
}

type cellOf struct {
	key  int
	kind uint8
}

// A plainList is one blocklist: of each generation, newest first, how often it lists a
// key, and has taken it off.
type plainList struct {
	weight     float64
	own, union bool
	start      []uint64
	turns      []map[int][2]int
}

// plain is what there is to read, in maps.
type plain struct {
	promotion float64
	morning   bool    // less than half of today has passed
	threshold float64 // 0: none
	counts    []plainCounts
	lists     []plainList
	start     []uint64            // of the blocklist's generations
	names     []map[cellOf]uint32 // by generation
	weights   []map[cellOf]uint32
	back      []map[cellOf]uint32
}

const plainKeyCount = 4

// spread returns a key as nodes make them: in real arrays those that key returns would
// share their cells.
func spread(n int) filter.Key { return filter.Secret{7}.Key([]byte{byte(n)}) }

// drawPlain draws books, and the books and replicas that hold the same.
func drawPlain(t *rapid.T) (*plain, *node) {
	n := newNode(t, 4, 3)
	p := &plain{promotion: rapid.SampledFrom([]float64{1, 0.5}).Draw(t, "promotion"),
		threshold: rapid.SampledFrom([]float64{0, 1, 2, 3, 20, 20, 400}).Draw(t, "threshold")}
	if rapid.Bool().Draw(t, "two of a day") {
		n.view.Tally.Live[3].Start = n.view.Tally.Live[2].Start - day/4
	}
	n.view.Tally.Live[3].Start -= uint64(rapid.SampledFrom([]int{0, 0, 70}).Draw(t, "old days")) * day
	for _, g := range n.view.Tally.Live {
		c := plainCounts{g.Start, 1, true, drawCounts(t, Claims), ""}
		each(c.n, func(k filter.Key, by uint32) { g.Counts.AddBatch(0, []filter.Key{k}, []uint32{by}, nil) })
		p.counts = append(p.counts, c)
	}
	own := plainList{weight: 1, own: true}
	for i, g := range n.view.Block.Live {
		p.start = append(p.start, g.Start)
		names := drawCounts(t, Addresses)
		each(names, func(k filter.Key, by uint32) { g.Names.AddBatch(0, []filter.Key{k}, []uint32{by}, nil) })
		p.names = append(p.names, names)
		weights, back := drawCounts(t, Unblamed), map[cellOf]uint32{}
		if rapid.IntRange(0, 2).Draw(t, "taken back") == 0 {
			back = drawCounts(t, Unblamed)
		}
		for c, by := range weights {
			AddWeight(spread(c.key), c.kind, by, func(k filter.Key, by uint32) { n.weigh(i, k, by) })
		}
		for c, by := range back {
			AddWeight(spread(c.key), TakenBack, 1, func(k filter.Key, by uint32) { n.weigh(i, k, by) })
			AddWeight(plainKeys{}.Back(spread(c.key)), c.kind, by, func(k filter.Key, by uint32) { n.weigh(i, k, by) })
		}
		p.weights, p.back = append(p.weights, weights), append(p.back, back)
		own.draw(t, g.Start, func(k filter.Key, revoked bool) { n.set(i, k, revoked) })
	}
	p.lists = append(p.lists, own)
	p.drawPeers(t, n)
	return p, n
}

// drawPeers draws two origins, and merged arrays of others.
func (p *plain) drawPeers(t *rapid.T, n *node) {
	weight := func() float64 {
		return rapid.SampledFrom([]float64{0, 0.01, 0.3, 0.3, 0.5, 1}).Draw(t, "weight of a peer")
	}
	remote := n.view.Remote
	defer attach(t, remote)
	peers, common := rapid.SampledFrom([]int{0, 1, 2, 9, 40}).Draw(t, "peers"), map[cellOf]uint32{}
	if peers > 9 { // what many know
		common = drawSmall(t)
	}
	for peer := range peers {
		held := &replica.Held{Origin: replica.Origin{ID: fmt.Sprint(peer), Weight: weight()}}
		for i := range uint64(2) {
			c, array := plainCounts{today - i*day, held.Weight, false, drawCounts(t, Claims), held.ID}, counting(t)
			if peers > 9 && rapid.IntRange(0, 5).Draw(t, "differs") > 0 {
				c.n = common
			}
			each(c.n, func(k filter.Key, by uint32) { array.Add(k, by) })
			held.Tally = append(held.Tally, &replica.Tally{Start: c.start, Counts: array})
			if held.Weight > 0 {
				p.counts = append(p.counts, c)
			}
		}
		list := plainList{weight: held.Weight}
		for i := range uint64(2) {
			block := &replica.Block{Start: today - i*5*day}
			list.draw(t, block.Start, func(k filter.Key, revoked bool) {
				in := &block.Spam
				if revoked {
					in = &block.Revoked
				}
				if *in == nil {
					*in = bitmap(t)
				}
				(*in).Set(k)
			})
			held.Block = append(held.Block, block)
		}
		remote.Origins = append(remote.Origins, held)
		if held.Weight > 0 {
			p.lists = append(p.lists, list)
		}
	}
	if rapid.Bool().Draw(t, "merged") {
		c, array := plainCounts{today - day, max(0.3, weight()), false, drawCounts(t, Claims), "merged"}, counting(t)
		each(c.n, func(k filter.Key, by uint32) { array.Add(k, by) })
		p.counts = append(p.counts, c)
		remote.Counts = append(remote.Counts, replica.MergedCounts{Start: c.start, Weight: c.weight, Counts: array,
			Origins: p.drawMembers(t, &p.counts[len(p.counts)-1], peers)})
		list := plainList{weight: c.weight, union: true}
		merged := &replica.MergedList{Weight: c.weight}
		for i := range uint64(2) {
			block := &replica.MergedBlock{Start: today - i*9*day}
			list.draw(t, block.Start, func(k filter.Key, revoked bool) {
				in := &block.Spam
				if revoked {
					in = &block.Revoked
				}
				one := bitmap(t) // an array of its own for each
				one.Set(k)
				*in = append(*in, one)
			})
			merged.Block = append(merged.Block, block)
		}
		p.lists, remote.Lists = append(p.lists, list), append(remote.Lists, merged)
	}
}

// drawMembers draws the members of a merged array: origins without other arrays, or also some
// peers, which share the array's voice from then on.
func (p *plain) drawMembers(t *rapid.T, merged *plainCounts, peers int) []string {
	members := []string{"gone"}
	for range min(peers, rapid.IntRange(0, 3).Draw(t, "merged, too")) {
		name := fmt.Sprint(rapid.IntRange(0, peers-1).Draw(t, "member"))
		members = append(members, name)
		for i := range p.counts {
			if merged.weight < p.promotion && p.counts[i].voice == name {
				p.counts[i].voice = merged.voice
			}
		}
	}
	return members
}

// attach puts some of the arrays into indexes.
func attach(t *rapid.T, v *replica.View) {
	if rapid.IntRange(0, 3).Draw(t, "indexed") == 0 {
		return
	}
	type kind struct {
		filter.Geometry
		revoked bool
	}
	apart := rapid.Bool().Draw(t, "revocations apart")
	at, used := make(map[kind][]*replica.Index), make(map[*replica.Index]int)
	put := func(a interface {
		Geometry() filter.Geometry
		Attach(*arrays.Sliced, int) error
	}, revoked bool) {
		n := rapid.IntRange(0, 3).Draw(t, "index")
		g := kind{a.Geometry(), revoked && apart}
		for ; len(at[g]) < n; v.Indexes = append(v.Indexes, at[g][len(at[g])-1]) {
			make := arrays.NewSliced
			if rapid.IntRange(0, 3).Draw(t, "exact") > 0 {
				make = arrays.NewSlicedExact
			}
			s, err := make(g.Geometry, 128)
			if err != nil {
				t.Fatal(err)
			}
			at[g] = append(at[g], &replica.Index{Sliced: s})
		}
		if n == 0 {
			return
		}
		in := at[g][n-1]
		if err := a.Attach(in.Sliced, used[in]); err != nil {
			t.Fatal(err)
		}
		used[in]++
	}
	for _, held := range v.Origins {
		for _, g := range held.Tally {
			put(g.Counts, false)
		}
		for _, g := range held.Block {
			for i, b := range []*arrays.Bits{g.Spam, g.Revoked} {
				if b != nil {
					put(b, i == 1)
				}
			}
		}
	}
	for _, m := range v.Counts {
		put(m.Counts, false)
	}
}

func drawCounts(t *rapid.T, kinds uint8) map[cellOf]uint32 {
	out := make(map[cellOf]uint32)
	for range rapid.IntRange(0, 5).Draw(t, "counts") {
		c := cellOf{rapid.IntRange(1, plainKeyCount).Draw(t, "key"), rapid.Uint8Range(0, kinds).Draw(t, "kind")}
		out[c] = rapid.SampledFrom([]uint32{1, 2, 7, 99, 100, 101, 250, filter.Many}).Draw(t, "by")
	}
	return out
}

// drawSmall draws counts of all kinds, most of them small enough for indexes.
func drawSmall(t *rapid.T) map[cellOf]uint32 {
	out := make(map[cellOf]uint32)
	for k := range plainKeyCount {
		for kind := range Claims {
			if n := rapid.SampledFrom([]uint32{0, 1, 1, 2, 3, 5, 6, 7, 8, 20}).Draw(t, "of a kind"); n > 0 {
				out[cellOf{k + 1, kind}] = n
			}
		}
	}
	return out
}

func each(n map[cellOf]uint32, add func(k filter.Key, by uint32)) {
	for c, by := range n {
		add(spread(c.key).With(c.kind), by)
	}
}

func (l *plainList) draw(t *rapid.T, start uint64, set func(k filter.Key, revoked bool)) {
	turns := make(map[int][2]int)
	for range rapid.IntRange(0, 3).Draw(t, "listings") {
		k := rapid.IntRange(1, plainKeyCount).Draw(t, "key")
		n := rapid.IntRange(0, 3).Draw(t, "times")
		turns[k] = [2]int{n, max(0, n-rapid.IntRange(0, 1).Draw(t, "more"))}
		if n == 0 {
			turns[k] = [2]int{0, rapid.IntRange(0, 1).Draw(t, "taken off")}
		}
	}
	for k, n := range turns {
		for turn := range n[0] {
			set(plainKeys{}.Turn(spread(k), turn+1), false)
		}
		for turn := range n[1] {
			set(plainKeys{}.Turn(spread(k), turn+1), true)
		}
	}
	l.start, l.turns = append(l.start, start), append(l.turns, turns)
}

func geometry(t *rapid.T, kind filter.Kind) filter.Geometry {
	g, err := filter.SizeFor(filter.Target{Kind: kind, Signatures: 2000, Rate: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func counting(t *rapid.T) *arrays.Counting {
	a, err := arrays.NewCounting(geometry(t, filter.Cells))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func bitmap(t *rapid.T) *arrays.Bits {
	a, err := arrays.NewBits(geometry(t, filter.Bitmap))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// many stops at the largest count.
func many(n float64) uint32 { return uint32(min(n, filter.Many)) }

// read returns the record of a key.
func (p *plain) read(k int, wants Wants) (x Record) {
	days, old, todays, late := make(map[uint64]bool), 0.0, 0.0, 0.0
	var sightings, spam, ham, good, addresses float64
	var peers struct{ old, todays, late, good float64 }
	claimed := [3]map[string]float64{{}, {}, {}} // by voice
	for _, c := range p.counts {
		n := func(kind uint8) float64 { return float64(c.n[cellOf{k, kind}]) }
		weighed := func(n float64) float64 { return math.Ceil(c.weight * n) }
		known := n(Sighting) > 0 || wants&Counts != 0 && n(Spam)+n(Ham) > 0
		if wants&(Counts|Sightings|Delivered) == 0 || !known {
			continue
		}
		x.seen(c.start)
		for kind, sum := range []*float64{&sightings, &spam, &ham} {
			switch by := weighed(n(uint8(kind))); {
			case by == 0 || kind > 0 && wants&Counts == 0:
			case c.own || c.weight >= p.promotion:
				*sum += by
			default:
				claimed[kind][c.voice] += by
			}
		}
		if wants&(Counts|Delivered) == 0 || !c.own && c.weight < p.promotion || n(Sighting) == 0 {
			continue
		}
		if d := weighed(max(0, n(Sighting)-n(Caught))); d > 0 && c.start/day >= today/day {
			todays += d
			if !c.own {
				peers.todays += d
			}
		} else if d > 0 {
			old += d
			isLate := p.morning && c.start/day == today/day-1
			if isLate {
				late += d
			}
			if !c.own {
				peers.old += d
			}
			if !c.own && isLate {
				peers.late += d
			}
			days[min(63, today/day-c.start/day)] = true
		}
		if wants&Standing != 0 {
			good += weighed(n(Good))
			if !c.own {
				peers.good += weighed(n(Good))
			}
		}
		if wants&Names != 0 {
			addresses += weighed(n(Addresses))
		}
	}
	sightings, spam, ham = sightings+p.believed(claimed[0]), spam+p.believed(claimed[1]), ham+p.believed(claimed[2])
	x.Sightings, x.Spam, x.Ham, x.Good, x.Addresses = many(sightings), many(spam), many(ham), many(good), many(addresses)
	x.Old, x.New, x.Late, x.Days = many(old), many(todays), many(late), len(days)
	x.Elsewhere = verdict.Deliveries{Old: many(peers.old), New: many(peers.todays), Late: many(peers.late),
		Good: many(peers.good)}
	if wants&Names != 0 {
		p.know(k, &x)
	}
	if wants&(Listings|Judgement) != 0 {
		for _, l := range p.lists {
			if state := l.walk(k, &x); l.own {
				x.Own = state
			} else {
				x.Peers.Add(state, l.weight, l.union)
			}
		}
		if !p.anywhere(k) {
			x.Own, x.Peers, x.Off = verdict.Nothing, verdict.Peers{}, false // a revocation without a listing has no effect
		}
	}
	// With counts, weights are read where there are votes or listings.
	if wants&Judgement != 0 && (wants&Counts == 0 || x.Spam+x.Ham > 0 || x.Own != verdict.Nothing || x.Peers.Spam > 0) {
		p.weigh(k, &x)
	}
	return x
}

// believed is how much of what peers below the promotion weight claim counts: of each no more of
// the threshold than its weight is of the promotion weight, rounded up, and of all no more than
// of their weights together, rounded down, but at least 1. If together they may not list, that
// is less than the threshold.
func (p *plain) believed(claimed map[string]float64) (sum float64) {
	if p.threshold == 0 {
		for _, n := range claimed {
			sum += n
		}
		return sum
	}
	hundredths := func(weight float64) float64 { return math.Round(100 * weight) }
	enough, weights := hundredths(p.promotion), 0.0
	for voice, n := range claimed {
		weight := 0.0
		for _, c := range p.counts {
			if c.voice == voice && c.weight < p.promotion {
				weight = max(weight, c.weight)
			}
		}
		sum += min(n, math.Ceil(hundredths(weight)*p.threshold/enough))
		weights += hundredths(weight)
	}
	if weights >= enough {
		return min(sum, math.Floor(weights*p.threshold/enough))
	}
	return min(sum, max(1, math.Floor(weights*p.threshold/enough)), p.threshold-1)
}

// know adds the counts of a name in the weeks.
func (p *plain) know(k int, x *Record) {
	weeks, deliveries, addresses := make(map[uint64]bool), 0.0, 0.0
	for i, names := range p.names {
		n := names[cellOf{k, Sighting}]
		deliveries, addresses = deliveries+float64(n), addresses+float64(names[cellOf{k, Addresses}])
		if i > 0 && n > 0 {
			weeks[min(63, today/day-p.start[i]/day)] = true
		}
	}
	x.Old = max(many(float64(x.Old)+float64(x.New)), many(deliveries)) - x.New
	x.Days, x.Addresses = max(x.Days, len(weeks)), max(x.Addresses, many(addresses))
}

// walk is the rule of one list: the newest generation that lists a key decides, unless
// it or a newer one took it off.
func (l *plainList) walk(k int, x *Record) verdict.State {
	x.Off = x.Off || slices.ContainsFunc(l.turns, func(turns map[int][2]int) bool { return turns[k][1] > 0 })
	revoked, end := false, uint64(math.MaxUint64)
	for i, turns := range l.turns {
		n := turns[k]
		if n[0] > 0 && (x.First == 0 || x.First >= end) {
			x.seen(l.start[i])
		}
		switch {
		case n[0] > n[1] && !revoked:
			return verdict.Listed
		case n[0] > 0:
			return verdict.ListedRevoked
		}
		revoked, end = revoked || n[1] > 0, l.start[i]
	}
	if revoked {
		return verdict.Revoked
	}
	return verdict.Nothing
}

func (p *plain) anywhere(k int) bool {
	return slices.ContainsFunc(p.lists, func(l plainList) bool {
		return slices.ContainsFunc(l.turns, func(turns map[int][2]int) bool { return turns[k][0] > 0 })
	})
}

func (p *plain) weigh(k int, x *Record) {
	for i, all := range p.weights {
		net := func(kind uint8) int64 {
			return int64(many(max(0, float64(all[cellOf{k, kind}])-float64(p.back[i][cellOf{k, kind}]))))
		}
		x.Votes.Spam += net(RootSpam)
		x.Votes.Ham += net(RootHam)
		x.Votes.StrangerSpam += net(StrangerSpam)
		x.Votes.StrangerHam += net(StrangerHam)
		x.Unblamed += net(Unblamed)
	}
}

// TestAgainstPlain compares what is read of a node's own books, of peers and of merged
// arrays with the same said of maps, whatever is wanted.
func TestAgainstPlain(t *testing.T) {
	var now int64
	// One reader for all: nothing of one reading is left in the next.
	r := &Reader{Keys: plainKeys{}, Day: day, Now: func() time.Time { return time.Unix(now, 0) }}
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPlain(t)
		sources := NewSources(n.view, p.promotion)
		defer r.End()
		r.RevocationFirst, r.Threshold = false, uint32(p.threshold)
		for range 3 {
			now = today + rapid.SampledFrom([]int64{-60, 0, day/2 - 1, day / 2, day, 9 * day}).Draw(t, "second of the day")
			p.morning = now < today+day/2
			r.Begin(sources) // in which sums of another time may be cached
			counts := rapid.SampledFrom([]Wants{Counts, Counts, Sightings, Delivered, 0}).Draw(t, "counts")
			var asks []Ask
			var want []Record
			for range rapid.IntRange(1, 5).Draw(t, "asks") {
				k := rapid.IntRange(1, plainKeyCount).Draw(t, "of")
				wants := rapid.SampledFrom([]Wants{0, Listings, Judgement, Standing | Judgement, Names,
					Names | Judgement}).Draw(t, "wants")
				if rapid.IntRange(0, 3).Draw(t, "counted") > 0 {
					wants |= counts
				}
				asks, want = append(asks, Ask{spread(k), wants}), append(want, p.read(k, wants))
			}
			got := make([]Record, len(asks))
			r.Read(asks, got)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("wanting %b: %+v, want %+v", asks[i].Wants, got[i], want[i])
				}
			}
		}
	})
}

// TestStates: a reading of states alone has the same states as a reading of all that lists hold, with peers and
// without.
func TestStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, n := drawPlain(t)
		if rapid.Bool().Draw(t, "alone") {
			n.view.Remote = &replica.View{}
		}
		asks, all, states := make([]Ask, plainKeyCount), make([]Record, plainKeyCount), make([]Record, plainKeyCount)
		for i, wants := range []Wants{Listings, States} {
			for k := range asks {
				asks[k] = Ask{spread(k + 1), wants}
			}
			n.reader(nil).Read(asks, [][]Record{all, states}[i])
		}
		for k := range asks {
			if states[k].Own != all[k].Own || states[k].Peers != all[k].Peers {
				t.Fatalf("the states alone are %v, %+v, want %v, %+v", states[k].Own, states[k].Peers, all[k].Own, all[k].Peers)
			}
		}
	})
}

// TestRelisted: listings and revocations take turns, and few look-ups find the last ones.
func TestRelisted(t *testing.T) {
	turns := []int{1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 65, 300, 9999, MaxTurns - 1, MaxTurns, MaxTurns + 1}
	for _, spam := range turns {
		for _, revoked := range turns {
			asked := 0
			in := func(n int) func(filter.Key) bool {
				return func(k filter.Key) bool {
					asked++
					return k.Hi <= uint64(n)
				}
			}
			want := spam > revoked && revoked < MaxTurns
			if got := Relisted(numbered{}, filter.Key{}, in(spam), in(revoked)); got != want {
				t.Errorf("listed %d times, taken off %d times: listed again %v", spam, revoked, got)
			}
			if most := 4 + 2*singly + 4*bits.Len(uint(min(spam, revoked))); asked > most {
				t.Errorf("listed %d times, taken off %d times: %d look-ups, want at most %d", spam, revoked, asked, most)
			}
		}
	}
}

// numbered makes keys that say which turn they are of.
type numbered struct{ plainKeys }

func (numbered) Turn(_ filter.Key, turn int) filter.Key { return filter.Key{Hi: uint64(turn)} }

// TestTurns: every number of turns is found.
func TestTurns(t *testing.T) {
	for n := range 2000 {
		if got := Turns(func(turn int) bool { return turn <= n }); got != n {
			t.Fatalf("%d turns, want %d", got, n)
		}
	}
	if got := Turns(func(int) bool { return true }); got != MaxTurns {
		t.Errorf("%d turns, want %d", got, MaxTurns)
	}
}

// TestUnion: several sets look like one that has what any of them has, however many keys
// are asked for.
func TestUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u union
		want := make([]bool, rapid.SampledFrom([]int{1, 31, 32, 33, 100}).Draw(t, "keys"))
		keys := make([]filter.Key, len(want))
		for range rapid.IntRange(0, 3).Draw(t, "sets") {
			b := bitmap(t)
			for range 5 {
				i := rapid.IntRange(0, len(want)-1).Draw(t, "has")
				b.Set(spread(i + 1))
				want[i] = true
			}
			u = append(u, b)
		}
		sum := uint64(0)
		for _, b := range u {
			sum += b.Keys()
		}
		got := make([]bool, len(want))
		for i := range keys {
			keys[i], got[i] = spread(i+1), true // what is left of another look-up
		}
		if u.HasBatch(keys, got); fmt.Sprint(got) != fmt.Sprint(want) || u.Keys() != sum {
			t.Fatalf("%v, %d keys, want %v, %d", got, u.Keys(), want, sum)
		}
	})
}

// TestAddWeight: whole votes are counted in cells of their own.
func TestAddWeight(t *testing.T) {
	type adds map[filter.Key]uint32
	k := key(1)
	for _, tt := range []struct {
		kind uint8
		n    uint32
		want adds
	}{
		{RootSpam, 0, adds{}},
		{RootSpam, 99, adds{k.With(RootSpam): 99}},
		{RootHam, 100, adds{whole(k).With(RootHam): 1}},
		{Unblamed, 350, adds{whole(k).With(Unblamed): 3, k.With(Unblamed): 50}},
		{StrangerSpam, 350, adds{k.With(StrangerSpam): 350}},
		{Contexts, 100, adds{k.With(Contexts): 100}},
	} {
		got := make(adds)
		AddWeight(k, tt.kind, tt.n, func(cell filter.Key, n uint32) { got[cell] += n })
		if !maps.Equal(got, tt.want) {
			t.Errorf("%d of kind %d: %v, want %v", tt.n, tt.kind, got, tt.want)
		}
		cells := make([]uint32, WeightCells)
		for i, c := range AppendWeights(nil, k) {
			cells[i] = got[c]
		}
		if w := WeightsOf(cells); w[tt.kind] != tt.n {
			t.Errorf("%d of kind %d is read as %d", tt.n, tt.kind, w[tt.kind])
		}
	}
}
