package evidence

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

const day = 86400

// today is the start of the newest generation of the tests' books.
const today = 20_000 * day

// plainKeys makes unique keys.
type plainKeys struct{}

func (plainKeys) Back(k filter.Key) filter.Key { return filter.Key{Hi: ^k.Hi, Lo: k.Lo} }

func (plainKeys) At(epoch int, k filter.Key) filter.Key {
	return filter.Key{Hi: k.Hi, Lo: k.Lo ^ uint64(epoch)<<48}
}

func (plainKeys) Turn(k filter.Key, turn int) filter.Key {
	if turn == 1 {
		return k
	}
	return filter.Key{Hi: k.Hi, Lo: k.Lo + uint64(turn)<<32}
}

func key(n int) filter.Key { return filter.Key{Hi: uint64(n) << 8, Lo: uint64(n) * 0x9e3779b97f4a7c15} }

// node is books of maps: generations of the tally of the given ages in days, and one
// of the blocklist a week.
type node struct {
	view View
}

func newNode(t interface{ Fatal(...any) }, days, weeks int) *node {
	log := slog.New(slog.DiscardHandler)
	o := book.Options{Generation: day * time.Second, Keep: 60, Capacity: 100, Error: 1e-2}
	tally := book.NewTally(o, 10, 0, true, log)
	block := book.NewBlocklist(o, 10, 10, 0, true, log)
	n := &node{View{Remote: &replica.View{}}}
	for i := range days {
		g, err := tally.Make(book.TallySpec{Start: today - uint64(i)*day})
		if err != nil {
			t.Fatal(err)
		}
		n.view.Tally = n.view.Tally.With(g)
	}
	for i := range weeks {
		g, err := block.Make(book.BlockSpec{Start: today - uint64(i)*7*day})
		if err != nil {
			t.Fatal(err)
		}
		n.view.Block = n.view.Block.With(g)
	}
	return n
}

func (n *node) count(age int, k filter.Key, kind uint8, by uint32) {
	n.view.Tally.Live[age].Counts.AddBatch(0, []filter.Key{k.With(kind)}, []uint32{by}, nil)
}

// weights returns the weights of the votes of a generation.
func (n *node) weights(age int) (start uint64, array book.Counter) {
	g := n.view.Block.Live[age]
	return g.Start, g.Weights
}

func (n *node) weigh(age int, k filter.Key, by uint32) {
	_, array := n.weights(age)
	array.AddBatch(0, []filter.Key{k}, []uint32{by}, nil)
}

// takeBack retracts part of a kind.
func (n *node) takeBack(age int, k filter.Key, kind uint8, by uint32) {
	n.weigh(age, k.With(TakenBack), 1)
	n.weigh(age, plainKeys{}.Back(k).With(kind), by)
}

func (n *node) set(age int, k filter.Key, revoked bool) {
	set := n.view.Block.Live[age].Spam
	if revoked {
		set = n.view.Block.Live[age].Revoked
	}
	set.SetBatch(0, []filter.Key{k}, nil)
}

func (n *node) reader(o Overlay) *Reader {
	r := &Reader{Keys: plainKeys{}, Day: day, Overlay: o}
	r.Begin(NewSources(n.view, 1))
	return r
}

func read(r *Reader, k filter.Key, wants Wants) Record {
	var out [1]Record
	r.Read([]Ask{{k, wants}}, out[:])
	return out[0]
}

