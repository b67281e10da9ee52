package resolve

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// gathered returns the gatherings that a report causes.
func gathered(b *books, m *Message) []Gathering {
	b.t.Helper()
	b.batch(m)
	return slices.Clone(b.r.Gatherings())
}

// strangers registers n accounts whose votes list nothing.
func strangers(b *books, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("stranger", i))
		b.put(names[i], trust.Member, 0.02)
	}
	return names
}

// TestVoters: the voters on one side of a text are noted at 5, 10 and 20, each voter once. More
// voters than recipients are needed to note that a text is excused.
func TestVoters(t *testing.T) {
	for _, tt := range []struct {
		vote      bulkhead.Vote
		listed    bool
		delivered uint32
		want      []uint32
	}{
		{bulkhead.Spam, false, 0, []uint32{5, 10, 20}}, {bulkhead.Spam, false, 19, []uint32{5, 10, 20}},
		{bulkhead.Spam, true, 0, nil},
		{bulkhead.Ham, true, 0, []uint32{5, 10, 20}}, {bulkhead.Ham, true, 19, []uint32{5, 10, 20}},
		{bulkhead.Revocation, true, 0, []uint32{5, 10, 20}},
		{bulkhead.Ham, false, 0, []uint32{5, 10, 20}}, {bulkhead.Ham, false, 4, []uint32{5, 10, 20}},
		{bulkhead.Ham, false, 5, []uint32{10, 20}}, {bulkhead.Ham, false, 10, []uint32{20}},
		{bulkhead.Ham, false, 19, []uint32{20}},
	} {
		b := newBooks(t)
		voters(b)
		text := sig(bulkhead.Exact, 1)
		if tt.delivered > 0 {
			b.report(bulkhead.Report{Signatures: []bulkhead.Signature{text}, Count: tt.delivered,
				Reporter: bulkhead.Reporter{Account: "a"}})
		}
		if tt.listed {
			b.report(by("a", bulkhead.Spam, text))
			b.report(by("b", bulkhead.Spam, text))
		}
		var got []uint32
		for i, name := range strangers(b, 23) {
			for again := range 2 { // a repeated vote adds no voter
				for _, g := range gathered(b, message(by(name, tt.vote, text))) {
					got = append(got, g.Voters)
					if again > 0 || int(g.Voters) != i+1 || g.Vote != tt.vote || g.Reporter != name || g.Signature != text ||
						g.Lists || g.Spreads || g.Turns != 0 || g.Peers != 0 || g.Deliveries < tt.delivered {
						t.Errorf("%v, listed %v: voter %d, again %d: %+v", tt.vote, tt.listed, i+1, again, g)
					}
				}
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v, listed %v, %d deliveries: noted at %v voters, want %v", tt.vote, tt.listed, tt.delivered, got,
				tt.want)
		}
	}
}

// TestListsReceived: a vote that lists a text which 20 received is noted, and the fourth and the
// eighth listing of a text.
func TestListsReceived(t *testing.T) {
	for _, bands := range []bool{false, true} {
		for n, want := range map[uint32]bool{19: false, 20: true, 21: true} {
			b := newBooks(t)
			voters(b)
			sigs := []bulkhead.Signature{sig(bulkhead.Exact, 1)}
			if bands { // the first of the bands represents a text
				sigs = text(1)
			}
			b.report(bulkhead.Report{Signatures: sigs, Count: n, Reporter: bulkhead.Reporter{Account: "a"}})
			b.pass(day)
			got := gathered(b, message(by("a", bulkhead.Spam, sigs...)))
			if (len(got) == 1) != want || want && (got[0].Signature != sigs[0] || !got[0].Lists || got[0].Voters != 1 ||
				got[0].Deliveries != n || got[0].Vote != bulkhead.Spam || got[0].Reporter != "a") {
				t.Errorf("a text that %d received is listed, noted %v: %+v", n, want, got)
			}
		}
	}
	b := newBooks(t)
	voters(b)
	var turns []int
	for range 9 {
		for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Spam, bulkhead.Ham} { // a repeated vote lists nothing
			for _, g := range gathered(b, message(by("a", vote, sig(bulkhead.Exact, 1)))) {
				turns = append(turns, g.Turns)
				if g.Voters != 1 || g.Lists || vote != bulkhead.Spam {
					t.Errorf("%v: %+v", vote, g)
				}
			}
		}
	}
	if !slices.Equal(turns, []int{4, 8}) {
		t.Errorf("listings %v are noted, want the fourth and the eighth", turns)
	}
}

