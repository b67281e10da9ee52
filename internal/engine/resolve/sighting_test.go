package resolve

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// mail is a message of every facet.
func mail(n int, from string) []bulkhead.Signature {
	return append(text(n), sig(bulkhead.Exact, n), sig(bulkhead.RazorE8, n), sender(from), sender("alice@"+from),
		link("shop.example"), link("shop.example/a"),
		network("192.0.2.0/24"), sig(bulkhead.Attachment, n), bulkhead.NamedSignature(bulkhead.Contact,
			"tel:123456789"), sig(bulkhead.Markup, n))
}

// TestDeliveries checks that a recipient counts once a day: for a text whoever sends it, and for a
// sender and its links whatever the text is. A caught message is no delivery, except for the sender
// of a message that only its text condemned, and for every network.
func TestDeliveries(t *testing.T) {
	to := func(names ...string) []string { return names }
	for n, tt := range []struct {
		name               string
		seen               []Seen
		to                 [][]string
		texts, names, same uint32 // deliveries of the text, of the sender's links, and of the sender
		network            uint32
	}{
		{"three recipients", []Seen{{}}, [][]string{to("a", "b", "c")}, 3, 3, 3, 3},
		{"one twice", []Seen{{}, {}}, [][]string{to("a"), to("a")}, 1, 1, 1, 1},
		{"one in a message twice", []Seen{{}}, [][]string{to("a", "a")}, 1, 1, 1, 1},
		{"caught", []Seen{{Caught: true}}, [][]string{to("a", "b")}, 0, 0, 0, 2},
		{"caught by its text", []Seen{{Caught: true, TextAlone: true}}, [][]string{to("a", "b")}, 0, 0, 2, 2},
		{"suspected for its text", []Seen{{TextAlone: true}}, [][]string{to("a")}, 1, 1, 1, 1},
		{"caught later", []Seen{{}, {Caught: true}}, [][]string{to("a"), to("b", "c")}, 1, 1, 1, 3},
		{"nobody named", []Seen{{}, {}}, [][]string{nil, nil}, 10, 10, 10, 10},
	} {
		b := newBooks(t)
		sigs := mail(n, "bank.example")
		for i, seen := range tt.seen {
			b.seen(seen, bulkhead.Report{Signatures: sigs, Recipients: tt.to[i], Count: 5})
		}
		for range 2 { // as said today, and tomorrow
			for _, s := range sigs {
				want := tt.texts
				switch s.Scheme().Facet() {
				case bulkhead.SenderFacet:
					want = tt.same
				case bulkhead.LinkFacet, bulkhead.ContactFacet:
					want = tt.names
				case bulkhead.NetworkFacet:
					want = tt.network
				}
				if got := b.of(s); got.Old+got.New != want {
					t.Errorf("%s: %d deliveries before today and %d today of a %v, want %d", tt.name, got.Old, got.New, s.Scheme(),
						want)
				}
			}
			b.pass(day)
		}
	}
}

// TestAnotherText checks that a sender's second message of the day to one recipient counts
// for its text but not for the sender. The next day it counts for both.
func TestAnotherText(t *testing.T) {
	b := newBooks(t)
	from := func(n int) bulkhead.Report {
		return bulkhead.Report{Signatures: append(text(n), sender("bank.example"), link("bank.example")),
			Recipients: []string{"a"}}
	}
	b.report(from(1))
	if got := b.report(from(2)); got.Counted != 20 || got.Duplicate != 2 {
		t.Errorf("another text: %+v, want its bands counted, and not sender and link", got)
	}
	b.pass(day)
	b.report(from(1))
	if got := b.of(sender("bank.example")); got.Old != 1 || got.New != 1 || got.Days != 1 {
		t.Errorf("%d deliveries before today on %d days, %d today, want 1 of each", got.Old, got.Days, got.New)
	}
}

// TestIDs checks that a report with an ID counts once, and that the same ID from another
// reporter, or of another message, is another report.
func TestIDs(t *testing.T) {
	b := newBooks(t)
	b.put("a", trust.Trusted, 1)
	r := by("a", bulkhead.Sighting, text(1)...)
	r.ID = "1"
	other := by("a", bulkhead.Sighting, text(2)...)
	other.ID = "1"
	local := r
	local.Reporter = bulkhead.Reporter{}
	for _, tt := range []struct {
		r       bulkhead.Report
		counted int
	}{{r, 20}, {r, 0}, {other, 20}, {local, 20}, {local, 0}} {
		if got := b.report(tt.r); got.Counted != tt.counted || got.Counted+got.Duplicate != 20 {
			t.Errorf("%v: %+v, want %d counted", tt.r.Reporter, got, tt.counted)
		}
	}
	if n := b.view.Tally.Live[0].Unique.Keys(); n != 3 {
		t.Errorf("%d keys for three reports, want one each", n)
	}
}

