package resolve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

func voters(b *books) {
	for _, name := range []string{"a", "b", "c"} {
		b.put(name, trust.Trusted, 1)
	}
	b.put("half", trust.Trusted, 0.5)
	b.put("x", trust.Member, 0.05)
}

// deliver delivers a message n times on each of some days before today.
func deliver(b *books, n uint32, days int, sigs ...bulkhead.Signature) {
	for range days {
		b.report(bulkhead.Report{Signatures: sigs, Count: n})
		b.pass(day)
	}
}

// TestBlame checks that a vote falls in full on the text, and otherwise on what is new in a
// message.
func TestBlame(t *testing.T) {
	b := newBooks(t)
	voters(b)
	deliver(b, 60, 3, link("bank.example"), sender("old.example"))
	msg := append(text(1), sender("new.example"), link("bank.example"), link("evil.example"))
	b.report(by("a", bulkhead.Spam, msg...))
	for s, want := range map[bulkhead.Signature][2]int64{
		text(1)[0]: {100, 0}, sender("new.example"): {100, 100}, link("evil.example"): {91, 100},
		link("bank.example"): {9, 100},
	} {
		if got := b.of(s); got.Votes.Spam != want[0] || got.Unblamed != want[1] {
			t.Errorf("%v: blamed %d of %d, want %v", s, got.Votes.Spam, got.Unblamed, want)
		}
	}
	// For the next nine the bank is hardly established any more: a sender that is reported
	// so often, in whatever company, is to blame.
	for i := range 9 {
		b.put(fmt.Sprint("more", i), trust.Trusted, 1)
		b.report(by(fmt.Sprint("more", i), bulkhead.Spam, msg...))
	}
	if got := b.of(link("bank.example")); got.Votes.Spam <= 100 || got.Unblamed != 1000 {
		t.Errorf("after ten: blamed %d of %d", got.Votes.Spam, got.Unblamed)
	}
	// If everything in a message is established, the least established part takes most.
	deliver(b, 100, 2, text(2)...)
	b.report(by("a", bulkhead.Spam, append(text(2), sender("old.example"))...))
	if got := b.of(sender("old.example")); got.Votes.Spam != 100 {
		t.Errorf("a sender that is as well known as the text: blamed %d of 100", got.Votes.Spam)
	}
}

// TestDecoys checks that neither a domain that no other mail had nor a well-known one takes blame from a link of
// earlier copies. Among domains that are all new, or of which one is established, the blame is shared.
func TestDecoys(t *testing.T) {
	b := newBooks(t)
	voters(b)
	deliver(b, 60, 3, link("bank.example"), sender("old.example"))
	for n := range 2 {
		b.report(bulkhead.Report{Signatures: append(text(8+n), link("evil.example")), Count: 1})
	}
	for _, tt := range []struct {
		n     int
		links string
		want  []int64
	}{
		{10, "evil.example decoy1.example decoy2.example", []int64{97, 34, 34}},
		{11, "evil.example github.com paypal.com", []int64{100, 33, 33}},
		{12, "evil.example", []int64{100}},
		{13, "new1.example new2.example", []int64{50, 50}},
		{14, "new3.example paypal.com", []int64{100, 50}},
		{15, "bank.example new4.example", []int64{9, 91}},
		{16, "github.com github.com/one paypal.com", []int64{50, 50, 50}},
	} {
		msg := text(tt.n)
		for _, name := range strings.Fields(tt.links) {
			msg = append(msg, link(name))
		}
		before := make([]int64, len(tt.want))
		for i := range tt.want {
			before[i] = b.of(msg[len(text(tt.n))+i]).Votes.Spam
		}
		who := fmt.Sprint("decoy", tt.n)
		b.put(who, trust.Trusted, 1)
		b.report(by(who, bulkhead.Spam, msg...))
		for i, want := range tt.want {
			s := msg[len(text(tt.n))+i]
			if got := b.of(s).Votes.Spam - before[i]; got != want {
				t.Errorf("%s: the vote weighs %d on %v, want %d", tt.links, got, s, want)
			}
		}
	}
}