// TestAgainstKnown: votes against a known address are noted from the first on, and those against a
// known network from the second on. Neither is known after one day, or two deliveries.
func TestAgainstKnown(t *testing.T) {
	for _, tt := range []struct {
		name bulkhead.Signature
		n    uint32 // deliveries a day
		days int
		want []uint32
	}{
		{sender("ann@known.example"), 2, 2, []uint32{1, 2, 4, 8}}, {sender("ann@known.example"), 3, 2, []uint32{1, 2, 4, 8}},
		{sender("ann@known.example"), 1, 2, nil}, {sender("ann@known.example"), 9, 1, nil},
		{sender("known.example"), 3, 2, nil}, {sender("list.known.example|known.example"), 3, 2, nil},
		{network("192.0.2.0/24"), 2, 2, []uint32{2, 4, 8}}, {network("192.0.2.0/24"), 9, 1, nil},
		{network("192.0.2.0/24"), 1, 2, nil}, {network("192.0.2.0/24"), 1, 3, []uint32{2, 4, 8}},
		{link("known.example"), 3, 3, nil},
	} {
		for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham} {
			b := newBooks(t)
			voters(b)
			for i := range tt.days {
				b.report(bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 100+i), tt.name}, Count: tt.n,
					Reporter: bulkhead.Reporter{Account: "a"}})
				b.pass(day)
			}
			var got []uint32
			for i, name := range strangers(b, 9) {
				for _, g := range gathered(b, message(by(name, vote, sig(bulkhead.Exact, i), tt.name))) {
					got = append(got, g.Voters)
					if g.Signature != tt.name || g.Deliveries != tt.n*uint32(tt.days) || g.Lists {
						t.Errorf("%v: %+v", tt.name, g)
					}
				}
			}
			want := tt.want
			if vote == bulkhead.Ham {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v on %v, %d a day on %d days: noted at %v voters, want %v", vote, tt.name, tt.n, tt.days, got, want)
			}
		}
	}
}

// TestSpreading: a letter of a known sender is noted once, when a quarter of the threshold for bulk
// has it, which is 5 of 20.
func TestSpreading(t *testing.T) {
	for _, tt := range []struct {
		name string
		seen Seen
		n    uint32
		want bool
	}{
		{"four", Seen{GoodSender: true, Sightings: 3}, 1, false},
		{"five", Seen{GoodSender: true, Sightings: 4}, 1, true},
		{"five at once", Seen{GoodSender: true}, 5, true},
		{"caught", Seen{GoodSender: true, Sightings: 9, Caught: true}, 1, false},
		{"an unknown sender", Seen{Sightings: 9}, 1, false},
		{"a sender to many", Seen{GoodSender: true, Sightings: 9, History: 20}, 1, false},
		{"a sender to few", Seen{GoodSender: true, Sightings: 9, History: 19}, 1, true},
	} {
		b := newBooks(t)
		voters(b)
		m := message(bulkhead.Report{Signatures: mail(1, "seldom.example"), Count: tt.n,
			Reporter: bulkhead.Reporter{Account: "a"}})
		m.Seen = tt.seen
		got := gathered(b, m)
		if (len(got) == 1) != tt.want || tt.want && (!got[0].Spreads || got[0].Deliveries != tt.seen.Sightings+tt.n ||
			got[0].Reporter != "a" || got[0].Signature.Scheme().Facet() != bulkhead.TextFacet) {
			t.Errorf("%s: noted %+v, want %v", tt.name, got, tt.want)
		}
		if got = gathered(b, m); len(got) > 0 {
			t.Errorf("%s: noted again: %+v", tt.name, got)
		}
	}
	b := newBooks(t)
	voters(b)
	m := message(bulkhead.Report{Signatures: mail(1, "seldom.example"), Recipients: []string{"ann@here.example"},
		Reporter: bulkhead.Reporter{Account: "a"}})
	b.batch(m)
	m.Seen = Seen{GoodSender: true, Sightings: 9}
	if got := gathered(b, m); len(got) > 0 {
		t.Errorf("another copy to the same recipient is noted: %+v", got)
	}
	for i, want := range []int{1, 1, 0, 0} { // two texts, in turn
		m := message(bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 1<<20+i%2)},
			Reporter: bulkhead.Reporter{Account: "a"}})
		m.Seen = Seen{GoodSender: true, Sightings: 9}
		if got := gathered(b, m); len(got) != want {
			t.Errorf("report %d of two texts: noted %+v, want %d", i, got, want)
		}
	}
	for i := range 2*maxNoticed + 10 { // of many texts, the memory is bounded
		m := message(bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i)},
			Reporter: bulkhead.Reporter{Account: "a"}})
		m.Seen = Seen{GoodSender: true, Sightings: 9}
		b.begin()
		if _, err := b.r.Report(m); err != nil || len(b.r.Gatherings()) != 1 || len(b.r.noticed.spreading) > maxNoticed {
			t.Fatalf("text %d: %d gatherings, %d texts in memory, %v", i, len(b.r.Gatherings()), len(b.r.noticed.spreading), err)
		}
	}
}