// TestGood checks that deliveries by senders of good standing guard whole texts and links,
// but not bands, and that mail which was not flagged counts for its network.
func TestGood(t *testing.T) {
	b := newBooks(t)
	sigs := mail(1, "bank.example")
	b.seen(Seen{GoodSender: true}, bulkhead.Report{Signatures: sigs, Count: 3})
	b.seen(Seen{GoodSender: true, Caught: true, Flagged: true}, bulkhead.Report{Signatures: sigs, Count: 9})
	b.seen(Seen{}, bulkhead.Report{Signatures: sigs, Count: 9})
	b.seen(Seen{Flagged: true}, bulkhead.Report{Signatures: sigs, Count: 5})
	for _, s := range sigs {
		want := uint32(0)
		switch s.Scheme() {
		case bulkhead.Exact, bulkhead.Link:
			want = 3
		case bulkhead.Network:
			want = 12
		}
		if got := b.of(s).Good; got != want {
			t.Errorf("%v: %d from good senders, want %d", s.Scheme(), got, want)
		}
	}
}

// TestAddresses checks that the addresses of a domain are counted without each week's first:
// a domain with one address is never shared.
func TestAddresses(t *testing.T) {
	b := newBooks(t)
	write := func(address string) {
		b.report(bulkhead.Report{Signatures: append(text(1), sender("mail.example"), sender(address+"@mail.example"))})
	}
	for week := range 3 {
		for d := range 7 {
			write("alice")
			if d > 0 {
				write(fmt.Sprint("bob", d%2))
			}
			b.pass(day)
		}
		if got, want := b.of(sender("mail.example")).Addresses, uint32(2*(week+1)); got != want {
			t.Errorf("week %d: %d addresses, want %d", week, got, want)
		}
	}
	for range 60 {
		b.report(bulkhead.Report{Signatures: []bulkhead.Signature{sender("shop.example"), sender("news@shop.example")}})
		b.pass(day)
	}
	if e := b.of(sender("shop.example")); e.Addresses != 0 || e.Shared() {
		t.Errorf("%d addresses of a shop with one", e.Addresses)
	}
	many := newBooks(t)
	for i := range 20 {
		many.report(bulkhead.Report{Signatures: []bulkhead.Signature{sender("free.example"),
			sender(fmt.Sprint("user", i, "@free.example"))}})
	}
	if e := many.of(sender("free.example")); !e.Shared() {
		t.Errorf("%d addresses in %d deliveries: not everybody's", e.Addresses, e.Old+e.New)
	}
}

// TestSenders checks that a link has as many senders as there are verified domains, other than
// its own, whose mail with it was delivered: each is counted once in eight weeks.
func TestSenders(t *testing.T) {
	b := newBooks(t)
	deliver := func(seen Seen, what ...bulkhead.Signature) {
		b.seen(seen, bulkhead.Report{Signatures: append(text(1),
			append(what, link("docs.example"), link("docs.example/form"))...)})
	}
	senders := func(want uint32) {
		t.Helper()
		for _, name := range []string{"docs.example", "docs.example/form"} {
			if got := b.of(link(name)).Addresses; got != want {
				t.Errorf("%d senders of %s, want %d", got, name, want)
			}
		}
	}
	deliver(Seen{}, sender("a.example"), sender("ann@a.example"))
	senders(1)
	deliver(Seen{}, sender("a.example"), sender("bob@a.example"))
	senders(1)
	deliver(Seen{}, sender("docs.example"), sender("no-reply@docs.example"))
	deliver(Seen{}, sender("esp.example|b.example"))
	deliver(Seen{}, network("192.0.2.0/24"))
	deliver(Seen{Caught: true}, sender("c.example"))
	senders(1)
	for range 6 {
		b.pass(7 * day)
		deliver(Seen{}, sender("a.example"))
		deliver(Seen{}, sender("d.example"))
		deliver(Seen{}, sender("d.example"))
	}
	senders(2)
	var batch []*Message
	for i := range 30 { // each sender twice, and more of them than count in a week
		batch = append(batch, message(bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, i),
			sender(fmt.Sprint("e", i%15, ".example")), link("docs.example"), link("docs.example/form")}}))
	}
	b.batch(batch...)
	senders(12)
	for i := range 50 {
		deliver(Seen{}, sender(fmt.Sprint("f", i, ".example")))
	}
	if got := b.of(link("docs.example")).Addresses; got < 10 || got > 20 {
		t.Errorf("%d senders of a link that everybody uses, want 10 or some more", got)
	}
	b.pass(70 * day)
	senders(0)
}

// counted returns the count of a key in an array.
func counted(array interface{ CountBatch([]filter.Key, []uint32) }, k filter.Key) uint32 {
	var n [1]uint32
	array.CountBatch([]filter.Key{k}, n[:])
	return n[0]
}

