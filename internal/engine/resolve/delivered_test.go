package resolve

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A tale is what roots have seen of one signature, in numbers.
type tale struct{ seen, delivered, good uint32 }

// TestDeliveriesAgainstModel sights messages with any signatures in any order, some caught,
// several in a batch, and compares the counts with maps of who received what.
func TestDeliveriesAgainstModel(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 8))
		b := newBooks(t)
		b.put("a", trust.Trusted, 1)
		pool := []bulkhead.Signature{
			sig(bulkhead.Exact, 1), sig(bulkhead.Exact, 2), sig(bulkhead.Near, 1), sig(bulkhead.Near, 2),
			sig(bulkhead.PyzorDigest, 1), sig(bulkhead.RazorE8, 1),
			sig(bulkhead.RspamdShingle, 1), sender("a.example"), sender("b.example"), sender("ann@a.example"),
			sender("esp.example|b.example"),
			link("a.example"), link("c.example"), network("192.0.2.0/24"), network("198.51.100.0/24"),
			sig(bulkhead.Attachment, 1), bulkhead.NamedSignature(bulkhead.Contact, "tel:1"), sig(bulkhead.Markup, 1),
			bulkhead.NamedSignature(bulkhead.Claim, "ann"), sig(bulkhead.DCCIP, 1),
		}
		had := make(map[string]bool) // day, who, what
		once := func(what ...any) bool {
			k := at(b.view.Tally.Live[0].Start, what...)
			defer func() { had[k] = true }()
			return !had[k]
		}
		onceKept := func(what ...any) bool { // once while any day lives that had it
			for _, g := range b.view.Tally.Live[1:] {
				if had[at(g.Start, what...)] {
					return false
				}
			}
			return once(what...)
		}
		tales := make(map[string]*tale)
		for _, s := range pool {
			tales[s.String()] = new(tale)
		}
		for round := range 300 {
			b.begin()
			for range 1 + rng.IntN(3) {
				var sigs []bulkhead.Signature
				for _, i := range rng.Perm(len(pool))[:1+rng.IntN(6)] {
					sigs = append(sigs, pool[i])
				}
				m := message(bulkhead.Report{Signatures: sigs, Count: uint32(rng.IntN(4))})
				m.Seen = Seen{Caught: rng.IntN(3) == 0, TextAlone: rng.IntN(2) == 0, GoodSender: rng.IntN(2) == 0}
				if rng.IntN(2) == 0 {
					m.Reporter.Account = "a"
				}
				if rng.IntN(3) == 0 {
					m.ID = fmt.Sprint(rng.IntN(3))
				}
				for range rng.IntN(4) {
					m.Recipients = append(m.Recipients, fmt.Sprint("user", rng.IntN(4)))
				}
				var want bulkhead.Receipt
				if m.ID != "" && !onceKept("id", m.Reporter.Account, m.ID, sigs) {
					want.Duplicate = len(sigs)
				} else {
					texts := plainCopies(m, "text", plainText(m), once)
					for _, s := range sigs {
						n, x, f := texts, tales[s.String()], s.Scheme().Facet()
						switch f {
						case bulkhead.LinkFacet, bulkhead.SenderFacet, bulkhead.NetworkFacet, bulkhead.ContactFacet, bulkhead.ClaimFacet:
							n = plainCopies(m, "name", s.String(), once)
						}
						if n == 0 {
							want.Duplicate++
							continue
						}
						want.Counted++
						x.seen += n
						guards := s.Scheme() == bulkhead.Exact || s.Scheme() == bulkhead.PyzorDigest || f == bulkhead.LinkFacet
						switch {
						case m.Seen.Caught && f == bulkhead.SenderFacet && m.Seen.TextAlone:
							x.delivered += n
						case f == bulkhead.NetworkFacet:
							x.delivered += n
							if !m.Seen.Flagged {
								x.good += n
							}
						case m.Seen.Caught:
						case m.Seen.GoodSender && guards:
							x.good += n
							x.delivered += n
						default:
							x.delivered += n
						}
					}
				}
				if got, err := b.r.Report(m); err != nil || got != want {
					t.Fatalf("seed %d: %v of %v to %v: %+v, %v; want %+v", seed, m.Seen, sigs, m.Recipients, got, err, want)
				}
			}
			b.apply()
			for _, s := range pool {
				got, want := b.of(s), tales[s.String()]
				if (tale{got.Sightings, got.Old + got.New, got.Good}) != *want {
					t.Fatalf("seed %d: %v: %d seen, %d delivered, %d of good senders; want %+v", seed, s, got.Sightings,
						got.Old+got.New, got.Good, *want)
				}
			}
			if round%60 == 59 {
				b.pass(day)
			}
		}
	}
}