// TestWhole checks that a vote against spam is never shared, and that a voter who changes
// sides takes back exactly what the vote had added.
func TestWhole(t *testing.T) {
	b := newBooks(t)
	voters(b)
	deliver(b, 60, 3, link("bank.example"))
	msg := append(text(1), sender("new.example"), link("bank.example"), link("evil.example"))
	b.report(by("a", bulkhead.Spam, msg...))
	b.report(by("half", bulkhead.Spam, msg...))
	b.pass(9 * day)
	b.report(by("a", bulkhead.Ham, msg...))
	for s, want := range map[bulkhead.Signature]trust.Balance{
		text(1)[0]: {Spam: 50, Ham: 100}, link("bank.example"): {Spam: 5, Ham: 100},
		link("evil.example"): {Spam: 45, Ham: 100},
	} {
		if got := b.of(s); got.Votes != want || (named(s.Scheme().Facet()) && got.Unblamed != 50) {
			t.Errorf("%v: %+v, %d unblamed, want %+v", s, got.Votes, got.Unblamed, want)
		}
	}
	b.report(by("half", bulkhead.Revocation, msg...))
	b.report(by("a", bulkhead.Spam, msg...))
	if got := b.of(link("evil.example")); got.Votes != (trust.Balance{Spam: 91, Ham: 50}) || got.Unblamed != 100 {
		t.Errorf("in the end %+v, %d unblamed", got.Votes, got.Unblamed)
	}
}

// TestPairs checks that a vote falls on the text with its sender, its newest links and the
// network.
func TestPairs(t *testing.T) {
	b := newBooks(t)
	voters(b)
	deliver(b, 10, 2, link("known.example"), link("bank.example"))
	msg := append(text(1), sender("evil.example"), sender("a@evil.example"), link("known.example"), link("x1.example"),
		link("x2.example"),
		link("x3.example"), link("x3.example/a"), link("www.evil.example"), network("192.0.2.0/24"), sig(bulkhead.Exact, 1))
	b.report(by("a", bulkhead.Spam, msg...))
	for i, band := range text(1) {
		for s, want := range map[bulkhead.Signature]int64{
			sender("evil.example"): 100, sender("a@evil.example"): 0, link("x1.example"): 100, link("x2.example"): 100,
			link("x3.example"):   100,
			link("x3.example/a"): 0, link("known.example"): 0, link("www.evil.example"): 0, network("192.0.2.0/24"): 0,
		} {
			if i >= 8 {
				want = 0
			}
			if got := b.pair(band, s); got.Votes.Spam != want || (got.Own == verdict.Listed) != (want > 0) {
				t.Errorf("band %d with %v: %+v, want %d", i, s, got.Evidence, want)
			}
		}
		want := uint32(4)
		if i >= 8 {
			want = 0
		}
		if got := b.of(band).Contexts; got != want {
			t.Errorf("band %d was reported with %d, want %d", i, got, want)
		}
	}
	// The network is not one of the text's contexts, and needs three votes of its own.
	if got := b.of(network("192.0.2.0/24")); got.Votes != (trust.Balance{Spam: 100}) || got.Own != verdict.Nothing ||
		got.Spam != 1 {
		t.Errorf("network: %+v", got)
	}
	for range 2 {
		b.report(by("b", bulkhead.Spam, msg...)) // again, with nothing new
	}
	if got := b.of(text(1)[0]).Contexts; got != 4 {
		t.Errorf("%d contexts after the same again, want 4", got)
	}
	b.report(by("x", bulkhead.Spam, append(text(1), link("stranger.example"))...))
	if got := b.of(text(1)[0]).Contexts; got != 4 {
		t.Errorf("a stranger made %d contexts", got)
	}
	if got := b.pair(text(1)[0], link("stranger.example")).Votes; got != (trust.Balance{StrangerSpam: 5}) {
		t.Errorf("a stranger's pair: %+v", got)
	}
	b.report(by("a", bulkhead.Ham, msg...))
	if got := b.pair(text(1)[0], sender("evil.example")).Votes; got != (trust.Balance{Spam: 100, Ham: 100}) {
		t.Errorf("after a ham vote: %+v", got)
	}
}