// TestAccusing: the lists of peers on delivered mail are noted at half of the weight that lists it,
// and whenever that has doubled.
func TestAccusing(t *testing.T) {
	b := newBooks(t)
	voters(b)
	s := link("shop.example")
	for i, tt := range []struct {
		peers  float64
		caught bool
		want   bool
	}{
		{0, false, false}, {0.49, false, false}, {0.5, true, false}, {0.5, false, true}, {0.5, false, false},
		{0.99, false, false}, {1, false, true}, {0.5, false, false}, {1.9, false, false}, {2, false, true},
		{7.9, false, true}, {4, false, false}, {8, false, true},
	} {
		m := message(bulkhead.Report{Signatures: mail(i, "shop.example"), Reporter: bulkhead.Reporter{Account: "a"}})
		m.Seen = Seen{Caught: tt.caught, Accused: Accused{Signature: s, Peers: tt.peers, Deliveries: 30}}
		got := gathered(b, m)
		if (len(got) == 1) != tt.want || tt.want && (got[0].Peers != tt.peers || got[0].Signature != s ||
			got[0].Deliveries != 30 || got[0].Vote != bulkhead.Spam) {
			t.Errorf("step %d: peers with a weight of %v, caught %v: %+v, want %v", i, tt.peers, tt.caught, got, tt.want)
		}
	}
	for i := range maxNoticed + 10 {
		m := message(bulkhead.Report{Signatures: mail(1, "shop.example"), Reporter: bulkhead.Reporter{Account: "a"}})
		m.Seen.Accused = Accused{Signature: link(fmt.Sprint(i, ".example")), Peers: 1}
		b.begin()
		if _, err := b.r.Report(m); err != nil || len(b.r.Gatherings()) != 1 || len(b.r.noticed.accusing) > maxNoticed {
			t.Fatalf("link %d: %d gatherings, %d links in memory, %v", i, len(b.r.Gatherings()), len(b.r.noticed.accusing), err)
		}
	}
}

// TestRevokersBounded checks that revocations are counted by text, in a memory of bounded size.
func TestRevokersBounded(t *testing.T) {
	b := newBooks(t)
	for i := range maxNoticed + 10 {
		it := item{key: filter.Key{Hi: uint64(i)}}
		want := uint32(1)
		if i == 0 {
			b.r.votersOf(&it, bulkhead.Revocation)
			want = 2
		}
		if n := b.r.votersOf(&it, bulkhead.Revocation); n != want || len(b.r.noticed.revokers) > maxNoticed {
			t.Fatalf("text %d: %d revocations, want %d; %d texts in memory", i, n, want, len(b.r.noticed.revokers))
		}
	}
}