// plainCopies returns how many recipients have not had a text or name today.
func plainCopies(m *Message, kind, what string, once func(...any) bool) (n uint32) {
	if len(m.Recipients) == 0 {
		return max(1, m.Count)
	}
	for _, to := range m.Recipients {
		if once(kind, to, what) {
			n++
		}
	}
	return n
}

// plainText returns the signature that stands for the text of a message, or for the message without a
// text.
func plainText(m *Message) string {
	sigs := slices.Clone(m.Signatures)
	slices.Reverse(sigs) // of two exact ones, as no message has, the last
	order := []func(bulkhead.Signature) bool{
		func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Exact },
		func(s bulkhead.Signature) bool { return s.Scheme().Facet() == bulkhead.TextFacet },
		func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Sender },
		func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Network },
	}
	for i, is := range order {
		of := m.Signatures
		if i == 0 {
			of = sigs
		}
		if k := slices.IndexFunc(of, is); k >= 0 {
			return of[k].String()
		}
	}
	return m.Signatures[0].String()
}

// TestNothingDecided checks that decisions are empty only if there are none of any kind.
func TestNothingDecided(t *testing.T) {
	if d := (Decisions{TallyGen: 7, BlockGen: 7}); !d.Empty() {
		t.Error("nothing, and it is something")
	}
	k := []filter.Key{{Hi: 1}}
	adds := Adds{Keys: k, N: []uint32{1}}
	act := []Decisions{
		{Counts: adds}, {Unique: k}, {Names: adds}, {Weights: adds}, {Late: []Late{{7, adds}}}, {Voted: k}, {Spam: k},
		{Revoked: k},
		{Credits: make([]trust.Credit, 1)}, {Ballots: make([]ballots.Ballot, 1)},
	}
	for i := range act {
		for j := range act {
			d := act[i]
			from, to := reflect.ValueOf(&act[j]).Elem(), reflect.ValueOf(&d).Elem()
			for f := range from.NumField() { // of both kinds
				if !from.Field(f).IsZero() {
					to.Field(f).Set(from.Field(f))
				}
			}
			if d.Empty() {
				t.Errorf("decisions %d and %d: empty", i, j)
			}
			if d.reset(); !d.Empty() {
				t.Errorf("decisions %d and %d: something is left", i, j)
			}
		}
	}
}

// TestUnits checks that a weight is counted in hundredths, and any weight above 0 as at
// least one.
func TestUnits(t *testing.T) {
	for weight, want := range map[float64]uint32{-1: 0, 0: 0, 1e-9: 1, 0.004: 1, 0.014: 1, 0.016: 2, 0.5: 50, 1: 100} {
		if got := Units(weight); got != want {
			t.Errorf("a weight of %v is %d, want %d", weight, got, want)
		}
	}
}