// TestSketch checks that a node with peers enters the sketch of a link's senders into the tally of each day, from
// as many senders on as a signature needs sightings to be shared.
func TestSketch(t *testing.T) {
	for _, floor := range []uint32{0, 2, 3} {
		b := newBooks(t)
		o := tallyOf
		o.Floor = floor
		b.tally = book.NewTally(o, 50_000, maker.Secret.ID(), true, slog.New(slog.DiscardHandler))
		b.view.Tally.Live = nil
		b.pass(0)
		b.view.Remote = &replica.View{Origins: []*replica.Held{{}}}
		docs := link("docs.example")
		base := maker.Base(&docs)
		place := func(from string) int { return evidence.PlaceOf(maker.Sender(from, base)) }
		shown := func() (places []int) {
			for i := range evidence.SenderPlaces {
				switch n := counted(b.view.Tally.Live[0].Counts, maker.SenderPlace(base, i).With(evidence.Sighting)); n {
				case 0:
				case max(1, floor):
					places = append(places, i)
				default:
					t.Errorf("floor %d: place %d has a count of %d", floor, i, n)
				}
			}
			return places
		}
		var want []int
		from := func(name string) {
			b.report(bulkhead.Report{Signatures: append(text(1), sender(name), docs)})
		}
		for i := 0; len(want) < 5; i++ {
			name := fmt.Sprint("s", i, ".example")
			if slices.Contains(want, place(name)) {
				continue // two senders of one place count as one
			}
			want = append(want, place(name))
			slices.Sort(want)
			from(name)
			if got := shown(); len(want) < int(floor) && got != nil || len(want) >= int(floor) && !slices.Equal(got, want) {
				t.Errorf("floor %d: places %v are shown of %v", floor, got, want)
			}
		}
		from("s0.example")
		if got := shown(); !slices.Equal(got, want) {
			t.Errorf("floor %d: places %v are shown after another letter, want %v", floor, got, want)
		}
		b.pass(day)
		if got := shown(); got != nil {
			t.Errorf("floor %d: places %v are shown on a new day", floor, got)
		}
		from("s0.example")
		if got := shown(); !slices.Equal(got, want) {
			t.Errorf("floor %d: places %v are shown on a new day, want %v", floor, got, want)
		}
	}
}

// TestAuthors compares the number of names that mail of an address claims with a plain set. The first mail of a week
// does not count, and neither does mail called spam, mail without a name, or the mail of another address.
func TestAuthors(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		b := newBooks(t)
		names := make(map[string]bool)
		sent := false // by the address
		for range rapid.IntRange(0, 12).Draw(draw, "mails") {
			from := rapid.SampledFrom([]string{"no-reply@a.example", "no-reply@a.example", "ann@a.example"}).Draw(draw, "from")
			name := rapid.SampledFrom([]string{"", "annexample", "bobexample", "carolexample"}).Draw(draw, "name")
			caught := rapid.Bool().Draw(draw, "caught")
			sigs := append(text(1), sender("a.example"), sender(from))
			if name != "" {
				sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Claim, name))
			}
			b.seen(Seen{Caught: caught}, bulkhead.Report{Signatures: sigs})
			if from != "no-reply@a.example" || caught {
				continue
			}
			if sent && name != "" {
				names[name] = true
			}
			sent = true
		}
		if got := b.of(sender("no-reply@a.example")).Addresses; int(got) != len(names) {
			draw.Fatalf("%d names, want %d", got, len(names))
		}
	})
}

// TestVerified checks the count of all deliveries from verified senders, and of those that were their
// senders' first of the week: a small site is mature by them.
func TestVerified(t *testing.T) {
	b := newBooks(t)
	deliver := func(seen Seen, from ...bulkhead.Signature) {
		b.seen(seen, bulkhead.Report{Signatures: append(text(1), from...)})
		b.pass(time.Hour)
	}
	deliver(Seen{}, sender("a.example"))
	deliver(Seen{}, sender("a.example"))
	deliver(Seen{}, sender("b.example"), sender("bob@b.example"))
	deliver(Seen{}, sender("b.example"), sender("ann@b.example"))
	deliver(Seen{}, network("192.0.2.0/24"))
	deliver(Seen{Caught: true, TextAlone: true}, sender("c.example"))
	all := maker.Everything()
	for name, array := range map[string]interface {
		CountBatch([]filter.Key, []uint32)
	}{"tally": b.view.Tally.Live[0].Counts, "names": b.view.Block.Live[0].Names} {
		if n, first := counted(array, all.With(evidence.Sighting)), counted(array, all.With(evidence.Addresses)); n != 4 ||
			first != 2 {
			t.Errorf("%s: %d deliveries from verified senders, %d were their first; want 4 and 2", name, n, first)
		}
	}
}