// TestDeliveries: caught mail is no delivery, today's mail does not count for earlier days, and a
// day counts once regardless of its number of generations.
func TestDeliveries(t *testing.T) {
	n := newNode(t, 5, 1)
	k := key(1)
	n.count(0, k, Sighting, 10)
	n.count(0, k, Caught, 4)
	n.count(1, k, Sighting, 7)
	n.count(2, k, Sighting, 3)
	n.count(2, k, Caught, 3) // nothing came through
	n.count(4, k, Sighting, 5)
	n.count(4, k, Caught, 9) // an error of a filter
	n.count(1, k, Good, 2)
	n.count(4, k, Good, 1)
	n.count(1, k, Addresses, 8)
	got := read(n.reader(nil), k, Counts|Standing|Names|Judgement)
	want := Record{Sightings: 25, First: today - 4*day, Last: today,
		Evidence: verdict.Evidence{Old: 7, New: 6, Days: 1, Good: 3, Addresses: 8}}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	n.count(3, k, Spam, 2)
	got = read(n.reader(nil), k, Counts)
	if got.Spam != 2 || got.Good+got.Addresses != 0 {
		t.Errorf("%+v, want 2 votes and nothing that was not asked for", got)
	}
	if got := read(n.reader(nil), k, Sightings); got != (Record{Sightings: 25, First: today - 4*day, Last: today}) {
		t.Errorf("%+v, want sightings alone", got)
	}

	// Two generations of one day before today.
	n = newNode(t, 3, 0)
	n.view.Tally.Live[2].Start = today - day/2
	n.count(1, k, Sighting, 2)
	n.count(2, k, Sighting, 2)
	if got := read(n.reader(nil), k, Counts); got.Old != 4 || got.Days != 1 {
		t.Errorf("%d deliveries on %d days, want 4 on 1", got.Old, got.Days)
	}
}

// TestPeers: deliveries of peers that are not fully trusted are not counted.
func TestPeers(t *testing.T) {
	for _, tt := range []struct {
		weight, promotion float64
		seen, delivered   uint32
	}{{1, 1, 5, 5}, {0.5, 1, 3, 0}, {0.5, 0.5, 3, 3}} {
		n := newNode(t, 1, 0)
		n.count(0, key(1), Sighting, 5)
		s := NewSources(n.view, tt.promotion)
		s.counts[0].weight, s.counts[0].root = tt.weight, tt.weight >= tt.promotion
		r := &Reader{Keys: plainKeys{}, Day: day}
		r.Begin(s)
		if got := read(r, key(1), Counts); got.Sightings != tt.seen || got.New != tt.delivered {
			t.Errorf("a peer of weight %v: %d sightings, %d deliveries; want %d and %d", tt.weight, got.Sightings, got.New,
				tt.seen, tt.delivered)
		}
	}
}

// TestWeights: the weights of the latest votes are the added weights less the retracted weights,
// generation by generation.
func TestWeights(t *testing.T) {
	n := newNode(t, 2, 2)
	k := key(1)
	n.weigh(0, k.With(RootSpam), 300)
	n.weigh(1, k.With(RootHam), 100)
	n.weigh(1, k.With(StrangerHam), 5)
	n.weigh(0, k.With(Unblamed), 400)
	AddWeight(k, RootSpam, 350, func(c filter.Key, by uint32) { n.weigh(1, c, by) })
	AddWeight(plainKeys{}.Back(k), RootSpam, 300, func(c filter.Key, by uint32) { n.weigh(1, c, by) })
	n.weigh(1, k.With(RootSpam), 25)
	n.takeBack(1, k, RootSpam, 75)
	n.weigh(0, k.With(Contexts), 2)
	n.weigh(1, k.With(Contexts), 1)
	n.takeBack(0, k, RootSpam, 50)
	n.takeBack(1, k, RootHam, 500) // an error of a filter
	want := verdict.Evidence{Votes: trust.Balance{Spam: 250, StrangerHam: 5}, Unblamed: 400, Contexts: 3}
	if got := read(n.reader(nil), k, Judgement); got.Evidence != want {
		t.Errorf("%+v, want %+v", got.Evidence, want)
	}
	if got := read(n.reader(nil), k, Counts|Judgement); got != (Record{}) {
		t.Errorf("%+v of a key without votes, want nothing", got)
	}
	n.count(1, k, Ham, 1)
	if got := read(n.reader(nil), k, Counts|Judgement); got.Votes != want.Votes {
		t.Errorf("%+v of a key with a vote, want %+v", got.Votes, want.Votes)
	}
}

// additions is an overlay of maps.
type additions struct {
	counts, weights map[cell]uint32
	spam, revoked   map[cell]bool
}

type cell struct {
	generation uint64
	key        filter.Key
}