// TestPeersList checks that a root's whole vote takes off a signature that only peers list, and
// that votes on it change only the node's own lists.
func TestPeersList(t *testing.T) {
	listing := func(weight float64, s bulkhead.Signature) *replica.View {
		g, err := filter.SizeFor(filter.Target{Kind: filter.Bitmap, Signatures: 2000, Rate: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		set, err := arrays.NewBits(g)
		if err != nil {
			t.Fatal(err)
		}
		set.Set(maker.Base(&s))
		return &replica.View{Origins: []*replica.Held{{Origin: replica.Origin{ID: "p", Weight: weight},
			Block: []*replica.Block{{Start: 1, Spam: set}}}}}
	}
	text := sig(bulkhead.Exact, 1)
	for _, tt := range []struct {
		name   string
		weight float64
		voter  string
		vote   bulkhead.Vote
		want   bulkhead.Receipt
		own    verdict.State
	}{
		{"a root's vote against it", 1, "a", bulkhead.Ham, bulkhead.Receipt{Counted: 1, Revoked: 1}, verdict.Revoked},
		{"half a root's", 1, "half", bulkhead.Ham, bulkhead.Receipt{Counted: 1}, verdict.Nothing},
		{"half a root's revocation", 1, "half", bulkhead.Revocation, bulkhead.Receipt{Counted: 1, Pending: 1},
			verdict.Nothing},
		{"a stranger's revocation", 1, "x", bulkhead.Revocation, bulkhead.Receipt{Counted: 1, Pending: 1}, verdict.Nothing},
		{"a root's vote against what half a peer lists", 0.5, "a", bulkhead.Revocation, bulkhead.Receipt{Counted: 1},
			verdict.Nothing},
		{"a root's vote for it", 1, "a", bulkhead.Spam, bulkhead.Receipt{Counted: 1}, verdict.Listed},
		{"half a root's for it", 1, "half", bulkhead.Spam, bulkhead.Receipt{Counted: 1, Pending: 1}, verdict.Nothing},
		{"half a root's, and half a peer", 0.5, "half", bulkhead.Spam, bulkhead.Receipt{Counted: 1, Pending: 1},
			verdict.Nothing},
		{"a root's, and half a peer", 0.5, "a", bulkhead.Spam, bulkhead.Receipt{Counted: 1, Listed: 1}, verdict.Listed},
	} {
		b := newBooks(t)
		voters(b)
		b.view.Remote = listing(tt.weight, text)
		got := b.report(by(tt.voter, tt.vote, text))
		if own := b.of(text).Own; got != tt.want || own != tt.own {
			t.Errorf("%s: %+v, state %d; want %+v, %d", tt.name, got, own, tt.want, tt.own)
		}
	}
}

// TestPeersDeliver checks that deliveries at peers count against a listing by the node's own votes, except for a link.
func TestPeersDeliver(t *testing.T) {
	for s, want := range map[bulkhead.Signature]verdict.State{
		link("shop.example"): verdict.Listed, sender("shop.example"): verdict.Nothing,
	} {
		b := newBooks(t)
		voters(b)
		g, err := filter.SizeFor(filter.Target{Kind: filter.Cells, Signatures: 2000, Rate: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		counts, err := arrays.NewCounting(g)
		if err != nil {
			t.Fatal(err)
		}
		counts.Add(maker.Base(&s).With(evidence.Sighting), 100)
		b.view.Remote = &replica.View{Origins: []*replica.Held{{Origin: replica.Origin{ID: "p", Weight: 1},
			Tally: []*replica.Tally{{Start: uint64(b.now.Add(-day).Unix()), Counts: counts}}}}}
		for _, voter := range []string{"a", "b"} {
			b.report(by(voter, bulkhead.Spam, s))
		}
		if got := b.of(s); got.Own != want || got.Old != 100 {
			t.Errorf("%v with %d deliveries at a peer: state %d after two votes, want %d", s, got.Old, got.Own, want)
		}
	}
}

// TestUndo checks that undoing a voice's vote on mail of many facets leaves every weight and
// listing as if it had never been cast, and that ballots have nothing that judges nothing.
func TestUndo(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		b := newBooks(t)
		voters(b)
		var messages [][]bulkhead.Signature
		for n := range 3 {
			messages = append(messages, mail(n, fmt.Sprint("s", n%2, ".example")))
		}
		act := func(name string) {
			b.report(by(name, bulkhead.Vote(1+rng.IntN(3)), messages[rng.IntN(len(messages))]...))
		}
		for range rng.IntN(9) {
			if rng.IntN(3) == 0 {
				deliver(b, uint32(1+rng.IntN(30)), 1, messages[rng.IntN(len(messages))]...)
			}
			act([]string{"b", "c", "half", "x"}[rng.IntN(4)])
		}
		type state struct {
			votes    trust.Balance
			unblamed int64
			listed   bool
		}
		var keys []filter.Key
		pair := make(map[filter.Key]bool)
		for _, m := range messages {
			for i := range m {
				keys = append(keys, maker.Base(&m[i]))
				for j := range m {
					if named(m[j].Scheme().Facet()) {
						k := maker.Pair(maker.Base(&m[i]), maker.Base(&m[j]))
						keys, pair[k] = append(keys, k), true
					}
				}
			}
		}
		all := func() map[filter.Key]state {
			out := make(map[filter.Key]state)
			for i, r := range b.readAll(keys, evidence.Judgement) {
				out[keys[i]] = state{r.Votes, r.Unblamed, r.Own == verdict.Listed}
			}
			return out
		}
		before := all()
		var items []ballots.Item
		for range 1 + rng.IntN(2) {
			vote := bulkhead.Vote(1 + rng.IntN(3))
			m := messages[rng.IntN(len(messages))]
			b.report(by("a", vote, m...))
			for _, x := range b.r.Decisions().Ballots {
				for _, it := range x.Items {
					if !it.Pair && it.Facet == bulkhead.MarkupFacet {
						t.Fatalf("a ballot has a %v", it.Facet)
					}
					if it.Pair != pair[it.Key] {
						t.Fatalf("a pair: %v, want %v", it.Pair, pair[it.Key])
					}
					if !slices.Contains(items, it) {
						items = append(items, it)
					}
				}
			}
		}
		voted := all()
		b.begin()
		delisted, relisted := b.r.Retract("account:a", items)
		b.apply()
		after := all()
		wantOff, wantOn := 0, 0
		for k, want := range before {
			got := after[k]
			if voted[k].listed && !got.listed {
				wantOff++
			}
			if !voted[k].listed && got.listed {
				wantOn++
			}
			if pair[k] && want.listed && !voted[k].listed {
				want.listed = false // before the next vote on it
			}
			if got != want {
				t.Fatalf("seed %d: after the vote was undone %+v, before it %+v, pair %v", seed, got, want, pair[k])
			}
		}
		if delisted != wantOff || relisted != wantOn {
			t.Errorf("seed %d: %d off, %d on; want %d and %d", seed, delisted, relisted, wantOff, wantOn)
		}
	}
}

// TestUndoKnown checks that after an undo an item stays listed only if the votes that are
// left are enough for what is known of it, from former weeks too.
func TestUndoKnown(t *testing.T) {
	for _, s := range []bulkhead.Signature{link("shop.example"), sender("shop.example"), sig(bulkhead.Attachment, 1)} {
		for _, later := range []int{1, 10} {
			b := newBooks(t)
			voters(b)
			each, days := uint32(100), 4
			switch s.Scheme() {
			case bulkhead.Link:
				each = 25
			case bulkhead.Sender:
				days = 1 // one that is known for several days needs more votes
			}
			deliver(b, each, days, s)
			b.pass(time.Duration(later) * day)
			for _, name := range []string{"a", "b", "c", "half"} {
				b.report(by(name, bulkhead.Spam, s))
			}
			known := later == 1 || named(s.Scheme().Facet())
			b.begin()
			delisted, _ := b.r.Retract("account:half", []ballots.Item{{Key: maker.Base(&s), Facet: s.Scheme().Facet()}})
			b.apply()
			if listed := b.of(s).Own == verdict.Listed; listed == known || delisted != b2i(known) {
				t.Errorf("%v, %d delivered %d days ago: by three of three and a half still listed %v, %d off", s, days*int(each),
					later, listed, delisted)
			}
		}
	}
}

// TestRefused checks that a reporter who is unknown, or not allowed to report, changes
// nothing.
func TestRefused(t *testing.T) {
	b := newBooks(t)
	b.put("a", trust.Trusted, 1)
	if err := b.accounts.Put(trust.Account{Name: "gone", Role: trust.Trusted, Weight: 1, Closed: true}); err != nil {
		t.Fatal(err)
	}
	b.begin()
	for _, tt := range []struct {
		r    bulkhead.Reporter
		want error
	}{
		{bulkhead.Reporter{Account: "nobody"}, bulkhead.ErrUnauthorised},
		{bulkhead.Reporter{Account: "gone"}, bulkhead.ErrForbidden},
		{bulkhead.Reporter{Account: "a", User: "a:b"}, bulkhead.ErrMalformed},
	} {
		for vote := range bulkhead.NumVotes {
			got, err := b.r.Report(message(bulkhead.Report{Signatures: mail(1, "bank.example"), Reporter: tt.r, Vote: vote,
				ID: "1"}))
			if !errors.Is(err, tt.want) || got != (bulkhead.Receipt{}) || !b.r.Decisions().Empty() {
				t.Errorf("%v of %+v: %+v, %v; want %v and nothing decided", vote, tt.r, got, err, tt.want)
			}
		}
	}
}

// TestInformsOnly checks that a vote on a signature that informs and never decides is counted, has
// no weight, and is not pending; a revocation is pending, since it takes nothing off.
func TestInformsOnly(t *testing.T) {
	s := sig(bulkhead.Markup, 1)
	for vote, pending := range map[bulkhead.Vote]int{bulkhead.Spam: 0, bulkhead.Ham: 0, bulkhead.Revocation: 1} {
		b := newBooks(t)
		voters(b)
		want := bulkhead.Receipt{Counted: 1, Pending: pending}
		if got := b.report(by("a", vote, s)); got != want {
			t.Errorf("%v of %v: %+v, want %+v", vote, s, got, want)
		}
		if got := b.of(s); got.Votes != (trust.Balance{}) || got.Own != verdict.Nothing ||
			len(b.r.Decisions().Ballots) != 0 {
			t.Errorf("%v of %v: %+v, ballots %+v", vote, s, got, b.r.Decisions().Ballots)
		}
	}
}

// TestRepeatDecidesNothing checks that the same vote of the same voice on the same mail changes nothing
// within a generation, not even the ballots, and that a vote on one signature more does.
func TestRepeatDecidesNothing(t *testing.T) {
	for vote := range bulkhead.NumVotes {
		if vote == bulkhead.Sighting {
			continue // each delivery counts
		}
		b := newBooks(t)
		voters(b)
		b.report(by("a", vote, mail(1, "bank.example")...))
		b.report(by("a", vote, mail(1, "bank.example")...))
		if d := b.r.Decisions(); !d.Empty() {
			t.Errorf("%v again decides %+v", vote, *d)
		}
		b.report(by("a", vote, append(mail(1, "bank.example"), sig(bulkhead.PyzorDigest, 1))...))
		if d := b.r.Decisions(); len(d.Ballots) != 1 {
			t.Errorf("%v with one signature more has ballots %+v, want one", vote, d.Ballots)
		}
	}
}

// TestBlameIsForTexts checks that reporters are blamed for a text that is taken off the
// list, but not for other parts of the message.
func TestBlameIsForTexts(t *testing.T) {
	for s, blamed := range map[bulkhead.Signature]uint32{sig(bulkhead.Exact, 1): 1, link("shop.example"): 0,
		sender("shop.example"): 0, sig(bulkhead.Attachment, 1): 0} {
		b := newBooks(t)
		voters(b)
		for _, name := range []string{"x", "a", "b"} {
			b.report(by(name, bulkhead.Spam, s))
		}
		for _, name := range []string{"a", "b"} {
			b.report(by(name, bulkhead.Revocation, s))
		}
		x, _ := b.accounts.Get("x")
		if b.of(s).Own != verdict.ListedRevoked || x.Reverted != blamed {
			t.Errorf("%v: state %d, %d reports of x reverted, want it taken off and %d", s, b.of(s).Own, x.Reverted, blamed)
		}
	}
}

// TestConfirmedByTexts checks that a member is confirmed by a vote on the text that the member reported, and not by
// one on another message that has a part, a link or a file in common with it.
func TestConfirmedByTexts(t *testing.T) {
	for s, confirmed := range map[bulkhead.Signature]uint32{sig(bulkhead.Exact, 1): 1, sig(bulkhead.PyzorDigest, 1): 1,
		sig(bulkhead.Part, 1): 0, link("shop.example"): 0, sender("shop.example"): 0, sig(bulkhead.Attachment, 1): 0} {
		b := newBooks(t)
		voters(b)
		other := sig(bulkhead.RazorE4, 1)
		b.report(by("x", bulkhead.Spam, s, sig(bulkhead.RazorE4, 2)))
		b.report(by("a", bulkhead.Spam, s, other))
		if x, _ := b.accounts.Get("x"); x.Confirmed != confirmed {
			t.Errorf("%v: %d reports of x confirmed, want %d", s, x.Confirmed, confirmed)
		}
	}
}

// TestTurnsEnd checks that a listing for which no turn is left is refused, and that the next
// week has all of them again.
func TestTurnsEnd(t *testing.T) {
	b := newBooks(t)
	voters(b)
	s := sig(bulkhead.Exact, 1)
	open := b.view.Block.Live[0]
	open.Spam, open.Revoked = everything{}, everything{}
	if got := b.report(by("a", bulkhead.Spam, s)); got != (bulkhead.Receipt{Counted: 1, Pending: 1}) {
		t.Errorf("with all turns used: %+v, want the vote pending", got)
	}
	b.pass(7 * day)
	if got := b.report(by("a", bulkhead.Spam, s)); got.Listed != 1 {
		t.Errorf("in the next week: %+v", got)
	}
}

// everything is a set that has every key.
type everything struct{}

func (everything) HasBatch(keys []filter.Key, out []bool) {
	for i := range keys {
		out[i] = true
	}
}
func (everything) SetBatch(uint64, []filter.Key, []bool) {}
func (everything) Keys() uint64                          { return 1 }
func (everything) Stats() arrays.Stats                   { return arrays.Stats{} }

// TestContextOnce checks that a text counts once with each link, however little the first
// vote weighs.
func TestContextOnce(t *testing.T) {
	b := newBooks(t)
	voters(b)
	b.put("tiny", trust.Trusted, 0.01)
	msg := append(text(1), link("evil.example"))
	for range 2 {
		for _, name := range []string{"tiny", "a", "b"} {
			b.report(by(name, bulkhead.Spam, msg...))
			if got := b.of(text(1)[0]).Contexts; got != 1 {
				t.Fatalf("%d contexts of one link after a vote of %s", got, name)
			}
		}
	}
}