// TestNeeds checks that one voter lists a text, two a link, three a network or a pair with a
// sender of good standing, and that what was delivered often takes more.
func TestNeeds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		s      bulkhead.Signature
		seen   uint32 // on each of four days
		voters int    // after which it is listed
	}{
		{"a new text", sig(bulkhead.Exact, 1), 0, 1},
		{"a known text", sig(bulkhead.Exact, 1), 100, 2},
		{"a new link", link("evil.example"), 0, 2},
		{"a known link", link("evil.example"), 30, 4},
		{"a new sender", sender("evil.example"), 0, 2},
		{"a new network", network("192.0.2.0/24"), 0, 3},
		{"a known network", network("192.0.2.0/24"), 10, 5},
		{"an attachment", sig(bulkhead.Attachment, 1), 0, 2},
		{"a known attachment", sig(bulkhead.Attachment, 1), 50, 3},
	} {
		b := newBooks(t)
		if tt.seen > 0 {
			deliver(b, tt.seen, 4, tt.s)
		}
		for n := 1; n <= 6; n++ {
			name := fmt.Sprint("voter", n)
			b.put(name, trust.Trusted, 1)
			got := b.report(by(name, bulkhead.Spam, tt.s))
			if listed := b.of(tt.s).Own == verdict.Listed; listed != (n >= tt.voters) || got.Listed != b2i(n == tt.voters) {
				t.Errorf("%s: listed %v after %d voters, %+v; want it after %d", tt.name, listed, n, got, tt.voters)
			}
		}
	}
	b := newBooks(t)
	deliver(b, 3, 4, sender("bank.example"))
	msg := append(text(1), sender("bank.example"))
	for n := 1; n <= 4; n++ {
		name := fmt.Sprint("voter", n)
		b.put(name, trust.Trusted, 1)
		b.report(by(name, bulkhead.Spam, msg...))
		if listed := b.pair(text(1)[0], sender("bank.example")).Own == verdict.Listed; listed != (n >= 3) {
			t.Errorf("pair with a good sender: listed %v after %d", listed, n)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A fact is the latest vote of a voice on an item, and its weight.
type fact struct {
	kind            uint8
	weight, unblame int64
	gen             uint64
}

// TestFacetsAgainstModel casts random votes of random voters on messages of many facets,
// over weeks and several in a batch, and compares every weight with maps of each voice's
// latest vote.
func TestFacetsAgainstModel(t *testing.T) {
	for seed := range uint64(seeds(4)) {
		for _, exact := range []bool{true, false} {
			rng := rand.New(rand.NewPCG(seed, 14))
			b := newBooksOf(t, exact, 400_000)
			voters(b)
			names := []string{"a", "b", "c", "half", "x"}
			model := make(map[string]map[string]fact) // by item, by voice
			var messages [][]bulkhead.Signature
			for n := range 6 {
				messages = append(messages, append(text(n%3), sender(fmt.Sprint("s", n%2, ".example")),
					link([]string{"l0.example", "l1.example", "l2.example", "l3.example", "l4.example", "paypal.com"}[n]),
					link("both.example"), link("both.example/x"), link("www.s0.example"), network("192.0.2.0/24"),
					sig(bulkhead.Exact, n), sig(bulkhead.Attachment, n%2)))
			}
			for range 150 {
				var batch []*Message
				for range 1 + rng.IntN(4) {
					name, vote := names[rng.IntN(len(names))], bulkhead.Vote(1+rng.IntN(3))
					batch = append(batch, message(by(name, vote, messages[rng.IntN(len(messages))]...)))
				}
				if rng.IntN(3) == 0 {
					b.report(bulkhead.Report{Signatures: messages[rng.IntN(len(messages))], Count: uint32(1 + rng.IntN(40))})
				}
				if rng.IntN(5) == 0 {
					b.pass(day)
				}
				votes := func(k filter.Key) (spam, unblamed int64) {
					for _, f := range model[fmt.Sprint(k)] {
						if b.view.Block.Find(f.gen) != nil {
							unblamed += f.unblame
							if f.kind == evidence.RootSpam {
								spam += f.weight
							}
						}
					}
					return spam, unblamed
				}
				b.begin()
				for _, m := range batch {
					shares := plainShares(b, m, votes)
					if _, err := b.r.Report(m); err != nil {
						t.Fatal(err)
					}
					for _, it := range b.r.items {
						id := fmt.Sprint(it.key)
						if model[id] == nil {
							model[id] = make(map[string]fact)
						}
						had, now := model[id][m.Reporter.Account], fact{gen: b.view.Block.Live[0].Start}
						if b.view.Block.Find(had.gen) == nil {
							had = fact{}
						}
						now.kind = weightKind(m.Vote, m.Reporter.Account != "x")
						if !it.mute {
							now.weight, now.unblame = wanted(m, it, Units(b.accounts.Worth(m.Reporter.Account)), shares)
						}
						if had.kind == now.kind {
							now.weight, now.unblame = max(now.weight, had.weight), max(now.unblame, had.unblame)
						}
						model[id][m.Reporter.Account] = now
					}
				}
				items := slices.Clone(b.r.items)
				b.apply()
				var all []filter.Key
				for _, it := range items {
					all = append(all, it.key)
				}
				read := b.readAll(all, evidence.Judgement)
				for i, it := range items {
					var want trust.Balance
					var unblamed int64
					for _, f := range model[fmt.Sprint(it.key)] {
						if b.view.Block.Find(f.gen) == nil {
							continue
						}
						*side(&want, f.kind) += f.weight
						unblamed += f.unblame
					}
					got := read[i]
					if got.Votes != want || !it.pair() && got.Unblamed != unblamed {
						t.Fatalf("seed %d, exact %v: %v, pair %v: %+v and %d, want %+v and %d", seed, exact, it.facet, it.pair(),
							got.Votes, got.Unblamed, want, unblamed)
					}
				}
			}
		}
	}
}

// wanted returns what a vote on an item should weigh, by the share of its signature or
// context.
func wanted(m *Message, it item, units uint32, shares map[string]plainShare) (weight, unblamed int64) {
	if m.Vote != bulkhead.Spam {
		return int64(units), 0
	}
	if !it.pair() && blamed(it.facet) && m.Reporter.Account != "x" {
		unblamed = int64(units)
	}
	share := 1.0
	switch {
	case it.pair() && it.facet == bulkhead.LinkFacet:
		share = shares[m.Signatures[it.context].String()].whole
	case !it.pair() && blamed(it.facet):
		i := slices.Index(m.Keys, it.key)
		share = shares[m.Signatures[i].String()].blame
	}
	return int64(math.Round(float64(units) * share)), unblamed
}

// A plainShare is how much of a vote falls on a part of a message, and how much of that
// is blame for one of several links.
type plainShare struct{ whole, blame float64 }

// plainShares divides a vote among the parts of a message as docs/judgement.md says: whole
// on what is new, and less on the others the less likely they are to blame.
func plainShares(b *books, m *Message, votes func(filter.Key) (spam, unblamed int64)) map[string]plainShare {
	established, least, texts := make(map[string]float64), math.Inf(1), 0
	known := b.readAll(m.Keys, evidence.Delivered|evidence.Names|evidence.Standing)
	evidenceOf := make(map[string]verdict.Evidence)
	for i, s := range m.Signatures {
		e := known[i]
		spam, outweighs := votes(m.Keys[i])
		f := s.Scheme().Facet()
		if s.Scheme() == bulkhead.Near {
			texts, outweighs = texts+1, spam
		}
		est := max(0, float64(e.Old)+0.3*float64(e.New)-20*float64(outweighs)/100)
		established[s.String()], evidenceOf[s.Name()] = est, e.Evidence
		if f != bulkhead.TextFacet || s.Scheme() == bulkhead.Near && texts <= 8 {
			least = min(least, est)
		}
	}
	// Links to the sender's own domain are its own fault; of the others one is to blame.
	own := ""
	foreign := make(map[string]float64) // domains
	for _, s := range m.Signatures {
		if s.Scheme() == bulkhead.Sender && own == "" {
			own = s.Name()
		}
	}
	host := func(s bulkhead.Signature) string { return strings.Split(s.Name(), "/")[0] }
	for _, s := range m.Signatures {
		if s.Scheme() == bulkhead.Link && !strings.Contains(s.Name(), "/") && !strings.HasSuffix(host(s), own) {
			foreign[s.Name()] = 1 / (20 + established[s.String()])
		}
	}
	out := make(map[string]plainShare)
	for _, s := range m.Signatures {
		est := established[s.String()]
		x := plainShare{whole: min(1, (20+least)/(20+est))}
		x.blame = x.whole
		if s.Scheme() == bulkhead.Link && !strings.HasSuffix(host(s), own) {
			novelty := 1 / (20 + est)
			all := novelty
			e := evidenceOf[s.Name()]
			rare := e.Good == 0 && e.Old-e.Late <= 17 && e.Old+e.New > 1
			for domain, other := range foreign {
				d := evidenceOf[domain]
				decoy := rare && d.Old+d.New <= 1 || domain == "paypal.com" && host(s) != domain
				if domain != host(s) && !decoy {
					all += other
				}
			}
			x.blame = min(x.whole, novelty/all)
		}
		out[s.String()] = x
	}
	return out
}

func side(b *trust.Balance, kind uint8) *int64 {
	return [...]*int64{&b.Spam, &b.Ham, &b.StrangerSpam, &b.StrangerHam}[kind]
}