func (a *additions) Counts(g uint64, keys []filter.Key, n []uint32) {
	for i, k := range keys {
		n[i] = book.Add(n[i], a.counts[cell{g, k}])
	}
}

func (a *additions) Weights(g uint64, keys []filter.Key, n []uint32) {
	for i, k := range keys {
		n[i] = book.Add(n[i], a.weights[cell{g, k}])
	}
}

func (a *additions) Spam(g uint64, keys []filter.Key, has []bool) {
	for i, k := range keys {
		has[i] = has[i] || a.spam[cell{g, k}]
	}
}

func (a *additions) Revoked(g uint64, keys []filter.Key, has []bool) {
	for i, k := range keys {
		has[i] = has[i] || a.revoked[cell{g, k}]
	}
}

// TestOverlay: the content of an overlay reads as if it were in the arrays; all keys at once, or
// one by one; revocations first or not.
func TestOverlay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, part := newNode(t, 3, 3), newNode(t, 3, 3)
		rest := &additions{make(map[cell]uint32), make(map[cell]uint32), make(map[cell]bool), make(map[cell]bool)}
		const keys = 4
		for range rapid.IntRange(0, 40).Draw(t, "facts") {
			k := key(rapid.IntRange(1, keys).Draw(t, "key"))
			age := rapid.IntRange(0, 2).Draw(t, "age")
			overlaid := rapid.Bool().Draw(t, "overlaid")
			by := rapid.Uint32Range(1, 200).Draw(t, "by")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				kind := rapid.Uint8Range(0, Claims).Draw(t, "kind")
				all.count(age, k, kind, by)
				if overlaid {
					rest.counts[cell{all.view.Tally.Live[age].Start, k.With(kind)}] += by
				} else {
					part.count(age, k, kind, by)
				}
			case 1, 2:
				kind := rapid.SampledFrom([]uint8{RootSpam, RootHam, StrangerSpam, StrangerHam, Unblamed, Contexts}).Draw(t, "side")
				to := k
				if rapid.Bool().Draw(t, "back") {
					to = plainKeys{}.Back(k)
				}
				add := func(cellKey filter.Key, by uint32) {
					all.weigh(age, cellKey, by)
					if !overlaid {
						part.weigh(age, cellKey, by)
						return
					}
					start, _ := all.weights(age)
					rest.weights[cell{start, cellKey}] += by
				}
				add(to.With(kind), by)
				if to != k {
					add(k.With(TakenBack), 1)
				}
			default:
				turn := plainKeys{}.Turn(k, rapid.IntRange(1, 3).Draw(t, "turn"))
				revoked := rapid.Bool().Draw(t, "revoked")
				all.set(age, turn, revoked)
				switch {
				case !overlaid:
					part.set(age, turn, revoked)
				case revoked:
					rest.revoked[cell{all.view.Block.Live[age].Start, turn}] = true
				default:
					rest.spam[cell{all.view.Block.Live[age].Start, turn}] = true
				}
			}
		}
		wants := Counts | Standing | Names | Judgement
		asks, want, got := make([]Ask, keys), make([]Record, keys), make([]Record, keys)
		for i := range asks {
			asks[i] = Ask{key(i + 1), wants}
			want[i] = read(all.reader(nil), asks[i].Key, wants)
		}
		part.reader(rest).Read(asks, got)
		if !slices.Equal(got, want) {
			t.Fatalf("with an overlay %+v, want %+v", got, want)
		}
		r := all.reader(nil)
		r.RevocationFirst = true
		r.Read(asks, got)
		for i := range got {
			if want[i].Own == verdict.Nothing {
				got[i].Own, got[i].Off = verdict.Nothing, want[i].Off // otherwise revocations of unlisted keys are not looked up
			}
			if want[i].Own == verdict.Nothing && want[i].Spam+want[i].Ham == 0 {
				got[i].Evidence.Votes, got[i].Unblamed, got[i].Contexts = want[i].Votes, want[i].Unblamed, want[i].Contexts
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("revocations first: %+v, want %+v", got, want)
		}
	})
}