// TestNames checks that names are known for weeks, and texts for days.
func TestNames(t *testing.T) {
	b := newBooks(t)
	sigs := mail(1, "bank.example")
	for range 2 {
		b.report(bulkhead.Report{Signatures: sigs, Count: 4})
		b.pass(20 * day)
	}
	for _, s := range sigs {
		want, days := uint32(0), 0
		if named(s.Scheme().Facet()) {
			want, days = 8, 2
		}
		if got := b.of(s); got.Old != want || got.New != 0 || got.Days != days {
			t.Errorf("%v: %d deliveries on %d days, %d today; want %d on %d", s.Scheme(), got.Old, got.Days, got.New, want, days)
		}
	}
}

// TestNamesFull checks that mail with ever new names fills only the tally: the blocklist
// takes no new ones, and goes on counting those it knows.
func TestNamesFull(t *testing.T) {
	b := newBooks(t)
	known := link("known.example")
	b.report(bulkhead.Report{Signatures: []bulkhead.Signature{known}})
	for i := range 90 {
		var sigs []bulkhead.Signature
		for j := range 1000 {
			sigs = append(sigs, link(fmt.Sprint("x", i, "-", j, ".example")))
		}
		b.report(bulkhead.Report{Signatures: sigs})
	}
	b.report(bulkhead.Report{Signatures: []bulkhead.Signature{known}})
	if n := b.view.Block.Live[0].Names.Keys(); n > 64_000 {
		t.Errorf("%d names where 50,000 have room", n)
	}
	b.pass(10 * day)
	if got := b.of(known); got.Old != 2 {
		t.Errorf("a name that was known: %d deliveries, want 2", got.Old)
	}
	if live := b.view.Block.Live; len(live) != 2 || live[1].Fill() > 0.01 {
		t.Errorf("%d generations, want that of this week and the last, and that not full", len(live))
	}
}

// TestClaims checks that strangers' sightings count for texts only, one for each voice, up
// to half the threshold.
func TestClaims(t *testing.T) {
	b := newBooks(t)
	sigs := mail(1, "bank.example")
	for i := range 50 {
		r := bulkhead.Report{Signatures: sigs, Count: 100, Recipients: []string{"a", "b"},
			Reporter: bulkhead.Reporter{Addr: netip.AddrFrom4([4]byte{198, 18, byte(i), 1})}}
		for range 2 {
			b.seen(Seen{GoodSender: true}, r)
		}
	}
	for _, s := range sigs {
		want := uint32(0)
		if s.Scheme().Facet() == bulkhead.TextFacet {
			want = 10
		}
		if got := b.of(s); got.Sightings != want || got.Good != 0 {
			t.Errorf("%v: %d sightings, %d of good senders, want %d and none", s.Scheme(), got.Sightings, got.Good, want)
		}
	}
	if n := b.view.Block.Live[0].Names.Keys(); n != 0 {
		t.Errorf("strangers made %d names known", n)
	}
	if !slices.Equal(b.r.Decisions().Credits, nil) {
		t.Error("credits for sightings")
	}
	k := maker.Base(&sigs[0])
	if got := b.read(k, evidence.Counts); got.New != 10 {
		t.Errorf("%d deliveries", got.New)
	}
}

// TestHeld checks that a message counts once for each part of a reported text that it contains, unless the part is
// one of its own signatures.
func TestHeld(t *testing.T) {
	own, part, other := sig(bulkhead.Exact, 1), sig(bulkhead.Part, 2), sig(bulkhead.Part, 3)
	for name, tt := range map[string]struct {
		seen         Seen
		caught, good uint32
	}{"delivered": {Seen{}, 0, 0}, "caught": {Seen{Caught: true, GoodSender: true}, 4, 0},
		"of a known sender": {Seen{GoodSender: true}, 0, 4}} {
		b := newBooks(t)
		m := message(bulkhead.Report{Signatures: []bulkhead.Signature{own}, Count: 4})
		m.Seen = tt.seen
		m.Seen.Held = []filter.Key{maker.Base(&part), m.Keys[0], maker.Base(&part)}
		b.batch(m)
		array := b.view.Tally.Live[0].Counts
		for s, want := range map[*bulkhead.Signature]uint32{&part: 4, &own: 4, &other: 0} {
			if got := counted(array, maker.Base(s).With(evidence.Sighting)); got != want {
				t.Errorf("%s: %d sightings of %v, want %d", name, got, s, want)
			}
		}
		k := maker.Base(&part)
		if caught, good := counted(array, k.With(evidence.Caught)), counted(array, k.With(evidence.Good)); caught !=
			tt.caught || good != tt.good {
			t.Errorf("%s: %d caught and %d good, want %d and %d", name, caught, good, tt.caught, tt.good)
		}
	}
}
